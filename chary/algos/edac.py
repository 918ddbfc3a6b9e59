"""EDAC: SAC-N with diversified critics (An, Moon, Kim and Song 2021).

SAC-N (`chary/algos/sac_n.py`) needs many critics, because the smallest of N is a lower bound only where
they differ. EDAC makes them differ in how they change with the action, around logged actions:

    critics   y   = r + gamma * (min_i Q_target_i(s', a') - temperature * log pi(a' | s')),  a' ~ pi(s')
              ES  = E[sum_{i != j} cos(grad_a Q_i(s, a), grad_a Q_j(s, a))] / (N - 1)
              minimise  sum_i E[(Q_i(s, a) - y)^2] + eta * ES
    policy    maximise  E[min_i Q_i(s, a) - temperature * log pi(a | s)],  a ~ pi(s)

ES looks at all members together, so they are trained as a whole.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from chary.algos.sac import NextValues, SACState, by_gradient, make_sac
from chary.algos.sac_n import ANTMAZE, PAPER, SMALL, Hyper, ManyCriticsConfig
from chary.config import Weight, require
from chary.networks.losses import critic_metrics, td_loss, td_targets
from chary.networks.optimisers import as_arrays
from chary.networks.targets import minimum, smallest
from chary.types import Algorithm, Batch, Metrics, PyTree


@dataclass(frozen=True)
class EDACConfig(ManyCriticsConfig):
    """Settings of EDAC; the defaults are the authors'."""

    eta: Weight = 1.0
    """Weight of the similarity of the critics' gradients; 0 turns it off and saves its cost."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eta:
            require(self.members >= 2, "members", self.members, "at least 2, or --eta 0")


PRESETS: dict[str, dict[str, Any]] = {
    "paper-antmaze": ANTMAZE,
    "paper-gym": PAPER,  # halfcheetah's and walker2d's
    "paper-hopper": {"members": 50, **PAPER},
    "paper-maze2d": {"eta": 0.1, **PAPER},
    "paper-rlu": PAPER,
    "small": SMALL,
}


def similarity(gradients: Float[Array, "member batch action"]) -> Float[Array, ""]:
    """ES: how alike the members' gradients point, 0 where they are at right angles on average.

    N unit vectors add up to a vector of squared length N + sum_{i != j} cos(i, j): no pair is looked at.
    """
    # The square root has no gradient at zero: a critic that is flat there points nowhere.
    squares = (gradients**2).sum(axis=-1, keepdims=True)
    units = gradients / jnp.sqrt(squares + 1e-20)
    pairs = (units.sum(axis=0) ** 2).sum(axis=-1) - (units**2).sum(axis=(0, 2))
    return pairs.mean() / (len(gradients) - 1)


def make_edac(config: EDACConfig, observation_size: int, action_size: int) -> Algorithm[SACState]:
    """EDAC for vectors of the given sizes."""
    ensemble = config.critics(observation_size, action_size, members=config.members)
    diversify = config.eta != 0.0

    def critic_loss(
        critics: PyTree, state: SACState, batch: Batch, after: NextValues, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Metrics]:
        """All critics towards the smallest next value, and their gradients in the action apart."""
        del key  # nothing random is left
        next_values = smallest(after.members, axis=0) + after.bonus
        y = td_targets(batch, state.hyper.discount, next_values)
        each = jnp.broadcast_to(batch.actions, (config.members, *batch.actions.shape))
        values, backward = jax.vjp(
            lambda actions: ensemble.values(critics, batch.observations, actions), each
        )
        alike = similarity(*backward(jnp.ones_like(values))) if diversify else jnp.float32(0.0)
        heads = values[:, None]
        td = td_loss(heads, y)
        metrics = {"critic/similarity": alike, **critic_metrics(td, heads, y)}
        # Half of each, as in the TD loss: eta weighs what it weighs for the authors.
        return td.sum() + 0.5 * state.hyper.eta * alike, metrics

    return make_sac(
        config,
        observation_size,
        action_size,
        ensemble=ensemble,
        members=config.members,
        hyper=lambda target: as_arrays(Hyper, config, target_entropy=target),
        objective=minimum,
        learn_critics=by_gradient(ensemble, critic_loss),
    )
