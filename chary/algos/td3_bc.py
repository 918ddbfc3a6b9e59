"""TD3+BC: a minimalist approach to offline reinforcement learning (Fujimoto and Gu 2021).

TD3 (`chary/algos/td3.py`), with a policy that is also drawn to the logged actions:

    policy    maximise  lambda * E[Q_1(s, pi(s))] - E[(pi(s) - a)^2]                    (Eq. 3)
              lambda = alpha / E|Q_1(s, pi(s))|, with no gradient through it            (Eq. 5)

The square is a mean over action dimensions. Observations are normalised over the dataset, which is a
setting of the run (`--normalise-observations`) that the presets make.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxtyping import Array, Float

from chary.algos.critics import LONG_RUN
from chary.algos.td3 import TD3Config, TD3State, make_td3
from chary.config import Weight
from chary.networks.losses import normalised
from chary.types import Algorithm, Batch


@dataclass(frozen=True)
class TD3BCConfig(TD3Config):
    """Settings of TD3+BC; the defaults are the authors'."""

    alpha: Weight = 2.5
    """Weight of the value (scaled to a mean absolute value of 1) against the squared distance from
    logged actions."""


PAPER: dict[str, Any] = {"normalise_observations": "moments", "steps": 1_000_000, **LONG_RUN}
PRESETS: dict[str, dict[str, Any]] = {
    # The paper has Gym only. For antmaze, rewards of -1 and 0 as others ran it (Tarasov et al. 2022).
    "paper-antmaze": {"reward_scale": 1.0, "reward_shift": -1.0, **PAPER},
    "paper-gym": PAPER,
    "paper-maze2d": PAPER,
    "paper-rlu": PAPER,
    # What `small` changes in MSG, for the same reasons. In a maze all values are large and differ little
    # between actions, so that they need more weight to be heard.
    "small": {
        "alpha": 40.0,
        "normalise_observations": "moments",
        "hidden": (64, 64, 64),
        "discount": 0.995,
        "tau": 0.05,
        "steps": 8_000,
    },
}


class Hyper(NamedTuple):
    alpha: Float[Array, ""]
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
    """Climb the first critic, and stay close to the data."""
    return ((actions - batch.actions) ** 2).mean() - hyper.alpha * normalised(values[0]).mean()


def make_td3_bc(
    config: TD3BCConfig, observation_size: int, action_size: int
) -> Algorithm[TD3State]:
    """TD3+BC for vectors of the given sizes."""
    return make_td3(config, observation_size, action_size, hyper=Hyper, policy_loss=policy_loss)
