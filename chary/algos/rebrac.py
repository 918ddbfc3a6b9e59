"""ReBRAC: the behaviour-regularised actor-critic, revisited (Tarasov et al. 2023).

TD3 (`chary/algos/td3.py`) with layer normalisation in deeper critics, larger batches, and the distance
from logged actions in both places, each with a weight of its own:

    critics   y = r + gamma * (min_i Q_target_i(s', a') - beta_2 * |a' - a'_logged|^2)
    policy    minimise  E[beta_1 * |pi(s) - a|^2 - lambda * min_i Q_i(s, pi(s))]
              lambda = 1 / E|min_i Q_i(s, pi(s))|, with no gradient through it

where a'_logged is what was done next in the data. After the last transition of an episode nobody knows,
and there is no penalty. Both squares are sums over action dimensions.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from chary.algos.critics import LONG_RUN
from chary.algos.td3 import TD3Config, TD3State, make_td3
from chary.config import Layers, Positive, Rate, Weight
from chary.networks.losses import normalised
from chary.networks.targets import smallest
from chary.types import Algorithm, Batch


@dataclass(frozen=True)
class ReBRACConfig(TD3Config):
    """Settings of ReBRAC; the defaults are the authors' for Gym."""

    hidden: Layers = (256, 256, 256)
    layer_norm: bool = True
    batch_size: Positive = 1024
    critic_learning_rate: Rate = 1e-3
    policy_learning_rate: Rate = 1e-3
    policy_penalty: Weight = 0.01
    """Weight beta_1 of the policy's squared distance from logged actions. Tune it for each task."""
    critic_penalty: Weight = 0.01
    """Weight beta_2 of the next action's squared distance from the logged one in the TD target.
    Tune it for each task."""


PAPER: dict[str, Any] = {"steps": 1_000_000, **LONG_RUN}
MAZE: dict[str, Any] = {"batch_size": 256, "policy_learning_rate": 3e-4, **PAPER}
PRESETS: dict[str, dict[str, Any]] = {
    # The weights are those of large-play, between the other mazes', which `WEIGHTS` has.
    "paper-antmaze": {
        "discount": 0.999,
        "reward_scale": 100.0,
        "reward_shift": 0.0,
        "critic_learning_rate": 5e-5,
        "policy_penalty": 0.002,
        "critic_penalty": 0.001,
        **MAZE,
    },
    # Those of hopper-medium.
    "paper-gym": PAPER,
    # All three mazes have the same.
    "paper-maze2d": {
        "critic_learning_rate": 3e-4,
        "policy_penalty": 0.003,
        "critic_penalty": 0.001,
        **MAZE,
    },
    "paper-rlu": PAPER,
    # What `small` changes in MSG, for the same reasons.
    "small": {
        "normalise_observations": "moments",
        "hidden": (64, 64, 64),
        "batch_size": 256,
        "discount": 0.995,
        "tau": 0.05,
        "critic_learning_rate": 3e-4,
        "policy_learning_rate": 3e-4,
        "steps": 8_000,
    },
}


def _weights(policy: float, critic: float) -> dict[str, float]:
    return {"policy_penalty": policy, "critic_penalty": critic}


WEIGHTS = {
    "halfcheetah-medium": _weights(0.001, 0.01),
    "walker2d-medium": _weights(0.05, 0.1),
    "antmaze-umaze": _weights(0.003, 0.002),
    "antmaze-umaze-diverse": _weights(0.003, 0.001),
    "antmaze-medium-play": _weights(0.001, 0.0005),
    "antmaze-medium-diverse": _weights(0.001, 0.0),
    "antmaze-large-diverse": _weights(0.002, 0.002),
}
"""The authors' weights where they are not the preset's (the configurations of CORL's implementation)."""


class Hyper(NamedTuple):
    policy_penalty: Float[Array, ""]
    critic_penalty: Float[Array, ""]
    policy_noise: Float[Array, ""]
    noise_clip: Float[Array, ""]
    discount: Float[Array, ""]
    critic_learning_rate: Float[Array, ""]
    policy_learning_rate: Float[Array, ""]
    tau: Float[Array, ""]


def policy_loss(
    hyper: Hyper,
    values: Float[Array, "member batch"],
    actions: Float[Array, "batch action"],
    batch: Batch,
) -> Float[Array, ""]:
    """Climb the smaller critic, and stay close to the data."""
    distance = ((actions - batch.actions) ** 2).sum(axis=-1)
    return (hyper.policy_penalty * distance - normalised(smallest(values, axis=0))).mean()


def penalty(
    hyper: Hyper, next_actions: Float[Array, "batch action"], batch: Batch
) -> Float[Array, " batch"]:
    """beta_2 |a' - a'_logged|^2, and nothing where it is not known (NaN) what was done next."""
    assert batch.next_actions is not None
    distance = jnp.nansum((next_actions - batch.next_actions) ** 2, axis=-1)
    return hyper.critic_penalty * distance


def make_rebrac(
    config: ReBRACConfig, observation_size: int, action_size: int
) -> Algorithm[TD3State]:
    """ReBRAC for vectors of the given sizes."""
    return make_td3(
        config,
        observation_size,
        action_size,
        hyper=Hyper,
        policy_loss=policy_loss,
        penalty=penalty,
    )
