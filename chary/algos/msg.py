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

from collections.abc import Sequence
from itertools import accumulate
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
from chary.losses import critic_metrics, td_loss, temperature_loss
from chary.optimise import Moving, Trained, adam_init, as_arrays, either
from chary.policies import Policy
from chary.products import learning_from
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
from chary.window import Window, through_windows


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


class Slopes(NamedTuple):
    """Q_i(s, a) around the a ~ pi(s) of a step: all that the policy need know of separate critics."""

    values: Float[Array, "member batch"]
    in_actions: Float[Array, "member batch action"]

    def at(self, actions: Float[Array, "batch action"]) -> Float[Array, "member batch"]:
        """The values, with their gradient in these actions."""
        return self.values + (self.in_actions * (actions - jax.lax.stop_gradient(actions))).sum(-1)


def policy_objective(config: MSGConfig) -> Objective:
    """What the policy climbs: as the targets have it, with the paper's and its code's alternatives."""
    objective = TARGETS[config.targets].objective
    if objective is minimum and config.min_over == "batch":
        objective = minimum_of_all
    return of_expectation(objective) if config.bound == "expectation" else objective


def joined(kinds: Sequence[Float[Array, "..."]]) -> Float[Array, "..."]:
    """Rows below each other; where some are each member's own, all are."""
    leading = jnp.broadcast_shapes(*(each.shape[:-2] for each in kinds))
    return jnp.concatenate(
        [jnp.broadcast_to(each, (*leading, *each.shape[-2:])) for each in kinds], axis=-2
    )


def make_msg(config: MSGConfig, observation_size: int, action_size: int) -> Algorithm[MSGState]:
    """MSG for vectors of the given sizes."""
    targets = TARGETS[config.targets]
    ensemble = make_ensemble(config.ensemble, config.shape(observation_size, action_size))
    if targets.shared and ensemble.arrange is not None:
        raise CharyError(
            f"--ensemble {config.ensemble} does not go with --targets {config.targets}: its members see "
            "different rows side by side, so there is no next value to share. Use --targets independent "
            "or double-q, or --ensemble deep."
        )
    shards = shards_of(config.members, config.devices, divisible=ensemble.in_windows)
    if targets.shared:
        targets = targets._replace(backup=shards.across(targets.backup))
    objective = policy_objective(config)
    # Members' deviations are taken with ddof 0 everywhere: the square root of N / (N - ddof) is beta's.
    ddof = ensemble.ddof if config.ddof is None else config.ddof
    widened = sqrt(config.members / max(config.members - ddof, 1))
    regularise = config.alpha != 0.0
    chunk = (config.chunk or shards.members) if ensemble.in_windows else config.members
    rows = config.batch_size // config.members if config.splits_rows else None
    own_samples = config.regulariser_samples == "own" or ensemble.shares_weights or rows is not None
    at_policy_sample = regularise and not own_samples
    separate = at_policy_sample or ensemble.in_windows
    only_slope = separate and not at_policy_sample

    def init(key: PRNGKeyArray) -> MSGState:
        policy_key, critic_key = jax.random.split(key)
        policy = Policy.init(observation_size, action_size, config.hidden, key=policy_key)
        critics = ensemble.init(critic_key)
        target_beta = config.beta if config.target_beta is None else config.target_beta
        return MSGState(
            step=jnp.int32(0),
            policy=Trained.of(policy),
            critics=OnlineAndTarget(critics, jax.tree.map(jnp.copy, critics)),
            critic_optimiser=adam_init(critics),
            log_temperature=Trained.of(jnp.log(jnp.float32(config.temperature))),
            hyper=as_arrays(
                Hyper,
                config,
                target_beta=target_beta,
                target_entropy=target_entropy(config, action_size),
            ),
        )

    def td_targets(state: MSGState, batch: Batch, noise: Noise) -> Float[Array, "member batch"]:
        """y_i = r + gamma * Q_target_i(s', a'_i), with no gradient through it (Eq. 6)."""
        next_law = state.policy.params(batch.next_observations)

        def work(
            window: Window, values: Float[Array, "member head batch"]
        ) -> Float[Array, "member head batch"]:
            mine = noise.of(window)
            next_actions = next_law.sample(mine.member_actions)
            heads = ensemble.heads(
                window.of(state.critics.target),
                mine.arranged(batch.next_observations),
                mine.arranged(next_actions),
                key=noise.ensemble_key,
            )
            return window.put(values, mine.in_order(heads, len(batch.rewards)))

        nothing = jnp.zeros((shards.members, targets.heads, rows or len(batch.rewards)))
        next_heads = through_windows(work, nothing, members=shards.members, size=chunk)
        next_values = targets.backup(next_heads, widened * state.hyper.target_beta)
        own_rows = noise.rows if rows else None
        return losses.td_targets(batch, state.hyper.discount, next_values, own_rows)

    def member_loss(
        heads: Float[Array, "member head rows"],
        wanted: Float[Array, "member rows"],
        noise: Noise,
    ) -> Float[Array, " member"]:
        """L_i (Eq. 5); both networks of a pair count as one, or by the older rule as two."""
        networks = targets.heads if config.double_q == "sum" else 1
        return networks * td_loss(heads, wanted, noise.weights)

    def critic_loss(
        critics: PyTree,
        policy_actions: Float[Array, "member batch action"],
        compared: Float[Array, "*member_or_all batch action"],
        wanted: Float[Array, "member rows"],
        alpha: Float[Array, ""],
        batch: Batch,
        noise: Noise,
    ) -> tuple[Float[Array, ""], list[Float[Array, "member head _"]]]:
        """sum_i L_i + alpha * H_i (Eqs. 5 and 8), beside the values at logged actions and at others.

        All go through the critics as one batch: logged actions, those that H compares them with where
        these are not the policy's, and the policy's, where members are separate.
        """
        observations = noise.arranged(batch.observations)
        kinds = [(observations, noise.arranged(batch.actions))]
        if regularise and not at_policy_sample:
            kinds.append((observations, noise.arranged(compared)))
        learned = sum(actions.shape[-2] for _, actions in kinds)
        if separate:
            kinds.append((batch.observations, policy_actions))
        with learning_from(learned if only_slope else None):
            values = ensemble.heads(
                critics,
                *(joined(each) for each in zip(*kinds, strict=True)),
                key=noise.ensemble_key,
            )
        ends = list(accumulate(actions.shape[-2] for _, actions in kinds))
        parts = jnp.split(values, ends[:-1], axis=-1)
        heads = [noise.in_order(part, len(batch.rewards)) for part in parts]
        at_data, *at_others = (smallest(each, axis=1).mean(axis=-1) for each in heads)
        total = member_loss(heads[0], wanted, noise)
        if regularise:
            total += alpha * (at_others[0] - at_data)
        if only_slope:
            total += at_others[-1]  # no weight learns from it
        return total.sum(), heads

    def learn(state: MSGState, batch: Batch, noise: Noise) -> tuple[Moving, Slopes | None, Metrics]:
        """A step of the critics, and what they thought of the policy's actions before it.

        One backward pass serves two purposes: where members are separate, the gradient of the loss in
        the policy's action is Q_i's, which the policy climbs by, times 1 / M. Where H is taken at that
        action, the factor is alpha / M.
        """
        hyper, members, size = state.hyper, shards.members, len(batch.rewards)
        here = noise.of(shards.here())
        law, wanted = state.policy.params(batch.observations), td_targets(state, batch, here)
        actions = law.sample(noise.policy_actions)
        count = (state.critic_optimiser.count + 1).astype(jnp.float32)
        factor = hyper.alpha / size if at_policy_sample else 1.0 / size
        gradient_of = jax.grad(critic_loss, (0, 1) if separate else 0, has_aux=True)

        def work(window: Window, carry: Any) -> Any:
            moving, seen, slopes = carry
            mine = here.of(window)
            each = jnp.broadcast_to(actions, (window.size, *actions.shape))
            compared = law.sample(mine.member_actions)
            critics, goals = window.of((moving.online, wanted))
            gradient, heads = gradient_of(critics, each, compared, goals, hyper.alpha, batch, mine)
            if separate:
                gradient, in_actions = gradient
                found = Slopes(smallest(heads[-1], axis=1), in_actions / factor)
                slopes = window.put(slopes, found)
            moving = moving.step(gradient, count, hyper.critic_learning_rate, hyper.tau, window)
            return moving, window.put(seen, (heads[0], heads[int(regularise)])), slopes

        optimiser = state.critic_optimiser
        values = jnp.zeros((members, targets.heads, rows or size))
        flat = Slopes(jnp.zeros((members, size)), jnp.zeros((members, *actions.shape)))
        begin = (
            Moving(*state.critics, optimiser.mu, optimiser.nu),
            (values, values),
            flat if separate else None,
        )
        moving, (heads, others), slopes = through_windows(work, begin, members=members, size=chunk)
        # What the policy and the log need of all members.
        slopes, heads, others, wanted = shards.gathered((slopes, heads, others, wanted))
        gap = smallest(others, axis=1) - smallest(heads, axis=1)
        td = member_loss(heads, wanted, noise)
        metrics = {"critic/regulariser": gap.mean(), **critic_metrics(td, heads, wanted)}
        return moving, slopes, metrics

    def policy_loss(
        policy: Policy, state: MSGState, batch: Batch, noise: Noise, slopes: Slopes | None
    ) -> tuple[Float[Array, ""], Metrics]:
        """Climb the lower confidence bound (Eq. 7) or what goes with the targets instead; while warming
        up, clone the data."""
        law = policy(batch.observations)
        actions, log_prob = law.sample_and_log_prob(noise.policy_actions)
        if slopes is not None:
            values = slopes.at(actions)
        else:
            values = ensemble.values(
                state.critics.online, batch.observations, actions, key=noise.ensemble_key
            )
        climbed = objective(values, widened * state.hyper.beta)
        likelihood = law.log_prob(batch.actions)
        temperature = jnp.exp(state.log_temperature.params)
        bonus = 0.0 if config.entropy == "off" else -temperature * log_prob
        warming_up = state.step < config.warmup_steps
        metrics = {
            "policy/objective": climbed.mean(),
            "policy/std": mean_and_std(values)[1].mean(),
            "policy/q": values.mean(),
            "policy/entropy": -log_prob.mean(),
            "policy/log_likelihood": likelihood.mean(),
            "policy/temperature": temperature,
        }
        return -jnp.where(warming_up, likelihood, climbed + bonus).mean(), metrics

    def step(state: MSGState, batch: Batch, noise: Noise) -> tuple[MSGState, Metrics]:
        """One update with the given noise; the policy climbs the critics from before the step."""
        hyper = state.hyper
        moving, slopes, learned = learn(state, batch, noise)

        policy_gradient, policy_metrics = jax.grad(policy_loss, has_aux=True)(
            state.policy.params, state, batch, noise, slopes
        )
        temperature = state.log_temperature
        if config.entropy == "tuned":
            temperature_gradient = jax.grad(temperature_loss)(
                temperature.params, policy_metrics["policy/entropy"], hyper.target_entropy
            )
            tuned = temperature.step(temperature_gradient, hyper.temperature_learning_rate)
            # Tuning, its moments included, begins after the warm-up.
            temperature = either(state.step < config.warmup_steps, temperature, tuned)
        return MSGState(
            step=state.step + 1,
            policy=state.policy.step(policy_gradient, hyper.policy_learning_rate),
            critics=OnlineAndTarget(moving.online, moving.target),
            critic_optimiser=state.critic_optimiser._replace(
                count=state.critic_optimiser.count + 1, mu=moving.mu, nu=moving.nu
            ),
            log_temperature=temperature,
            hyper=hyper,
        ), learned | policy_metrics

    def update(state: MSGState, batch: Batch, key: PRNGKeyArray) -> tuple[MSGState, Metrics]:
        noise = draw_noise(
            config,
            len(batch.rewards),
            action_size,
            shared=ensemble.shares_weights or (targets.shared and config.next_actions == "shared"),
            arrange=ensemble.arrange,
            key=key,
        )
        # The barrier asks the compiler not to draw the same noise again in every use of it.
        return step(state, batch, jax.lax.optimization_barrier(noise))

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
        return jnp.float32(
            deviations(targets.objective, widened * state.hyper.beta, config.members)
        )

    algorithm = Algorithm(init, update, act, values, beta)
    # Members have the networks, their averages and Adam's two moments, but not its count.
    return divided(algorithm, shards.devices, lambda s: (s.critics, *s.critic_optimiser[1:]))
