"""All that is random in a step of MSG, drawn at once."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from chary.algos.msg_config import MSGConfig
from chary.window import Window


class Noise(NamedTuple):
    """All that is random in one step."""

    member_actions: Float[Array, "*member batch action"]
    """Standard normal, for a'_i ~ pi(s') and a_i ~ pi(s) in H_i, or without a member axis one draw for
    all: each is drawn anew in every step, and that the two share their noise leaves both expectations,
    and so the gradient's, as they are."""
    policy_actions: Float[Array, "batch action"]
    """Standard normal, for a ~ pi(s) in the policy's objective: one sample for all members."""
    weights: Float[Array, "member batch"]
    """U[0, 2], the weights of the squared TD errors."""
    rows: Int[Array, "member batch"] | None = None
    """The order in which each member sees the batch, where that is not the batch's own."""
    ensemble_key: PRNGKeyArray | None = None
    """For what the ensemble itself draws, such as masks: the same for all its passes in a step."""

    def of(self, window: Window) -> "Noise":
        """The part of some members."""
        own = window.of if self.member_actions.ndim == 3 else lambda actions: actions
        return self._replace(
            member_actions=own(self.member_actions), weights=window.of(self.weights)
        )

    def arranged(
        self, batch: Float[Array, "*#member batch feature"]
    ) -> Float[Array, "*#member batch feature"]:
        """The batch as the members see it."""
        return batch if self.rows is None else batch[self.rows]

    def in_order(
        self, heads: Float[Array, "member head batch"]
    ) -> Float[Array, "member head batch"]:
        """Values of an arranged batch, back in the batch's own order."""
        if self.rows is None:
            return heads
        places = jnp.argsort(self.rows, axis=-1)
        return jnp.take_along_axis(heads, places[:, None], axis=-1)


def draw_noise(
    config: MSGConfig,
    size: int,
    action_size: int,
    *,
    shared: bool,
    arrange: Callable[[int, PRNGKeyArray], Int[Array, "member batch"]] | None = None,
    key: PRNGKeyArray,
) -> Noise:
    """All draws of a step; where targets or weights are shared, so are the actions."""
    action_key, weight_key, rows_key, ensemble_key = jax.random.split(key, 4)
    # One draw for all purposes: with small networks, random numbers are a good part of the work.
    draws = 1 if shared else config.members
    normal = jax.random.normal(action_key, (draws + 1, size, action_size))
    weights = jnp.ones((config.members, size))
    if config.random_weights:
        weights = jax.random.uniform(weight_key, weights.shape, maxval=2.0)
    member_actions = normal[0] if shared else normal[:-1]
    rows = None if arrange is None else arrange(size, rows_key)
    return Noise(member_actions, normal[-1], weights, rows, ensemble_key)
