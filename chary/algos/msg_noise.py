"""All that is random in a step of MSG, drawn at once."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from chary.algos.msg_config import MSGConfig
from chary.execution.windows import Window
from chary.networks.targets import TARGETS


class Noise(NamedTuple):
    """All that is random in one step."""

    member_actions: Float[Array, "*member batch action"]
    """Standard normal, for a'_i ~ pi(s') and a_i ~ pi(s) in H_i, or without a member axis one draw for
    all: each is drawn anew in every step, and that the two share their noise leaves both expectations,
    and so the gradient's, as they are."""
    policy_actions: Float[Array, "batch action"]
    """Standard normal, for a ~ pi(s) in the policy's objective: one sample for all members."""
    weights: Float[Array, "member #head rows"]
    """U[0, 2], the weights of the squared TD errors: one for each network, or for both of a pair."""
    rows: Int[Array, "member rows"] | None = None
    """The rows that each member learns from, where these are not the batch's own in their order: all of
    them in another order, or a share."""
    ensemble_key: PRNGKeyArray | None = None
    """For what the ensemble itself draws, such as masks: the same for all its passes in a step."""

    def of(self, window: Window) -> "Noise":
        """The part of some members."""
        own = window.of if self.member_actions.ndim == 3 else lambda actions: actions
        return self._replace(
            member_actions=own(self.member_actions),
            weights=window.of(self.weights),
            rows=window.of(self.rows),
        )

    def arranged(
        self, batch: Float[Array, "*#member batch feature"]
    ) -> Float[Array, "*#member rows feature"]:
        """The rows of the batch as the members see them."""
        if self.rows is None:
            return batch
        if batch.ndim == 2:
            return batch[self.rows]
        return jnp.take_along_axis(batch, self.rows[..., None], axis=1)

    def in_order(
        self, heads: Float[Array, "member head rows *outputs"], size: int
    ) -> Float[Array, "member head rows *outputs"]:
        """Values of a batch of that size, back in the batch's own order; those of a share stay."""
        if self.rows is None or self.rows.shape[-1] < size:
            return heads
        places = jnp.argsort(self.rows, axis=-1)[:, None]
        places = places.reshape(*places.shape, *(1 for _ in heads.shape[3:]))
        return jnp.take_along_axis(heads, places, axis=2)


def draw_noise(
    config: MSGConfig,
    size: int,
    action_size: int,
    *,
    shared: bool,
    arrange: Callable[[int, PRNGKeyArray], Int[Array, "member batch"]] | None = None,
    key: PRNGKeyArray,
) -> Noise:
    """All draws of a step; with `shared`, one action sample for all members."""
    action_key, weight_key, rows_key, ensemble_key = jax.random.split(key, 4)
    # One draw for all purposes: with small networks, random numbers are a good part of the work.
    draws = 1 if shared else config.members
    normal = jax.random.normal(action_key, (draws + 1, size, action_size))
    rows = None if arrange is None else arrange(size, rows_key)
    if config.splits_rows:  # the rows of a batch are drawn at random: any share will do
        rows = jnp.arange(size).reshape(config.members, -1)
    heads = TARGETS[config.targets].heads if config.double_q == "mean" else 1
    weights = jnp.ones((config.members, heads, size if rows is None else rows.shape[-1]))
    if config.random_weights:
        weights = jax.random.uniform(weight_key, weights.shape, maxval=2.0)
    member_actions = normal[0] if shared else normal[:-1]
    return Noise(member_actions, normal[-1], weights, rows, ensemble_key)
