"""An algorithm of your own, complete in one file: AWAC (Nair, Gupta, Dalal and Levine 2020).

    chary train examples.awac:AWAC --dataset pointmaze-umaze --steps 8000

Two critics learn the values of the policy, and the policy imitates logged actions, the better ones more:

    critics   y = r + gamma * min_i Q_target_i(s', a'),  a' ~ pi(s')
              minimise  sum_i E[(Q_i(s, a) - y)^2]
    policy    maximise  E[log pi(a | s) * exp(A(s, a) / temperature)],
              A(s, a) = min_i Q_i(s, a) - min_i Q_i(s, b),  b ~ pi(s)

docs/tutorials/algorithm.md explains the parts.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from chary.algos import Entry
from chary.algos.critics import CriticConfig, acting, smaller_of_two, valuing
from chary.config import Rate
from chary.networks.losses import (
    exponential_weights,
    regression_loss,
    td_targets,
    weighted_cloning_loss,
)
from chary.networks.optimisers import Trained, TrainedWithTarget, as_arrays
from chary.networks.policies import Policy
from chary.networks.targets import smallest
from chary.types import Algorithm, Batch, Metrics


@dataclass(frozen=True)
class AWACConfig(CriticConfig):
    """Settings; a field's type says what it takes, its docstring is the help of its option."""

    temperature: Rate = 1.0
    """Advantages are divided by this before the exponential; less imitates fewer actions."""
    weight_limit: Rate = 100.0
    """Largest weight of one action."""


class Hyper(NamedTuple):
    """Settings that are numbers, as arrays: one compiled program serves every value."""

    temperature: jax.Array
    discount: jax.Array
    critic_learning_rate: jax.Array
    policy_learning_rate: jax.Array
    tau: jax.Array


class AWACState(NamedTuple):
    """Everything that changes while learning; checkpoints hold this."""

    policy: Trained[Policy]
    critics: TrainedWithTarget[Any]
    hyper: Hyper


def make_awac(config: AWACConfig, observation_size: int, action_size: int) -> Algorithm[AWACState]:
    """AWAC for vectors of the given sizes: pure functions, which chary compiles, logs and resumes."""
    ensemble = config.critics(observation_size, action_size)

    def init(key: jax.Array) -> AWACState:
        policy_key, critic_key = jax.random.split(key)
        policy = Policy.init(observation_size, action_size, config.hidden, key=policy_key)
        critics = TrainedWithTarget.of(ensemble.init(critic_key))
        return AWACState(Trained.of(policy), critics, as_arrays(Hyper, config))

    def critic_loss(critics: Any, state: AWACState, batch: Batch, noise: jax.Array) -> Any:
        next_actions = state.policy.params(batch.next_observations).sample(noise)
        next_values = ensemble.values(state.critics.target, batch.next_observations, next_actions)
        y = td_targets(batch, state.hyper.discount, smallest(next_values, axis=0))
        return regression_loss(ensemble.heads(critics, batch.observations, batch.actions), y)

    def policy_loss(policy: Policy, state: AWACState, batch: Batch, noise: jax.Array) -> Any:
        pi = policy(batch.observations)

        def value(actions: jax.Array) -> jax.Array:
            values = ensemble.values(state.critics.online, batch.observations, actions)
            return smallest(values, axis=0)

        advantages = value(batch.actions) - value(jax.lax.stop_gradient(pi.sample(noise)))
        sharpness = 1.0 / state.hyper.temperature
        weights = exponential_weights(advantages, sharpness, config.weight_limit)
        return weighted_cloning_loss(pi.log_prob(batch.actions), weights, advantages)

    def update(state: AWACState, batch: Batch, key: jax.Array) -> tuple[AWACState, Metrics]:
        next_noise, own_noise = jax.random.normal(key, (2, *batch.actions.shape))
        gradient, metrics = jax.grad(critic_loss, has_aux=True)(
            state.critics.online, state, batch, next_noise
        )
        policy_gradient, more = jax.grad(policy_loss, has_aux=True)(
            state.policy.params, state, batch, own_noise
        )
        hyper = state.hyper
        return AWACState(
            state.policy.step(policy_gradient, hyper.policy_learning_rate),
            state.critics.step(gradient, hyper.critic_learning_rate, hyper.tau),
            hyper,
        ), metrics | more

    return Algorithm(
        init,
        update,
        act=acting(lambda state: state.policy.params),
        values=valuing(ensemble.values),
        beta=smaller_of_two,  # of two values, mean - 1 std is the smaller
    )


SMALL = {
    "hidden": (64, 64, 64),
    "discount": 0.995,
    "tau": 0.05,
    "critic_learning_rate": 1e-3,
    "policy_learning_rate": 1e-3,
    "steps": 8_000,
}
AWAC = Entry(AWACConfig, make_awac, presets={"small": SMALL})
