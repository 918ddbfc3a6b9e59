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

from collections.abc import Callable
from math import sqrt
from typing import Any, NamedTuple, TypeAlias

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
from chary.optimise import Trained, adam_init, as_arrays, either, move_towards
from chary.policies import PointPolicy, Policy
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

AnyPolicy: TypeAlias = Policy | PointPolicy


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
    policy: Trained[AnyPolicy]
    critics: OnlineAndTarget
    critic_optimiser: PyTree
    log_temperature: Trained[Float[Array, ""]]
    policy_average: AnyPolicy | None
    """The policy that acts, where that is an average of those that were trained."""
    hyper: Hyper


def make_policy(
    config: MSGConfig, observation_size: int, action_size: int, *, key: PRNGKeyArray
) -> AnyPolicy:
    """The kind of policy that is asked for."""
    sizes = observation_size, action_size, config.hidden
    if config.policy == "gaussian":
        return Policy.init(*sizes, key=key)
    noise, clip = config.target_noise, config.target_noise_clip
    return PointPolicy.init(*sizes, noise=noise, clip=clip, key=key)


def spread_metrics(
    values: Float[Array, "member batch"],
    logged: Float[Array, "member batch"] | None,
    climbed: Float[Array, "member batch"],
    beta: Float[Array, ""],
) -> Metrics:
    """What the members' spread is made of, at the policy's actions.

    `policy/pushed_down`: the share of members whose value the bound's gradient lowers, because its
    weight 1 + beta (Q_i - mean) / std is negative. `policy/action_share`: what an action changes of the
    spread, E[var_i(Q_i(s, pi(s)) - Q_i(s, a))], as a share of itself and offsets, E[var_i Q_i(s, a)].
    """
    mean, std = mean_and_std(climbed)
    weight = 1.0 + beta * (climbed - mean) / jnp.maximum(std, 1e-8)
    metrics = {"policy/pushed_down": (weight < 0.0).mean()}
    if logged is not None:
        changed, offset = (values - logged).var(axis=0).mean(), logged.var(axis=0).mean()
        metrics["policy/action_share"] = changed / jnp.maximum(changed + offset, 1e-12)
    return metrics


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
    bins = config.value_bins()

    def value_of(outputs: Float[Array, "..."]) -> Float[Array, "member head batch"]:
        """Q of every network, as it is or as the expectation over bins."""
        return outputs if bins is None else bins.value(outputs)

    def read(outputs: Float[Array, "..."]) -> Float[Array, "member batch"]:
        """Q_i: the smaller of a pair."""
        return smallest(value_of(outputs), axis=1)

    critics = Fused(ensemble, shards, window, read)
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
        policy = make_policy(config, observation_size, action_size, key=policy_key)
        params = ensemble.init(critic_key)
        target_beta = config.beta if config.target_beta is None else config.target_beta
        return MSGState(
            step=jnp.int32(0),
            policy=Trained.of(policy),
            critics=OnlineAndTarget(params, jax.tree.map(jnp.copy, params)),
            critic_optimiser=adam_init(params),
            log_temperature=Trained.of(jnp.log(jnp.float32(config.temperature))),
            policy_average=jax.tree.map(jnp.copy, policy) if config.policy_average else None,
            hyper=as_arrays(
                Hyper,
                config,
                target_beta=target_beta,
                target_entropy=target_entropy(config, action_size),
            ),
        )

    def policy_evaluation_step(
        state: MSGState, batch: Batch, noise: Noise, *, climbing: bool = True
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
        next_values = rule.backup(value_of(next_heads), widened * hyper.target_beta)
        own_rows = here.rows if config.splits_rows else None
        y = losses.td_targets(batch, hyper.discount, next_values, own_rows)

        policy_actions, _ = pi.sample_and_log_prob(noise.policy_actions)

        def asked(mine: Noise) -> Asked:
            own = pi.sample(mine.member_actions) if regularise and own_samples else None
            policy = policy_actions if at_policy_sample or (separate and climbing) else None
            return Asked(logged=batch.actions, regulariser=own, policy=policy)

        def critic_loss(q: Asked, y: Any, mine: Noise) -> Float[Array, " member"]:
            """L_i + alpha H_i                                                           (Eqs. 5, 8)"""
            loss = td_of(q.logged, y, mine)
            if regularise:  # H_i = E[Q_i(s, a_i)] - E[Q_i(s, a)],  a_i ~ pi(s)
                loss += hyper.alpha * (read(compared(q)) - read(q.logged)).mean(-1)
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
            also=sass_loss(batch) if config.sass else None,
            learning_rate=hyper.critic_learning_rate,
            tau=hyper.tau,
        )
        q, y = learned.answers, shards.gathered(y)
        gap = read(compared(q)) - read(q.logged)
        td = td_of(q.logged, y, noise)
        metrics = critic_metrics(td, value_of(q.logged), y)
        return learned, {"critic/regulariser": gap.mean(), **metrics}

    def td_of(
        heads: Float[Array, "member head rows *bin"], y: Float[Array, "member rows"], noise: Noise
    ) -> Float[Array, " member"]:
        """L_i = 1/2 E[w_i (Q_i(s, a) - y_i)^2], or the cross-entropy over bins instead (Eq. 5)."""
        # A pair of networks counts as one; before 0.2 it counted as two.
        networks = rule.heads if config.double_q == "sum" else 1
        loss = td_loss if bins is None else bins.cross_entropy
        return networks * loss(heads, y, noise.weights)

    def sass_loss(batch: Batch) -> Callable[[PyTree, PyTree, Noise], Float[Array, " member"]]:
        """The authors' self-supervised loss: features of (s, a) find those of (s', a') and themselves,
        a' logged in half of the rows and uniform in the others."""

        def loss(online: PyTree, slow: PyTree, mine: Noise) -> Float[Array, " member"]:
            assert ensemble.features is not None and batch.next_actions is not None
            assert mine.ensemble_key is not None
            key = jax.random.fold_in(mine.ensemble_key, 1)
            uniform = jax.random.uniform(key, batch.actions.shape, minval=-1.0)
            half = jnp.arange(len(batch.rewards))[:, None] < len(batch.rewards) // 2
            logged = half & jnp.isfinite(batch.next_actions)
            following = jnp.where(logged, jnp.nan_to_num(batch.next_actions), uniform)
            here = ensemble.features(online, batch.observations, batch.actions)
            there = ensemble.features(
                jax.lax.stop_gradient(slow), batch.next_observations, following
            )
            both = losses.contrastive_loss(here, there) + losses.contrastive_loss(here, here)
            return config.sass * 0.5 * both.mean(axis=1)

        return loss

    def compared(q: Asked) -> Any:
        """Where H looks beside the data."""
        if not regularise:
            return q.logged
        return q.policy if q.regulariser is None else q.regulariser

    def policy_loss(
        policy: AnyPolicy, state: MSGState, batch: Batch, noise: Noise, learned: Learned
    ) -> tuple[Float[Array, ""], Metrics]:
        """-E[mean_i Q_i(s, a) + beta std_i Q_i(s, a)], a ~ pi(s), or what goes with the targets (Eq. 7);
        -E[log pi(a | s)] of the logged actions while warming up."""
        pi, beta = policy(batch.observations), widened * state.hyper.beta
        actions, log_prob = pi.sample_and_log_prob(noise.policy_actions)
        if learned.slopes is not None:
            values = learned.slopes(actions)
        else:  # of the critics before this step, as the slopes are
            params, key = state.critics.online, noise.ensemble_key
            values = read(ensemble.heads(params, batch.observations, actions, key=key))
        logged = None if config.splits_rows else jax.lax.stop_gradient(read(learned.answers.logged))
        climbed = values - logged if config.bound == "relative" and logged is not None else values
        bound = objective(climbed, beta)
        likelihood = pi.log_prob(batch.actions)
        distance = ((pi.mode - batch.actions) ** 2).sum(-1)
        temperature = jnp.exp(state.log_temperature.params)
        bonus = 0.0 if config.entropy == "off" else -temperature * log_prob
        gain = bound + bonus
        if config.cloning:
            # By E|Q|, or E|D| of the relative bound: nu means the same whatever the rewards' scale.
            size = jax.lax.stop_gradient(jnp.maximum(jnp.abs(climbed).mean(), 1e-8))
            penalty = distance if config.cloning_loss == "squared" else -likelihood
            gain = bound / size + bonus - config.cloning * penalty
        warming_up = state.step < config.warmup_steps
        metrics = {
            "policy/objective": bound.mean(),
            "policy/std": mean_and_std(values)[1].mean(),
            "policy/q": values.mean(),
            "policy/entropy": -log_prob.mean(),
            "policy/log_likelihood": likelihood.mean(),
            "policy/temperature": temperature,
            "policy/distance": distance.mean(),
            **spread_metrics(values, logged, climbed, beta),
        }
        return -jnp.where(warming_up, likelihood, gain).mean(), metrics

    def policy_optimisation_step(
        state: MSGState, batch: Batch, noise: Noise, learned: Learned
    ) -> tuple[dict[str, Any], Metrics]:
        """What changes in the state: the policy by Adam, and the temperature of its entropy bonus."""
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
        policy = state.policy.step(gradient, state.hyper.policy_learning_rate)
        changed: dict[str, Any] = {"policy": policy, "log_temperature": temperature}
        if config.policy_average:
            share = jnp.float32(config.policy_average)
            changed["policy_average"] = move_towards(state.policy_average, policy.params, share)
        return changed, metrics

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

        def critics_and_policy() -> tuple[MSGState, Metrics]:
            learned, report = policy_evaluation_step(state, batch, noise)
            changed, more = policy_optimisation_step(state, batch, noise, learned)
            # A mean over steps of which only every k-th has these numbers.
            more = {name: config.policy_every * value for name, value in more.items()}
            return after(learned)._replace(**changed), report | more

        def critics_alone() -> tuple[MSGState, Metrics]:
            learned, report = policy_evaluation_step(state, batch, noise, climbing=False)
            silent = jax.eval_shape(critics_and_policy)[1]
            return after(learned), jax.tree.map(jnp.zeros_like, silent) | report

        def after(learned: Learned) -> MSGState:
            return state._replace(
                step=state.step + 1, critics=learned.critics, critic_optimiser=learned.optimiser
            )

        if config.policy_every == 1:
            return critics_and_policy()
        due = state.step % config.policy_every == 0
        return jax.lax.cond(due, critics_and_policy, critics_alone)

    def act(
        state: MSGState,
        observations: Float[Array, "batch observation"],
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "batch action"]:
        policy = state.policy.params if state.policy_average is None else state.policy_average
        return policy.act(observations, key=key)

    def values(
        state: MSGState,
        observations: Float[Array, "batch observation"],
        actions: Float[Array, "batch action"],
    ) -> Float[Array, "member batch"]:
        return read(ensemble.heads(state.critics.online, observations, actions))

    def beta(state: MSGState) -> Float[Array, ""]:
        return jnp.float32(deviations(rule.objective, widened * state.hyper.beta, config.members))

    algorithm = Algorithm(init, update, act, values, beta, wants_next_actions=config.sass > 0.0)
    # Members have the networks, their averages and Adam's two moments, but not its count.
    return divided(algorithm, shards.devices, lambda s: (s.critics, *s.critic_optimiser[1:]))
