"""Soft actor-critic (Haarnoja et al. 2018), as far as the ensembles built on it have it in common.

    policy       maximise  E[J(Q_1(s, a), ..., Q_N(s, a)) - temperature * log pi(a | s)],  a ~ pi(s)
    temperature  tuned so that the policy's entropy becomes what is asked for
    targets      Q_target_i moves by tau towards Q_i

All losses see the parameters from before the step. What the critics learn, and what J makes of them, are
for the algorithms to say; unlike MSG's, their TD targets have the entropy bonus in them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from chary.algos.critics import EntropyConfig, acting, target_entropy, valuing
from chary.ensembles import Ensemble
from chary.networks.losses import soft_policy_loss, temperature_loss
from chary.networks.optimisers import Trained, TrainedWithTarget
from chary.networks.policies import Policy
from chary.networks.targets import Objective, deviations, mean_and_std
from chary.types import Algorithm, Batch, Metrics, PyTree


class SACState(NamedTuple):
    policy: Trained[Policy]
    critics: TrainedWithTarget[PyTree]
    log_temperature: Trained[Float[Array, ""]]
    hyper: Any
    """The algorithm's continuous settings, as arrays."""


class NextValues(NamedTuple):
    """What a TD target is made of."""

    members: Float[Array, "member batch"]
    """Q_target_i(s', a'), the same a' ~ pi(s') for all."""
    bonus: Float[Array, " batch"]
    """-temperature * log pi(a' | s')."""


CriticLoss: TypeAlias = Callable[
    [PyTree, SACState, Batch, NextValues, PRNGKeyArray], tuple[Float[Array, ""], Metrics]
]
"""`loss(critics, state, batch, next_values, key)` and its metrics."""


class Noise(NamedTuple):
    """What is random in a step."""

    actions: Float[Array, "batch action"]
    """Of a ~ pi(s)."""
    next_actions: Float[Array, "batch action"]
    """Of a' ~ pi(s')."""
    critic_key: PRNGKeyArray


class CriticStep(NamedTuple):
    """What a step of the critics leaves behind."""

    critics: TrainedWithTarget[PyTree]
    values: Callable[[Float[Array, "batch action"]], Float[Array, "member batch"]]
    """Q_i(s, a) of the critics before the step."""
    metrics: Metrics


LearnCritics: TypeAlias = Callable[[SACState, Batch, Noise], CriticStep]


def next_actions_and_bonus(
    state: SACState, batch: Batch, noise: Noise
) -> tuple[Float[Array, "batch action"], Float[Array, " batch"]]:
    """a' ~ pi(s'), and the entropy bonus -temperature * log pi(a' | s')."""
    pi = state.policy.params(batch.next_observations)
    actions, log_prob = pi.sample_and_log_prob(noise.next_actions)
    return actions, -jnp.exp(state.log_temperature.params) * log_prob


def by_gradient(ensemble: Ensemble, critic_loss: CriticLoss) -> LearnCritics:
    """Critics that learn by the gradient of one loss of all."""

    def learn(state: SACState, batch: Batch, noise: Noise) -> CriticStep:
        actions, bonus = next_actions_and_bonus(state, batch, noise)
        members = ensemble.values(state.critics.target, batch.next_observations, actions)
        gradient, metrics = jax.grad(critic_loss, has_aux=True)(
            state.critics.online, state, batch, NextValues(members, bonus), noise.critic_key
        )
        return CriticStep(
            state.critics.step(gradient, state.hyper.critic_learning_rate, state.hyper.tau),
            lambda actions: ensemble.values(state.critics.online, batch.observations, actions),
            metrics,
        )

    return learn


def make_sac(
    config: EntropyConfig,
    observation_size: int,
    action_size: int,
    *,
    ensemble: Ensemble,
    hyper: Callable[[float], Any],
    members: int,
    objective: Objective,
    learn_critics: LearnCritics,
) -> Algorithm[SACState]:
    """SAC for vectors of the given sizes, whose policy maximises the members' mean or their minimum.

    `hyper(target_entropy)` are the algorithm's continuous settings, as arrays.
    """

    def init(key: PRNGKeyArray) -> SACState:
        policy_key, critic_key = jax.random.split(key)
        policy = Policy.init(observation_size, action_size, config.hidden, key=policy_key)
        return SACState(
            policy=Trained.of(policy),
            critics=TrainedWithTarget.of(ensemble.init(critic_key)),
            log_temperature=Trained.of(jnp.log(jnp.float32(config.temperature))),
            hyper=hyper(target_entropy(config, action_size)),
        )

    def policy_loss(
        policy: Policy, state: SACState, batch: Batch, noise: Noise, learned: CriticStep
    ) -> tuple[Float[Array, ""], Metrics]:
        """Climb what the ensemble says, and stay random."""
        actions, log_prob = policy(batch.observations).sample_and_log_prob(noise.actions)
        values = learned.values(actions)
        maximised = objective(values, 0.0)
        loss, metrics = soft_policy_loss(maximised, log_prob, state.log_temperature.params)
        own = {
            "policy/objective": maximised.mean(),
            "policy/std": mean_and_std(values)[1].mean(),
            "policy/q": values.mean(),
        }
        return loss, metrics | own

    def update(state: SACState, batch: Batch, key: PRNGKeyArray) -> tuple[SACState, Metrics]:
        hyper = state.hyper
        action_key, critic_key = jax.random.split(key)
        # The barrier asks the compiler not to draw the same noise again in every use of it.
        draws = jax.lax.optimization_barrier(
            jax.random.normal(action_key, (2, *batch.actions.shape))
        )
        noise = Noise(draws[0], draws[1], critic_key)
        learned = learn_critics(state, batch, noise)
        policy_gradient, policy_metrics = jax.grad(policy_loss, has_aux=True)(
            state.policy.params, state, batch, noise, learned
        )
        temperature_gradient = jax.grad(temperature_loss)(
            state.log_temperature.params, policy_metrics["policy/entropy"], hyper.target_entropy
        )
        return SACState(
            policy=state.policy.step(policy_gradient, hyper.policy_learning_rate),
            critics=learned.critics,
            log_temperature=state.log_temperature.step(
                temperature_gradient, hyper.temperature_learning_rate
            ),
            hyper=hyper,
        ), learned.metrics | policy_metrics

    beta = jnp.float32(deviations(objective, 0.0, members))
    return Algorithm(
        init,
        update,
        acting(lambda state: state.policy.params),
        valuing(ensemble.values),
        beta=lambda _: beta,
    )
