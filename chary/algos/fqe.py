"""Fitted Q-evaluation by an ensemble: what a policy that does not change is worth.

MSG's critics without its policy. N Q-functions, each trained towards its own target:

    y_i  = r + gamma * Q_target_i(s', a'),    a' the policy's action in s'
    L_i  = 1/2 E[w_i (Q_i(s, a) - y_i)^2],    w_i ~ U[0, 2]

The batch brings a' as its `next_actions`, so that one program serves every policy. With the logged next
actions it evaluates the policy that made the data. Rows without a next action teach nothing.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from chary.algos.critics import CriticConfig
from chary.config import Layers, Positive, Rate, Share
from chary.execution.critics import SAME, Asked, Lesson
from chary.execution.fused import Fused
from chary.networks.losses import critic_metrics, td_loss, td_targets
from chary.networks.optimisers import adam_init, as_arrays
from chary.networks.targets import smallest
from chary.types import Algorithm, Batch, Metrics, OnlineAndTarget, PyTree


@dataclass(frozen=True)
class FQEConfig(CriticConfig):
    """Settings of fitted Q-evaluation: an ensemble that learns fast, because its policy stands still."""

    members: Positive = 4
    """Number N of Q-functions."""
    hidden: Layers = (64, 64, 64)
    layer_norm: bool = True
    critic_learning_rate: Rate = 1e-3
    tau: Share = 0.1


class Hyper(NamedTuple):
    """Continuous settings."""

    discount: Float[Array, ""]
    critic_learning_rate: Float[Array, ""]
    tau: Float[Array, ""]


class FQEState(NamedTuple):
    """Everything that changes while learning."""

    critics: OnlineAndTarget
    optimiser: PyTree
    hyper: Hyper


def make_fqe(
    config: FQEConfig, observation_size: int, action_size: int, *, executor: Any = Fused.of
) -> Algorithm[FQEState]:
    """Fitted Q-evaluation for vectors of the given sizes."""
    ensemble = config.critics(observation_size, action_size, members=config.members)
    critics = executor(ensemble, lambda heads: smallest(heads, axis=1), config.members)

    def init(key: PRNGKeyArray) -> FQEState:
        params = ensemble.init(key)
        both = OnlineAndTarget(params, jax.tree.map(jnp.copy, params))
        return FQEState(both, adam_init(params), as_arrays(Hyper, config))

    def update(state: FQEState, batch: Batch, key: PRNGKeyArray) -> tuple[FQEState, Metrics]:
        assert batch.next_actions is not None
        hyper, next_actions = state.hyper, jnp.nan_to_num(batch.next_actions)
        next_values = critics.target_values(
            state.critics.target, batch.next_observations, lambda _: next_actions, SAME
        )
        y = td_targets(batch, hyper.discount, smallest(next_values, axis=1))
        known = (batch.discounts == 0.0) | jnp.isfinite(batch.next_actions).all(axis=-1)
        shape = config.members, 1, len(batch.rewards)
        weights = known * jax.random.uniform(key, shape, maxval=2.0)
        lesson = Lesson(
            batch.observations,
            lambda _: Asked(batch.actions),
            lambda q, goal, _: td_loss(q.logged, *goal),
            (y, weights),
            hyper.critic_learning_rate,
            hyper.tau,
        )
        learned = critics.step(state.critics, state.optimiser, lesson, SAME)
        heads, (y, weights) = learned.answers.logged, learned.targets
        metrics = critic_metrics(td_loss(heads, y, weights), heads, y)
        return FQEState(learned.critics, learned.optimiser, hyper), metrics

    def act(state: FQEState, observations: Any, *, key: Any = None) -> Any:
        raise NotImplementedError("fitted Q-evaluation has no policy of its own")

    def values(state: FQEState, observations: Any, actions: Any) -> Float[Array, "member batch"]:
        return ensemble.values(state.critics.online, observations, actions)

    return Algorithm(init, update, act, values, wants_next_actions=True)
