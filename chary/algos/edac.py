"""SAC-N and EDAC: clipped Q-learning with many critics, and diversified (An, Moon, Kim and Song 2021).

N Q-functions share one target, the smallest of their next values, on top of SAC (`chary/algos/sac.py`):

    critics   y   = r + gamma * (min_i Q_target_i(s', a') - temperature * log pi(a' | s')),  a' ~ pi(s')
              ES  = E[sum_{i != j} cos(grad_a Q_i(s, a), grad_a Q_j(s, a))] / (N - 1)
              minimise  sum_i E[(Q_i(s, a) - y)^2] + eta * ES
    policy    maximise  E[min_i Q_i(s, a) - temperature * log pi(a | s)],  a ~ pi(s)

SAC-N is eta = 0, and needs many critics: the smallest of N is a lower bound only where they differ. EDAC
makes them differ in how they change with the action, around logged actions, and needs fewer.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from chary.algos.critics import LONG_RUN, EntropyConfig
from chary.algos.sac import NextValues, SACState, make_sac
from chary.config import require
from chary.networks.losses import critic_metrics, td_loss, td_targets
from chary.networks.targets import minimum, smallest
from chary.types import Algorithm, Batch, Metrics, PyTree


@dataclass(frozen=True)
class SACNConfig(EntropyConfig):
    """Settings of SAC-N; the defaults are the authors', with their smallest ensemble."""

    hidden: tuple[int, ...] = (256, 256, 256)
    members: int = 10
    """Number N of Q-functions. The authors use 10 to 500, depending on the task."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.members >= 1, "members", self.members, "at least 1")


@dataclass(frozen=True)
class EDACConfig(SACNConfig):
    """Settings of EDAC; the defaults are the authors'."""

    eta: float = 1.0
    """Weight of the similarity of the critics' gradients; 0 turns it off and saves its cost."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.eta >= 0.0, "eta", self.eta, "at least 0")
        if self.eta:
            require(self.members >= 2, "members", self.members, "at least 2, or --eta 0")


PAPER: dict[str, Any] = {"steps": 3_000_000, **LONG_RUN}
# What `small` changes in MSG, for the same reasons.
SMALL: dict[str, Any] = {
    "members": 8,
    "hidden": (64, 64, 64),
    "discount": 0.995,
    "tau": 0.05,
    "critic_learning_rate": 1e-3,
    "policy_learning_rate": 1e-4,
    "temperature": 0.1,
    "steps": 8_000,
}
# The paper has Gym and Adroit only. For mazes, the settings with which others ran it (Tarasov et al.
# 2022); on antmaze they learn from 0 and 1, so that what the dataset recommends must not apply.
ANTMAZE: dict[str, Any] = {"reward_scale": 1.0, "reward_shift": 0.0, **PAPER}
SAC_N_PRESETS: dict[str, dict[str, Any]] = {
    "paper-antmaze": {"members": 25, **ANTMAZE},
    "paper-gym": PAPER,  # halfcheetah's; the others follow
    "paper-hopper": {"members": 500, **PAPER},
    "paper-walker2d": {"members": 20, **PAPER},
    "paper-maze2d": {"members": 25, **PAPER},
    "paper-rlu": PAPER,
    "small": SMALL,
}
EDAC_PRESETS: dict[str, dict[str, Any]] = {
    "paper-antmaze": ANTMAZE,
    "paper-gym": PAPER,  # halfcheetah's and walker2d's
    "paper-hopper": {"members": 50, **PAPER},
    "paper-maze2d": {"eta": 0.1, **PAPER},
    "paper-rlu": PAPER,
    "small": SMALL,
}


class Hyper(NamedTuple):
    eta: Float[Array, ""]
    discount: Float[Array, ""]
    critic_learning_rate: Float[Array, ""]
    policy_learning_rate: Float[Array, ""]
    temperature_learning_rate: Float[Array, ""]
    tau: Float[Array, ""]
    target_entropy: Float[Array, ""]


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
        hyper=Hyper,
        objective=minimum,
        critic_loss=critic_loss,
    )


def make_sac_n(config: SACNConfig, observation_size: int, action_size: int) -> Algorithm[SACState]:
    """SAC-N for vectors of the given sizes: EDAC that does not diversify."""
    return make_edac(EDACConfig(**vars(config), eta=0.0), observation_size, action_size)
