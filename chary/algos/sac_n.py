"""SAC-N: clipped Q-learning with many critics (An, Moon, Kim and Song 2021).

N Q-functions share one target, the smallest of their next values, on top of SAC (`chary/algos/sac.py`):

    critics   y   = r + gamma * (min_i Q_target_i(s', a') - temperature * log pi(a' | s')),  a' ~ pi(s')
              minimise  sum_i E[(Q_i(s, a) - y)^2]
    policy    maximise  E[min_i Q_i(s, a) - temperature * log pi(a | s)],  a ~ pi(s)

The smallest of N values is a lower bound only where the critics differ, so SAC-N needs many of them.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from chary.algos.critics import LONG_RUN, EntropyConfig
from chary.algos.sac import CriticStep, Noise, SACState, make_sac, next_actions_and_bonus
from chary.config import Count, Layers, Positive, require
from chary.ensembles import EnsembleShape
from chary.execution.critics import SAME, Asked, Lesson, MakeExecutor
from chary.execution.fused import Fused
from chary.networks.losses import critic_metrics, td_loss, td_targets
from chary.networks.optimisers import TrainedWithTarget, as_arrays
from chary.networks.targets import mean, minimum, shared_min, smallest
from chary.types import Algorithm, Batch, OnlineAndTarget


@dataclass(frozen=True)
class ManyCriticsConfig(EntropyConfig):
    """What SAC-N and EDAC share; the defaults are the authors', with their smallest ensemble."""

    hidden: Layers = (256, 256, 256)
    members: Positive = 10
    """Number N of Q-functions; the authors use 10 to 500, by the task."""

    ensemble: ClassVar[str] = "deep"

    def shape(self, observation_size: int, action_size: int) -> EnsembleShape:
        """What the ensemble is built from."""
        return self.critic_shape(observation_size, action_size, members=self.members)


@dataclass(frozen=True)
class SACNConfig(ManyCriticsConfig):
    """Settings of SAC-N."""

    subset: Count = 0
    """Members, drawn anew at every update, whose smallest next value is the target; the policy then
    maximises the mean of all (REDQ, RLPD). 0: the smallest of all members for both."""
    backup_entropy: bool = True
    """Include the entropy bonus of the next action in the TD target."""

    def __post_init__(self) -> None:
        super().__post_init__()
        allowed = f"at most --members ({self.members})"
        require(self.subset <= self.members, "subset", self.subset, allowed)


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
PRESETS: dict[str, dict[str, Any]] = {
    "paper-antmaze": {"members": 25, **ANTMAZE},
    "paper-gym": PAPER,  # halfcheetah's; the others follow
    "paper-hopper": {"members": 500, **PAPER},
    "paper-walker2d": {"members": 20, **PAPER},
    "paper-maze2d": {"members": 25, **PAPER},
    "paper-rlu": PAPER,
    "small": SMALL,
    # For `chary train-online` beside logged data: antmaze's settings of RLPD (Ball et al. 2023), and its
    # other ones with networks for a laptop.
    "rlpd": {"subset": 1, "backup_entropy": False, "layer_norm": True, "steps": 300_000},
    "rlpd-small": {
        **SMALL,
        "members": 10,
        "subset": 2,
        "backup_entropy": False,
        "layer_norm": True,
    },
}


class Hyper(NamedTuple):
    eta: Float[Array, ""]
    """EDAC's, 0 here: checkpoints store the field."""
    discount: Float[Array, ""]
    critic_learning_rate: Float[Array, ""]
    policy_learning_rate: Float[Array, ""]
    temperature_learning_rate: Float[Array, ""]
    tau: Float[Array, ""]
    target_entropy: Float[Array, ""]


def _of_some(
    next_heads: Float[Array, "member head batch"], chosen: Bool[Array, " member"]
) -> Float[Array, "member batch"]:
    """The smallest next value of some members, for all."""
    return shared_min(jnp.where(chosen[:, None, None], next_heads, jnp.inf), 0.0)


def make_sac_n(
    config: SACNConfig,
    observation_size: int,
    action_size: int,
    *,
    executor: MakeExecutor = Fused.of,
) -> Algorithm[SACState]:
    """SAC-N for vectors of the given sizes; `executor` asks and trains the critics (`execution/`)."""
    ensemble = config.critics(observation_size, action_size, members=config.members)
    critics = executor(ensemble, lambda heads: smallest(heads, axis=1), config.members)
    backup = critics.across_members(_of_some if config.subset else shared_min)

    def learn_critics(state: SACState, batch: Batch, noise: Noise) -> CriticStep:
        """All critics towards the smallest next value."""
        hyper, (online, target, optimiser) = state.hyper, state.critics
        next_actions, bonus = next_actions_and_bonus(state, batch, noise)
        next_values = critics.target_values(
            target, batch.next_observations, lambda _: next_actions, SAME
        )
        chosen = jax.random.permutation(noise.critic_key, config.members) < config.subset
        next_values = backup(next_values, chosen if config.subset else 0.0)
        if config.backup_entropy:
            next_values = next_values + bonus
        y = td_targets(batch, hyper.discount, next_values)
        actions = state.policy.params(batch.observations).sample(noise.actions)
        lesson = Lesson(
            batch.observations,
            lambda _: Asked(batch.actions, policy=actions),
            lambda q, y, _: td_loss(q.logged, y),
            y,
            hyper.critic_learning_rate,
            hyper.tau,
        )
        learned = critics.step(OnlineAndTarget(online, target), optimiser, lesson, SAME)
        heads, y = learned.answers.logged, learned.targets
        return CriticStep(
            TrainedWithTarget(*learned.critics, learned.optimiser),
            learned.at_policy,
            critic_metrics(td_loss(heads, y), heads, y),
        )

    made = make_sac(
        config,
        observation_size,
        action_size,
        ensemble=ensemble,
        members=config.members,
        hyper=lambda target: as_arrays(Hyper, config, target_entropy=target, eta=0.0),
        objective=mean if config.subset else minimum,
        learn_critics=learn_critics,
    )
    # Members have the networks, their averages and Adam's two moments, but not its count.
    return critics.everywhere(
        made, lambda s: (s.critics.online, s.critics.target, *s.critics.optimiser[1:])
    )
