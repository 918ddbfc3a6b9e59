"""MSG: Model Standard-deviation Gradients (Ghasemipour, Gu and Nachum 2022).

N Q-functions, each trained towards its own target, and a policy that climbs their lower confidence
bound. One step does, for a batch (s, a, r, s') and the policy pi:

    critics   y_i  = r + gamma * Q_target_i(s', a'_i),  a'_i ~ pi(s')                     (Eq. 6)
              L_i  = 1/2 E[w_i (Q_i(s, a) - y_i)^2],    w_i ~ U[0, 2]                     (Eq. 5)
              H_i  = E[Q_i(s, a_i)] - E[Q_i(s, a)],     a_i ~ pi(s)
              minimise  sum_i L_i + alpha * H_i                                           (Eq. 8)
    policy    maximise  E[mean_i Q_i(s, a) + beta * std_i Q_i(s, a)],  a ~ pi(s)          (Eq. 7)
              plus an entropy bonus; in the first steps log pi(a | s) instead (cloning)
    targets   Q_target_i moves by tau towards Q_i

No member ever sees another's value: that independence is what makes their spread mean uncertainty.
Shared targets (`chary/targets.py`) give it up for one target for all, and cheaper ensembles
(`chary/ensembles/`) for weights that members share.
"""

from math import sqrt
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from chary import losses
from chary.algos.critics import target_entropy
from chary.algos.msg_config import MSGConfig
from chary.algos.msg_noise import Noise, draw_noise
from chary.devices import divided, shards_of
from chary.ensembles import make_ensemble
from chary.errors import CharyError
from chary.execution.fused import Asked, Fused, Learned
from chary.losses import critic_metrics, td_loss, temperature_loss
from chary.optimise import Trained, adam_init, as_arrays, either
from chary.policies import Policy
from chary.targets import (
    TARGETS,
    Objective,
    deviations,
    mean_and_std,
    minimum,
    minimum_of_all,
    of_expectation,
    smallest,
)
from chary.types import Algorithm, Batch, Metrics, OnlineAndTarget, PyTree


class Hyper(NamedTuple):
    """Continuous settings, kept as arrays so that one compiled program serves every value."""

    beta: Float[Array, ""]
    alpha: Float[Array, ""]
    discount: Float[Array, ""]
    critic_learning_rate: Float[Array, ""]
    policy_learning_rate: Float[Array, ""]
    temperature_learning_rate: Float[Array, ""]
    tau: Float[Array, ""]
    target_entropy: Float[Array, ""]
    target_beta: Float[Array, ""]


class MSGState(NamedTuple):
    """Everything that changes while learning, and the settings that could."""

    step: Int[Array, ""]
    policy: Trained[Policy]
    critics: OnlineAndTarget
    critic_optimiser: PyTree
    log_temperature: Trained[Float[Array, ""]]
    hyper: Hyper


def policy_objective(config: MSGConfig) -> Objective:
    """What the policy climbs: as the targets have it, with the paper's and its code's alternatives."""
    objective = TARGETS[config.targets].objective
    if objective is minimum and config.min_over == "batch":
        objective = minimum_of_all
    return of_expectation(objective) if config.bound == "expectation" else objective


def make_msg(config: MSGConfig, observation_size: int, action_size: int) -> Algorithm[MSGState]:
    """MSG for vectors of the given sizes."""
    rule = TARGETS[config.targets]
    ensemble = make_ensemble(config.ensemble, config.shape(observation_size, action_size))
    if rule.shared and ensemble.arrange is not None:
        raise CharyError(
            f"--ensemble {config.ensemble} does not go with --targets {config.targets}: its members see "
            "different rows side by side, so there is no next value to share. Use --targets independent "
            "or double-q, or --ensemble deep."
        )
    shards = shards_of(config.members, config.devices, divisible=ensemble.in_windows)
    if rule.shared:
        rule = rule._replace(backup=shards.across(rule.backup))
    window = (config.chunk or shards.members) if ensemble.in_windows else config.members
    critics = Fused(ensemble, shards, window, read=lambda heads: smallest(heads, axis=1))
    objective = policy_objective(config)
    # Members' deviations are taken with ddof 0 everywhere: the square root of N / (N - ddof) is beta's.
    ddof = ensemble.ddof if config.ddof is None else config.ddof
    widened = sqrt(config.members / max(config.members - ddof, 1))
    regularise = config.alpha != 0.0
    own_samples = (
        config.regulariser_samples == "own" or ensemble.shares_weights or config.splits_rows
    )
    at_policy_sample = regularise and not own_samples
    separate = at_policy_sample or ensemble.in_windows

    def init(key: PRNGKeyArray) -> MSGState:
        policy_key, critic_key = jax.random.split(key)
        policy = Policy.init(observation_size, action_size, config.hidden, key=policy_key)
        params = ensemble.init(critic_key)
        target_beta = config.beta if config.target_beta is None else config.target_beta
        return MSGState(
            step=jnp.int32(0),
            policy=Trained.of(policy),
            critics=OnlineAndTarget(params, jax.tree.map(jnp.copy, params)),
            critic_optimiser=adam_init(params),
            log_temperature=Trained.of(jnp.log(jnp.float32(config.temperature))),
            hyper=as_arrays(
                Hyper,
                config,
                target_beta=target_beta,
                target_entropy=target_entropy(config, action_size),
            ),
        )

    def policy_evaluation_step(
        state: MSGState, batch: Batch, noise: Noise
    ) -> tuple[Learned, Metrics]:
        """For i = 1, ..., N: theta_i by Adam on L_i + alpha H_i, and target_i towards theta_i."""
        hyper, here = state.hyper, noise.of(shards.here())
        pi, next_pi = (
            state.policy.params(s) for s in (batch.observations, batch.next_observations)
        )

        # y_i = r + gamma Q_target_i(s', a'_i),  a'_i ~ pi(s')                                  (Eq. 6)
        next_heads = critics.target_values(
            state.critics.target,
            batch.next_observations,
            lambda mine: next_pi.sample(mine.member_actions),
            here,
        )
        next_values = rule.backup(next_heads, widened * hyper.target_beta)
        own_rows = here.rows if config.splits_rows else None
        y = losses.td_targets(batch, hyper.discount, next_values, own_rows)

        policy_actions = pi.sample(noise.policy_actions) if separate else None

        def asked(mine: Noise) -> Asked:
            own = pi.sample(mine.member_actions) if regularise and own_samples else None
            return Asked(logged=batch.actions, regulariser=own, policy=policy_actions)

        def critic_loss(q: Asked, y: Any, mine: Noise) -> Float[Array, " member"]:
            """L_i + alpha H_i                                                           (Eqs. 5, 8)"""
            loss = td_of(q.logged, y, mine)
            if regularise:  # H_i = E[Q_i(s, a_i)] - E[Q_i(s, a)],  a_i ~ pi(s)
                loss += hyper.alpha * (critics.read(compared(q)) - critics.read(q.logged)).mean(-1)
            return loss

        learned = critics.step(
            state.critics,
            state.critic_optimiser,
            batch.observations,
            asked,
            critic_loss,
            y,
            here,
            weight=hyper.alpha if at_policy_sample else None,
            learning_rate=hyper.critic_learning_rate,
            tau=hyper.tau,
        )
        q, y = learned.answers, shards.gathered(y)
        gap = critics.read(compared(q)) - critics.read(q.logged)
        td = td_of(q.logged, y, noise)
        return learned, {"critic/regulariser": gap.mean(), **critic_metrics(td, q.logged, y)}

    def td_of(
        heads: Float[Array, "member head rows"], y: Float[Array, "member rows"], noise: Noise
    ) -> Float[Array, " member"]:
        """L_i = 1/2 E[w_i (Q_i(s, a) - y_i)^2]; a pair counts as one network, once as two.    (Eq. 5)"""
        networks = rule.heads if config.double_q == "sum" else 1
        return networks * td_loss(heads, y, noise.weights)

    def compared(q: Asked) -> Any:
        """Where H looks beside the data."""
        if not regularise:
            return q.logged
        return q.policy if q.regulariser is None else q.regulariser

    def policy_loss(
        policy: Policy, state: MSGState, batch: Batch, noise: Noise, learned: Learned
    ) -> tuple[Float[Array, ""], Metrics]:
        """-E[mean_i Q_i(s, a) + beta std_i Q_i(s, a)], a ~ pi(s), or what goes with the targets (Eq. 7);
        -E[log pi(a | s)] of the logged actions while warming up."""
        pi = policy(batch.observations)
        actions, log_prob = pi.sample_and_log_prob(noise.policy_actions)
        if learned.slopes is not None:
            values = learned.slopes(actions)
        else:  # of the critics before this step, as the slopes are
            values = ensemble.values(
                state.critics.online, batch.observations, actions, key=noise.ensemble_key
            )
        bound = objective(values, widened * state.hyper.beta)
        likelihood = pi.log_prob(batch.actions)
        temperature = jnp.exp(state.log_temperature.params)
        bonus = 0.0 if config.entropy == "off" else -temperature * log_prob
        warming_up = state.step < config.warmup_steps
        metrics = {
            "policy/objective": bound.mean(),
            "policy/std": mean_and_std(values)[1].mean(),
            "policy/q": values.mean(),
            "policy/entropy": -log_prob.mean(),
            "policy/log_likelihood": likelihood.mean(),
            "policy/temperature": temperature,
        }
        return -jnp.where(warming_up, likelihood, bound + bonus).mean(), metrics

    def policy_optimisation_step(
        state: MSGState, batch: Batch, noise: Noise, learned: Learned
    ) -> tuple[Trained[Policy], Trained[Float[Array, ""]], Metrics]:
        """The policy by Adam, and the temperature of its entropy bonus."""
        gradient, metrics = jax.grad(policy_loss, has_aux=True)(
            state.policy.params, state, batch, noise, learned
        )
        temperature = state.log_temperature
        if config.entropy == "tuned":
            temperature_gradient = jax.grad(temperature_loss)(
                temperature.params, metrics["policy/entropy"], state.hyper.target_entropy
            )
            tuned = temperature.step(temperature_gradient, state.hyper.temperature_learning_rate)
            # Tuning, its moments included, begins after the warm-up.
            temperature = either(state.step < config.warmup_steps, temperature, tuned)
        return state.policy.step(gradient, state.hyper.policy_learning_rate), temperature, metrics

    def update(state: MSGState, batch: Batch, key: PRNGKeyArray) -> tuple[MSGState, Metrics]:
        noise = draw_noise(
            config,
            len(batch.rewards),
            action_size,
            shared=ensemble.shares_weights or (rule.shared and config.next_actions == "shared"),
            arrange=ensemble.arrange,
            key=key,
        )
        # The barrier asks the compiler not to draw the same noise again in every use of it.
        noise = jax.lax.optimization_barrier(noise)
        learned, critic_report = policy_evaluation_step(state, batch, noise)
        policy, temperature, report = policy_optimisation_step(state, batch, noise, learned)
        return MSGState(
            step=state.step + 1,
            policy=policy,
            critics=learned.critics,
            critic_optimiser=learned.optimiser,
            log_temperature=temperature,
            hyper=state.hyper,
        ), critic_report | report

    def act(
        state: MSGState,
        observations: Float[Array, "batch observation"],
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "batch action"]:
        return state.policy.params.act(observations, key=key)

    def values(
        state: MSGState,
        observations: Float[Array, "batch observation"],
        actions: Float[Array, "batch action"],
    ) -> Float[Array, "member batch"]:
        return ensemble.values(state.critics.online, observations, actions)

    def beta(state: MSGState) -> Float[Array, ""]:
        return jnp.float32(deviations(rule.objective, widened * state.hyper.beta, config.members))

    algorithm = Algorithm(init, update, act, values, beta)
    # Members have the networks, their averages and Adam's two moments, but not its count.
    return divided(algorithm, shards.devices, lambda s: (s.critics, *s.critic_optimiser[1:]))
