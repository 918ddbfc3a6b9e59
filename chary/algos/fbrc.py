"""F-BRC: Fisher behaviour-regularised critic (Kostrikov, Tompson, Fergus and Nachum 2021).

The log-density of the data's behaviour is part of the value, and what the critics add to it must be flat
where the policy goes. For a batch (s, a, r, s') and the policy pi:

    behaviour  first, alone: mu, a mixture of tanh-Gaussians, maximises
               E[log mu(a | s)] + temperature * its entropy, tuned as the policy's is
    critics    Q_i(s, a) = O_i(s, a) + log mu(a | s)
               y = r + gamma * min_i Q_target_i(s', a'),  a' ~ pi(s')
               minimise  sum_i E[(Q_i(s, a) - y)^2] + lambda * E[|grad_a O_i(s, a_pi)|^2],  a_pi ~ pi(s)
    policy     maximise  E[min_i Q_i(s, a) - temperature * log pi(a | s)],  a ~ pi(s)
    targets    O_target_i moves by tau towards O_i

The penalty is the Fisher divergence of the Boltzmann distribution of Q, exp(Q) normalised, from mu,
looked at where the policy acts: where O is flat, the two are one. The policy sees the critics
of its own step.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from chary.algos.critics import LONG_RUN, EntropyConfig, acting, smaller_of_two, target_entropy
from chary.config import Layers, Positive, Rate, Weight
from chary.networks.losses import (
    critic_metrics,
    soft_policy_loss,
    td_loss,
    td_targets,
    temperature_loss,
)
from chary.networks.optimisers import Trained, TrainedWithTarget, as_arrays
from chary.networks.policies import MixturePolicy, Policy
from chary.networks.targets import smallest
from chary.types import Algorithm, Batch, Metrics, PyTree


@dataclass(frozen=True)
class FBRCConfig(EntropyConfig):
    """Settings of F-BRC; the defaults are its authors'."""

    hidden: Layers = (256, 256, 256)
    fisher_weight: Weight = 0.1
    """Weight lambda of the gradient penalty on the critics."""
    warmup_steps: Positive = 1_000_000
    """Number of first steps, in which only the behaviour model is trained. Then it stays fixed."""
    behaviour_hidden: Layers = (256, 256)
    """Sizes of the hidden layers of the behaviour model."""
    behaviour_parts: Positive = 5
    """Components of the behaviour model's mixture in each action dimension."""
    behaviour_learning_rate: Rate = 1e-3
    """Adam's learning rate for the behaviour model; a tenth from 80% of the warm-up on, a hundredth
    from 90% on."""


ANTMAZE: dict[str, Any] = {"reward_scale": 4.0, "reward_shift": -0.5}
MSG_ANTMAZE: dict[str, Any] = {**ANTMAZE, "steps": 3_000_000, **LONG_RUN}
PRESETS: dict[str, dict[str, Any]] = {
    # The authors' train_eval_offline.py: a million steps for the behaviour and a million after it, and
    # 5 on top of every reward for staying alive.
    "paper-gym": {"reward_scale": 1.0, "reward_shift": 5.0, "steps": 2_000_000, **LONG_RUN},
    # Appendices A.1 and B.1 of Ghasemipour et al. 2022, which has no bonus, and 2 and 3 million steps
    # after the behaviour's. Lambda was searched over 8 values from 0 to 1, and 12 from 0 to 1.1.
    "msg-paper-antmaze": MSG_ANTMAZE,
    "msg-paper-gym": {"steps": 4_000_000, **LONG_RUN},
    # The authors' code is for Gym: with antmaze as in the comparison above, and without the bonus.
    "paper-antmaze": MSG_ANTMAZE,
    "paper-maze2d": {"steps": 2_000_000, **LONG_RUN},
    "paper-rlu": {"steps": 2_000_000, **LONG_RUN},
    # Where most actions are at a bound, log-densities differ by tens between actions: rewards need ten
    # times their size to be heard.
    "small": {
        "reward_scale": 40.0,
        "reward_shift": -0.5,
        "hidden": (64, 64, 64),
        "behaviour_hidden": (64, 64, 64),
        "discount": 0.995,
        "tau": 0.05,
        "critic_learning_rate": 1e-3,
        "policy_learning_rate": 1e-4,
        "temperature": 0.1,
        "warmup_steps": 2_000,
        "steps": 8_000,
    },
}


class Hyper(NamedTuple):
    """Continuous settings, kept as arrays so that one compiled program serves every value."""

    fisher_weight: Float[Array, ""]
    discount: Float[Array, ""]
    behaviour_learning_rate: Float[Array, ""]
    critic_learning_rate: Float[Array, ""]
    policy_learning_rate: Float[Array, ""]
    temperature_learning_rate: Float[Array, ""]
    tau: Float[Array, ""]
    target_entropy: Float[Array, ""]


class FBRCState(NamedTuple):
    """Everything that changes while learning, and the settings that could."""

    step: Int[Array, ""]
    behaviour: Trained[MixturePolicy]
    behaviour_log_temperature: Trained[Float[Array, ""]]
    policy: Trained[Policy]
    critics: TrainedWithTarget[PyTree]
    """The offsets O_i."""
    log_temperature: Trained[Float[Array, ""]]
    hyper: Hyper


class Noise(NamedTuple):
    """All that is random in a step after the warm-up, standard normal."""

    next_actions: Float[Array, "batch action"]
    penalty_actions: Float[Array, "batch action"]
    policy_actions: Float[Array, "batch action"]


class BehaviourNoise(NamedTuple):
    """All that is random in a step of the warm-up: for an action of the model."""

    actions: Float[Array, "batch action"]
    """Standard normal."""
    choice: Float[Array, "batch action part"]
    """Standard Gumbel, for the part of the mixture."""


def draw_noise(size: int, action_size: int, *, key: PRNGKeyArray) -> Noise:
    """All draws of a step after the warm-up."""
    return Noise(*jax.random.normal(key, (3, size, action_size)))


def draw_behaviour_noise(
    config: FBRCConfig, size: int, action_size: int, *, key: PRNGKeyArray
) -> BehaviourNoise:
    """All draws of a step of the warm-up."""
    normal_key, choice_key = jax.random.split(key)
    return BehaviourNoise(
        jax.random.normal(normal_key, (size, action_size)),
        jax.random.gumbel(choice_key, (size, action_size, config.behaviour_parts)),
    )


def make_fbrc(config: FBRCConfig, observation_size: int, action_size: int) -> Algorithm[FBRCState]:
    """F-BRC for vectors of the given sizes."""
    ensemble = config.critics(observation_size, action_size)

    def init(key: PRNGKeyArray) -> FBRCState:
        behaviour_key, policy_key, critic_key = jax.random.split(key, 3)
        sizes = observation_size, action_size
        behaviour = MixturePolicy.init(
            *sizes, config.behaviour_hidden, parts=config.behaviour_parts, key=behaviour_key
        )
        log_temperature = jnp.log(jnp.float32(config.temperature))
        return FBRCState(
            step=jnp.int32(0),
            behaviour=Trained.of(behaviour),
            behaviour_log_temperature=Trained.of(jnp.float32(0.0)),
            policy=Trained.of(Policy.init(*sizes, config.hidden, key=policy_key)),
            critics=TrainedWithTarget.of(ensemble.init(critic_key)),
            log_temperature=Trained.of(log_temperature),
            hyper=as_arrays(Hyper, config, target_entropy=target_entropy(config, action_size)),
        )

    def behaviour_loss(
        behaviour: MixturePolicy, state: FBRCState, batch: Batch, noise: BehaviourNoise
    ) -> tuple[Float[Array, ""], Metrics]:
        """Make the logged actions likely, and stay random."""
        pi = behaviour(batch.observations)
        likelihood, log_prob = pi.log_prob(batch.actions), pi.log_prob(pi.sample(*noise))
        loss, found = soft_policy_loss(likelihood, log_prob, state.behaviour_log_temperature.params)
        entropy = found["policy/entropy"]
        return loss, {"behaviour/log_likelihood": likelihood.mean(), "behaviour/entropy": entropy}

    def values_of(
        state: FBRCState, offsets: PyTree, observations: Array, actions: Array
    ) -> Float[Array, "member batch"]:
        """Q_i(s, a) = O_i(s, a) + log mu(a | s)."""
        behaviour = state.behaviour.params(observations)
        return ensemble.values(offsets, observations, actions) + behaviour.log_prob(actions)

    def fisher_penalty(
        offsets: PyTree, observations: Array, actions: Array
    ) -> Float[Array, " member"]:
        """E[|grad_a O_i(s, a)|^2] of each member."""
        each = jnp.broadcast_to(actions, (2, *actions.shape))
        gradients = jax.grad(lambda each: ensemble.values(offsets, observations, each).sum())(each)
        return (gradients**2).sum(axis=-1).mean(axis=-1)

    def critic_loss(
        offsets: PyTree, state: FBRCState, batch: Batch, noise: Noise
    ) -> tuple[Float[Array, ""], Metrics]:
        """TD errors of offset and behaviour together, and the offset's gradient."""
        policy, hyper = state.policy.params, state.hyper
        next_actions = policy(batch.next_observations).sample(noise.next_actions)
        next_values = values_of(state, state.critics.target, batch.next_observations, next_actions)
        y = td_targets(batch, hyper.discount, smallest(next_values, axis=0))
        heads = values_of(state, offsets, batch.observations, batch.actions)[:, None]
        actions = policy(batch.observations).sample(noise.penalty_actions)
        penalty = fisher_penalty(offsets, batch.observations, actions)
        td = td_loss(heads, y)
        metrics = {"critic/penalty": penalty.mean(), **critic_metrics(td, heads, y)}
        # Half of each, as in the TD loss: lambda weighs what it weighs for the authors.
        return (td + 0.5 * hyper.fisher_weight * penalty).sum(), metrics

    def policy_loss(
        policy: Policy, state: FBRCState, batch: Batch, noise: Noise
    ) -> tuple[Float[Array, ""], Metrics]:
        """Climb the smaller value and stay random."""
        actions, log_prob = policy(batch.observations).sample_and_log_prob(noise.policy_actions)
        values = values_of(state, state.critics.online, batch.observations, actions)
        q = smallest(values, axis=0)
        loss, metrics = soft_policy_loss(q, log_prob, state.log_temperature.params)
        return loss, {"policy/q": q.mean(), **metrics}

    def learn_behaviour(
        state: FBRCState, batch: Batch, key: PRNGKeyArray
    ) -> tuple[FBRCState, Metrics]:
        """One step of the warm-up."""
        noise = draw_behaviour_noise(config, len(batch.rewards), action_size, key=key)
        tuned = state.behaviour_log_temperature
        gradient, metrics = jax.grad(behaviour_loss, has_aux=True)(
            state.behaviour.params, state, batch, noise
        )
        temperature_gradient = jax.grad(temperature_loss)(
            tuned.params, metrics["behaviour/entropy"], jnp.float32(-action_size)
        )
        done = state.step / config.warmup_steps
        share = jnp.where(done < 0.8, 1.0, jnp.where(done < 0.9, 0.1, 0.01))
        rate = share * state.hyper.behaviour_learning_rate
        return state._replace(
            behaviour=state.behaviour.step(gradient, rate),
            behaviour_log_temperature=tuned.step(temperature_gradient, rate),
        ), metrics

    def learn(state: FBRCState, batch: Batch, key: PRNGKeyArray) -> tuple[FBRCState, Metrics]:
        """One step after the warm-up."""
        noise, hyper = draw_noise(len(batch.rewards), action_size, key=key), state.hyper
        gradient, metrics = jax.grad(critic_loss, has_aux=True)(
            state.critics.online, state, batch, noise
        )
        state = state._replace(
            critics=state.critics.step(gradient, hyper.critic_learning_rate, hyper.tau)
        )
        gradient, policy_metrics = jax.grad(policy_loss, has_aux=True)(
            state.policy.params, state, batch, noise
        )
        temperature_gradient = jax.grad(temperature_loss)(
            state.log_temperature.params, policy_metrics["policy/entropy"], hyper.target_entropy
        )
        return state._replace(
            policy=state.policy.step(gradient, hyper.policy_learning_rate),
            log_temperature=state.log_temperature.step(
                temperature_gradient, hyper.temperature_learning_rate
            ),
        ), metrics | policy_metrics

    def update(state: FBRCState, batch: Batch, key: PRNGKeyArray) -> tuple[FBRCState, Metrics]:
        """The behaviour, or all else: what does not learn in a step reports zeros."""
        phases = (learn_behaviour, learn)
        reported = [jax.eval_shape(phase, state, batch, key)[1] for phase in phases]
        nothing: Metrics = {name: jnp.float32(0.0) for metrics in reported for name in metrics}

        def phase(index: int) -> tuple[FBRCState, Metrics]:
            new, metrics = phases[index](state, batch, key)
            return new, nothing | metrics

        warming_up = state.step < config.warmup_steps
        new, metrics = jax.lax.cond(warming_up, lambda: phase(0), lambda: phase(1))
        return new._replace(step=state.step + 1), metrics

    def values(
        state: FBRCState,
        observations: Float[Array, "batch observation"],
        actions: Float[Array, "batch action"],
    ) -> Float[Array, "member batch"]:
        return values_of(state, state.critics.online, observations, actions)

    return Algorithm(
        init, update, acting(lambda state: state.policy.params), values, beta=smaller_of_two
    )
