"""CQL: conservative Q-learning (Kumar, Zhou, Tucker and Levine 2020).

Values are pushed down wherever the critics find them high, and up on the logged actions. One step does,
for a batch (s, a, r, s') and the policy pi:

    critics      y = r + gamma * min_i Q_target_i(s', a'),  a' ~ pi(s')
                 gap_i = E[log sum_a exp Q_i(s, a) - Q_i(s, a)]
                 minimise  sum_i E[(Q_i(s, a) - y)^2] + alpha * gap_i                        (Eq. 4)
                 the sum over actions is an integral, estimated from uniform actions and actions of
                 pi(s) and pi(s'), each divided by the density it was drawn with
    Lagrange     or: alpha' * alpha * gap_i, where alpha' rises as long as alpha * gap_i is above a
                 threshold, and falls below it
    policy       maximise  E[min_i Q_i(s, a) - temperature * log pi(a | s)],  a ~ pi(s)
                 in the first steps log pi(a | s) of the logged action instead of the value (cloning)
    temperature  tuned so that the policy's entropy becomes what is asked for
    targets      Q_target_i moves by tau towards Q_i

All losses see the parameters from before the step. The TD target has no entropy in it, as the authors
have it by default. The CQL that MSG is compared with (Ghasemipour et al. 2022) differs in three things,
each an option: it has no actions of pi(s'), alpha weighs the mean of the critics' gaps, and cloning is
without the entropy bonus.
"""

from dataclasses import dataclass
from math import log
from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from chary.algos.critics import (
    LONG_RUN,
    EntropyConfig,
    acting,
    smaller_of_two,
    target_entropy,
    values_at,
    valuing,
)
from chary.config import Count, Layers, Positive, Rate, Weight
from chary.networks.losses import (
    critic_metrics,
    sampled_log_sum_exp,
    soft_policy_loss,
    td_loss,
    td_targets,
    temperature_loss,
)
from chary.networks.optimisers import Trained, TrainedWithTarget, as_arrays, either
from chary.networks.policies import Policy
from chary.networks.targets import smallest
from chary.types import Algorithm, Batch, Metrics, PyTree

OverCritics: TypeAlias = Literal["sum", "mean"]
LARGEST_WEIGHT = 1e6
"""Of the Lagrange multiplier, as in the authors' code."""


@dataclass(frozen=True)
class CQLConfig(EntropyConfig):
    """Settings of CQL; the defaults are its authors' for Gym."""

    hidden: Layers = (256, 256, 256)
    policy_learning_rate: Rate = 1e-4
    temperature_learning_rate: Rate = 1e-4
    alpha: Weight = 5.0
    """Weight of the gap between all actions' values and the logged actions'; 0 turns it off."""
    lagrange_threshold: float | None = None
    """If given, a factor on alpha is tuned until alpha times the gap has this value."""
    samples: Positive = 10
    """Actions drawn for the gap from each of three distributions: uniform, the policy at s, and the
    policy at s'."""
    gap_next_actions: bool = True
    """Also draw actions for the gap from the policy at s'."""
    gap_over_critics: OverCritics = "sum"
    """What alpha weights. sum: the sum of the critics' gaps. mean: their mean, which is half of
    it."""
    max_backup: bool = False
    """Use the largest value of that many next actions in the TD target, separately for each
    critic."""
    calibrated: bool = False
    """Cal-QL (Nakamoto et al. 2023): the policy's actions count in the gap with no less than the
    return that the data had from there, so that values stay comparable when the policy acts."""
    warmup_steps: Count = 40_000
    """Number of first steps in which the policy is cloned from the data. The critics learn as
    usual."""
    warmup_entropy: bool = True
    """Keep the entropy bonus and tune its temperature while the policy is cloned. Without it
    cloning only maximises the likelihood, and the temperature stays fixed."""

    @property
    def policy_draws(self) -> int:
        """Distributions of the policy that the gap's actions are drawn from: pi(s), and pi(s')."""
        return 2 if self.gap_next_actions else 1


ANTMAZE: dict[str, Any] = {"reward_scale": 4.0, "reward_shift": -0.5}
AUTHORS: dict[str, Any] = {"steps": 3_000_000, **LONG_RUN}
# jrl/agents/cql of the MSG paper's authors: its config.py and the command in its README. The paper
# searches alpha over 12 values from 0 to 5; 5 is config.py's.
MSG_AUTHORS: dict[str, Any] = {
    "policy_learning_rate": 3e-5,
    "temperature_learning_rate": 3e-4,
    "gap_next_actions": False,
    "gap_over_critics": "mean",
    "warmup_steps": 50_000,
    "warmup_entropy": False,
    **LONG_RUN,
}
PRESETS: dict[str, dict[str, Any]] = {
    # The commands in the authors' repository; its scripts run 3,000 epochs of 1,000 steps.
    "paper-antmaze": {"lagrange_threshold": 5.0, **ANTMAZE, **AUTHORS},
    "paper-gym": AUTHORS,
    # The authors' repository has neither of these: Gym's settings.
    "paper-maze2d": AUTHORS,
    "paper-rlu": AUTHORS,
    # Appendices B.1 and A.1 of Ghasemipour et al. 2022.
    "msg-paper-antmaze": {**ANTMAZE, "steps": 2_000_000, **MSG_AUTHORS},
    "msg-paper-gym": {"steps": 3_000_000, **MSG_AUTHORS},
    "small": {
        "hidden": (64, 64, 64),
        "discount": 0.995,
        "tau": 0.05,
        "alpha": 0.2,
        "samples": 4,
        "temperature": 0.1,
        "warmup_steps": 500,
        "steps": 8_000,
    },
}


class Hyper(NamedTuple):
    """Continuous settings, kept as arrays so that one compiled program serves every value."""

    alpha: Float[Array, ""]
    discount: Float[Array, ""]
    critic_learning_rate: Float[Array, ""]
    policy_learning_rate: Float[Array, ""]
    temperature_learning_rate: Float[Array, ""]
    tau: Float[Array, ""]
    target_entropy: Float[Array, ""]


class CQLState(NamedTuple):
    """Everything that changes while learning, and the settings that could."""

    step: Int[Array, ""]
    policy: Trained[Policy]
    critics: TrainedWithTarget[PyTree]
    log_temperature: Trained[Float[Array, ""]]
    log_multiplier: Trained[Float[Array, ""]]
    """Of the Lagrange multiplier alpha', which stays 1 without a threshold."""
    hyper: Hyper


class Noise(NamedTuple):
    """All that is random in one step."""

    policy_actions: Float[Array, "batch action"]
    """Standard normal, for a ~ pi(s) in the policy's objective."""
    next_actions: Float[Array, "next batch action"]
    """Standard normal, for a' ~ pi(s') in the TD target: one, or several to choose from."""
    proposals: Float[Array, "place draw batch action"]
    """Standard normal, for the gap's actions of pi(s) and, where they are asked for, of pi(s')."""
    uniform: Float[Array, "draw batch action"]
    """U[-1, 1], the gap's other actions."""


def draw_noise(config: CQLConfig, size: int, action_size: int, *, key: PRNGKeyArray) -> Noise:
    """All draws of a step."""
    normal_key, uniform_key = jax.random.split(key)
    draws, nexts = config.samples, config.samples if config.max_backup else 1
    places = config.policy_draws
    normal = jax.random.normal(normal_key, (1 + nexts + places * draws, size, action_size))
    proposals = normal[1 + nexts :].reshape(places, draws, size, action_size)
    uniform = jax.random.uniform(uniform_key, (draws, size, action_size), minval=-1.0)
    return Noise(normal[0], normal[1 : 1 + nexts], proposals, uniform)


def make_cql(config: CQLConfig, observation_size: int, action_size: int) -> Algorithm[CQLState]:
    """CQL for vectors of the given sizes."""
    ensemble = config.critics(observation_size, action_size)
    uniform_log_density = -action_size * log(2.0)

    def init(key: PRNGKeyArray) -> CQLState:
        policy_key, critic_key = jax.random.split(key)
        policy = Policy.init(observation_size, action_size, config.hidden, key=policy_key)
        return CQLState(
            step=jnp.int32(0),
            policy=Trained.of(policy),
            critics=TrainedWithTarget.of(ensemble.init(critic_key)),
            log_temperature=Trained.of(jnp.log(jnp.float32(config.temperature))),
            log_multiplier=Trained.of(jnp.float32(0.0)),
            hyper=as_arrays(Hyper, config, target_entropy=target_entropy(config, action_size)),
        )

    def targets_of(state: CQLState, batch: Batch, noise: Noise) -> Float[Array, " batch"]:
        """r + gamma * min_i Q_target_i(s', a'), the best a' of several where that is asked for."""
        next_actions = state.policy.params(batch.next_observations).sample(noise.next_actions)
        each = values_at(ensemble, state.critics.target, batch.next_observations, next_actions)
        return td_targets(batch, state.hyper.discount, smallest(each.max(axis=1), axis=0))

    def propose(
        policy: Policy, batch: Batch, noise: Noise
    ) -> tuple[Float[Array, "draw batch action"], Float[Array, "draw batch"]]:
        """The gap's actions and the log-densities they were drawn with."""
        places = (batch.observations, batch.next_observations)[: config.policy_draws]
        drawn = [
            policy(place).sample_and_log_prob(draws)
            for place, draws in zip(places, noise.proposals, strict=True)
        ]
        log_uniform = jnp.full(noise.uniform.shape[:2], uniform_log_density)
        actions = jnp.concatenate([noise.uniform, *(actions for actions, _ in drawn)])
        return actions, jnp.concatenate([log_uniform, *(log_density for _, log_density in drawn)])

    def critic_loss(
        critics: PyTree, state: CQLState, batch: Batch, noise: Noise
    ) -> tuple[Float[Array, ""], Metrics]:
        """TD errors, and the gap between all actions and the logged ones (Eq. 4)."""
        y = targets_of(state, batch, noise)
        actions, log_densities = propose(state.policy.params, batch, noise)
        # One pass over logged and drawn actions together.
        together = jnp.concatenate([batch.actions[None], actions])
        values = values_at(ensemble, critics, batch.observations, together)
        logged, drawn = values[:, 0], values[:, 1:]
        if config.calibrated:
            assert batch.returns is not None
            ours = drawn[:, config.samples :]  # those of the policy, after the uniform ones
            drawn = drawn.at[:, config.samples :].set(jnp.maximum(ours, batch.returns))
        gap = (sampled_log_sum_exp(drawn, log_densities) - logged).mean(axis=-1)
        multiplier = jnp.minimum(jnp.exp(state.log_multiplier.params), LARGEST_WEIGHT)
        td = td_loss(logged[:, None], y)
        metrics = {
            "critic/gap": gap.mean(),
            "critic/multiplier": multiplier,
            **critic_metrics(td, logged[:, None], y),
        }
        weighed = gap.sum() if config.gap_over_critics == "sum" else gap.mean()
        # Half of each, as in the TD loss: alpha weighs what it weighs for the authors.
        return td.sum() + 0.5 * multiplier * state.hyper.alpha * weighed, metrics

    def multiplier_loss(
        log_multiplier: Float[Array, ""], gap: Float[Array, ""], alpha: Float[Array, ""]
    ) -> Float[Array, ""]:
        """The multiplier rises while alpha times the gap is above the threshold."""
        assert config.lagrange_threshold is not None
        # The authors' code does not divide the sum over draws by their number; their threshold goes
        # with a gap that is larger by this logarithm.
        scaled = alpha * (gap + log((1 + config.policy_draws) * config.samples))
        multiplier = jnp.minimum(jnp.exp(log_multiplier), LARGEST_WEIGHT)
        return -multiplier * (scaled - config.lagrange_threshold)

    def policy_loss(
        policy: Policy, state: CQLState, batch: Batch, noise: Noise
    ) -> tuple[Float[Array, ""], Metrics]:
        """Climb the smaller value and stay random; while warming up, clone the data."""
        pi = policy(batch.observations)
        actions, log_prob = pi.sample_and_log_prob(noise.policy_actions)
        q = smallest(ensemble.values(state.critics.online, batch.observations, actions), axis=0)
        likelihood, warming_up = pi.log_prob(batch.actions), state.step < config.warmup_steps
        maximised = jnp.where(warming_up, likelihood, q)
        loss, metrics = soft_policy_loss(maximised, log_prob, state.log_temperature.params)
        if not config.warmup_entropy:
            loss = jnp.where(warming_up, -likelihood.mean(), loss)
        own = {"policy/q": q.mean(), "policy/log_likelihood": likelihood.mean()}
        return loss, metrics | own | {"policy/loss": loss}

    def step(state: CQLState, batch: Batch, noise: Noise) -> tuple[CQLState, Metrics]:
        hyper = state.hyper
        critic_gradient, metrics = jax.grad(critic_loss, has_aux=True)(
            state.critics.online, state, batch, noise
        )
        policy_gradient, policy_metrics = jax.grad(policy_loss, has_aux=True)(
            state.policy.params, state, batch, noise
        )
        temperature_gradient = jax.grad(temperature_loss)(
            state.log_temperature.params, policy_metrics["policy/entropy"], hyper.target_entropy
        )
        log_temperature = state.log_temperature.step(
            temperature_gradient, hyper.temperature_learning_rate
        )
        if not config.warmup_entropy:
            # Tuning, its moments included, begins after the warm-up.
            warming_up = state.step < config.warmup_steps
            log_temperature = either(warming_up, state.log_temperature, log_temperature)
        log_multiplier = state.log_multiplier
        if config.lagrange_threshold is not None:
            multiplier_gradient = jax.grad(multiplier_loss)(
                log_multiplier.params, metrics["critic/gap"], hyper.alpha
            )
            log_multiplier = log_multiplier.step(multiplier_gradient, hyper.critic_learning_rate)
        return CQLState(
            step=state.step + 1,
            policy=state.policy.step(policy_gradient, hyper.policy_learning_rate),
            critics=state.critics.step(critic_gradient, hyper.critic_learning_rate, hyper.tau),
            log_temperature=log_temperature,
            log_multiplier=log_multiplier,
            hyper=hyper,
        ), metrics | policy_metrics

    def update(state: CQLState, batch: Batch, key: PRNGKeyArray) -> tuple[CQLState, Metrics]:
        noise = draw_noise(config, len(batch.rewards), action_size, key=key)
        # The barrier asks the compiler not to draw the same noise again in every use of it.
        return step(state, batch, jax.lax.optimization_barrier(noise))

    return Algorithm(
        init,
        update,
        acting(lambda state: state.policy.params),
        valuing(ensemble.values),
        beta=smaller_of_two,
        wants_returns=config.calibrated,
    )
