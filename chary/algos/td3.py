"""TD3 (Fujimoto, van Hoof and Meger 2018), as far as its offline kin have it in common.

A deterministic policy pi and two Q-functions, each with a slow average. One step does:

    critics   a' = clip(pi_target(s') + clip(sigma * noise, -c, c), -1, 1)           (smoothing)
              y  = r + gamma * (min_i Q_target_i(s', a') - penalty)
              minimise  sum_i 1/2 E[(Q_i(s, a) - y)^2]
    policy    in every d-th step only, and the slow averages with it                 (delay)

What the policy minimises, and the penalty on the next value, are for the algorithms to say.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from chary.algos.critics import CriticConfig, smaller_of_two, valuing
from chary.config import Positive, Weight
from chary.networks.losses import regression_loss, td_targets
from chary.networks.optimisers import TrainedWithTarget, as_arrays
from chary.networks.policies import DeterministicPolicy
from chary.networks.targets import smallest
from chary.types import Algorithm, Batch, Metrics, PyTree


@dataclass(frozen=True)
class TD3Config(CriticConfig):
    """Settings of TD3's own."""

    policy_noise: Weight = 0.2
    """Standard deviation of the noise on the next action in the TD target."""
    noise_clip: Weight = 0.5
    """Largest magnitude of that noise."""
    policy_delay: Positive = 2
    """Critic updates per update of the policy and the target networks."""


POLICY_METRICS = ("policy/loss", "policy/q", "policy/distance")


class TD3State(NamedTuple):
    step: Int[Array, ""]
    policy: TrainedWithTarget[DeterministicPolicy]
    critics: TrainedWithTarget[PyTree]
    policy_metrics: Metrics
    """Of the last step in which the policy learned."""
    hyper: Any
    """The algorithm's continuous settings, as arrays."""


PolicyLoss: TypeAlias = Callable[
    [Any, Float[Array, "member batch"], Float[Array, "batch action"], Batch], Float[Array, ""]
]
"""`loss(hyper, values, actions, batch)`, of the policy's actions and what each critic says of them."""
Penalty: TypeAlias = Callable[[Any, Float[Array, "batch action"], Batch], Float[Array, " batch"]]
"""`penalty(hyper, next_actions, batch)`, of the next actions in the TD target."""


def make_td3(
    config: TD3Config,
    observation_size: int,
    action_size: int,
    *,
    hyper: type,
    policy_loss: PolicyLoss,
    penalty: Penalty | None = None,
) -> Algorithm[TD3State]:
    """TD3 for vectors of the given sizes; a penalty is shown the logged next actions."""
    ensemble = config.critics(observation_size, action_size)

    def init(key: PRNGKeyArray) -> TD3State:
        policy_key, critic_key = jax.random.split(key)
        policy = DeterministicPolicy.init(
            observation_size, action_size, config.hidden, key=policy_key
        )
        return TD3State(
            step=jnp.int32(0),
            policy=TrainedWithTarget.of(policy),
            critics=TrainedWithTarget.of(ensemble.init(critic_key)),
            policy_metrics={name: jnp.float32(0.0) for name in POLICY_METRICS},
            hyper=as_arrays(hyper, config),
        )

    def critic_loss(
        critics: PyTree, state: TD3State, batch: Batch, noise: Float[Array, "batch action"]
    ) -> tuple[Float[Array, ""], Metrics]:
        """Both critics towards the smaller next value of a smoothed next action."""
        limit = state.hyper.noise_clip
        smoothing = jnp.clip(state.hyper.policy_noise * noise, -limit, limit)
        next_actions = jnp.clip(state.policy.target(batch.next_observations) + smoothing, -1, 1)
        next_values = smallest(
            ensemble.values(state.critics.target, batch.next_observations, next_actions), axis=0
        )
        if penalty is not None:
            next_values -= penalty(state.hyper, next_actions, batch)
        y = td_targets(batch, state.hyper.discount, next_values)
        heads = ensemble.heads(critics, batch.observations, batch.actions)
        return regression_loss(heads, y)

    def loss_of_policy(
        policy: DeterministicPolicy, critics: PyTree, hyper: Any, batch: Batch
    ) -> tuple[Float[Array, ""], Metrics]:
        actions = policy(batch.observations)
        values = ensemble.values(critics, batch.observations, actions)
        loss = policy_loss(hyper, values, actions, batch)
        distance = ((actions - batch.actions) ** 2).sum(axis=-1)
        return loss, dict(zip(POLICY_METRICS, (loss, values.mean(), distance.mean()), strict=True))

    def update(state: TD3State, batch: Batch, key: PRNGKeyArray) -> tuple[TD3State, Metrics]:
        hyper = state.hyper
        noise = jax.random.normal(key, batch.actions.shape)
        policy_learns = state.step % config.policy_delay == 0
        tau = jnp.where(policy_learns, hyper.tau, 0.0)

        critic_gradient, metrics = jax.grad(critic_loss, has_aux=True)(
            state.critics.online, state, batch, noise
        )
        critics = state.critics.step(critic_gradient, hyper.critic_learning_rate, tau)

        def learn() -> tuple[PyTree, Metrics]:
            gradient, metrics = jax.grad(loss_of_policy, has_aux=True)(
                state.policy.online, critics.online, hyper, batch
            )
            return state.policy.step(gradient, hyper.policy_learning_rate, tau), metrics

        policy, policy_metrics = jax.lax.cond(
            policy_learns, learn, lambda: (state.policy, state.policy_metrics)
        )
        state = TD3State(state.step + 1, policy, critics, policy_metrics, hyper)
        return state, metrics | policy_metrics

    def act(
        state: TD3State,
        observations: Float[Array, "batch observation"],
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "batch action"]:
        del key  # one action a state, whatever the key
        return state.policy.online(observations)

    return Algorithm(
        init,
        update,
        act,
        valuing(ensemble.values),
        beta=smaller_of_two,
        wants_next_actions=penalty is not None,
    )
