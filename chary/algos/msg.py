"""MSG: Model Standard-deviation Gradients (Ghasemipour, Gu and Nachum 2022).

N Q-functions, each trained towards its own target, and a policy that maximises their lower confidence
bound. One step does, for a batch (s, a, r, s') and the policy pi:

    critics   y_i  = r + gamma * Q_target_i(s', a'_i),  a'_i ~ pi(s')                     (Eq. 6)
              L_i  = 1/2 E[w_i (Q_i(s, a) - y_i)^2],    w_i ~ U[0, 2]                     (Eq. 5)
              H_i  = E[Q_i(s, a_i)] - E[Q_i(s, a)],     a_i ~ pi(s)
              minimise  sum_i L_i + alpha * H_i                                           (Eq. 8)
    policy    maximise  E[mean_i Q_i(s, a) + beta * std_i Q_i(s, a)],  a ~ pi(s)          (Eq. 7)
              plus an entropy bonus; in the first steps log pi(a | s) instead (cloning)
    targets   Q_target_i moves by tau towards Q_i

No member ever sees another's value: that independence is what makes their spread mean uncertainty.
Shared targets (`chary/networks/targets.py`) give it up for one target for all, and cheaper ensembles
(`chary/ensembles/`) for weights that members share.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from chary.algos import msg_parts as parts
from chary.algos.critics import acting, valuing
from chary.algos.msg_config import MSGConfig
from chary.algos.msg_noise import Noise
from chary.algos.msg_parts import AnyPolicy
from chary.algos.msg_state import MSGState, initial_state
from chary.execution.critics import Asked, Learned, Lesson, MakeExecutor
from chary.execution.fused import Fused
from chary.networks import losses
from chary.networks.losses import critic_metrics, temperature_loss
from chary.networks.optimisers import either, move_towards
from chary.networks.targets import TARGETS, deviations, mean_and_std
from chary.types import Algorithm, Batch, Metrics


def make_msg(
    config: MSGConfig, observation_size: int, action_size: int, *, executor: MakeExecutor = Fused.of
) -> Algorithm[MSGState]:
    """MSG for vectors of the given sizes; `executor` asks and trains the critics (`execution/`)."""
    rule, ensemble = (
        TARGETS[config.targets],
        parts.make_critics(config, observation_size, action_size),
    )
    all_values, value, td = parts.every_value(config), parts.value(config), parts.td(config)
    objective, widened = parts.objective(config), parts.beta_factor(config, ensemble)
    critics = executor(ensemble, value, config.members)
    backup = critics.across_members(rule.backup) if rule.shared else rule.backup
    regularise = config.alpha != 0.0
    own = config.regulariser_samples == "own" or ensemble.shares_weights or config.splits_rows

    def init(key: PRNGKeyArray) -> MSGState:
        return initial_state(config, ensemble, observation_size, action_size, key=key)

    def policy_evaluation_step(
        state: MSGState, batch: Batch, noise: Noise, *, policy_learns: bool
    ) -> tuple[Learned, Metrics]:
        """For i = 1, ..., N: theta_i by Adam on L_i + alpha H_i, and target_i towards theta_i."""
        hyper, policy = state.hyper, state.policy.params
        pi, next_pi = policy(batch.observations), policy(batch.next_observations)
        policy_actions, _ = pi.sample_and_log_prob(noise.policy_actions)

        # y_i = r + gamma Q_target_i(s', a'_i),  a'_i ~ pi(s')                                  (Eq. 6)
        next_values = critics.target_values(
            state.critics.target,
            batch.next_observations,
            lambda mine: next_pi.sample(mine.member_actions),
            noise,
        )
        next_values = backup(all_values(next_values), widened * hyper.target_beta)
        y = losses.td_targets(
            batch, hyper.discount, next_values, noise.rows if config.splits_rows else None
        )

        def asked(mine: Noise) -> Asked:
            a_i = pi.sample(mine.member_actions) if regularise and own else None
            at_policy = policy_learns or (regularise and not own)
            return Asked(batch.actions, a_i, policy_actions if at_policy else None)

        def h(q: Asked) -> Float[Array, "member rows"]:
            """H_i = E[Q_i(s, a_i) - Q_i(s, a)],  a_i ~ pi(s), before the expectation"""
            elsewhere = q.policy if q.regulariser is None else q.regulariser
            return value(elsewhere if regularise else q.logged) - value(q.logged)

        def critic_loss(q: Asked, y: Any, mine: Noise) -> Float[Array, " member"]:
            """L_i + alpha H_i,  L_i = 1/2 E[w_i (Q_i(s, a) - y_i)^2]                      (Eqs. 5, 8)"""
            loss = td(q.logged, y, mine)
            return loss + hyper.alpha * h(q).mean(-1) if regularise else loss

        lesson = Lesson(
            batch.observations,
            asked,
            critic_loss,
            y,
            hyper.critic_learning_rate,
            hyper.tau,
            weight=hyper.alpha if regularise and not own else None,
            also=parts.sass(config, ensemble, batch),
        )
        learned = critics.step(state.critics, state.critic_optimiser, lesson, noise)
        q, y = learned.answers, learned.targets
        metrics = critic_metrics(td(q.logged, y, noise), all_values(q.logged), y)
        return learned, {"critic/regulariser": h(q).mean(), **metrics}

    def policy_loss(
        policy: AnyPolicy, state: MSGState, batch: Batch, noise: Noise, learned: Learned
    ) -> tuple[Float[Array, ""], Metrics]:
        """-E[mean_i Q_i(s, a) + beta std_i Q_i(s, a)], a ~ pi(s), or what goes with the targets (Eq. 7);
        -E[log pi(a | s)] of the logged actions while warming up."""
        pi, beta = policy(batch.observations), widened * state.hyper.beta
        actions, log_prob = pi.sample_and_log_prob(noise.policy_actions)
        values = learned.at_policy(actions)
        logged = (
            None if config.splits_rows else jax.lax.stop_gradient(value(learned.answers.logged))
        )
        bounded = values - logged if config.bound == "relative" and logged is not None else values
        bound = objective(bounded, beta)
        likelihood = pi.log_prob(batch.actions)
        distance = ((pi.mode - batch.actions) ** 2).sum(-1)
        temperature = jnp.exp(state.log_temperature.params)
        bonus = 0.0 if config.entropy == "off" else -temperature * log_prob
        gain = parts.held_to_the_data(config, bound, bonus, bounded, distance, likelihood)
        means = {
            "policy/objective": bound,
            "policy/std": mean_and_std(values)[1],
            "policy/q": values,
            "policy/entropy": -log_prob,
            "policy/log_likelihood": likelihood,
            "policy/temperature": temperature,
            "policy/distance": distance,
        }
        metrics = {name: x.mean() for name, x in means.items()}
        metrics |= parts.spread_metrics(values, logged, bounded, beta)
        warming_up = state.step < config.warmup_steps
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
        noise = parts.noise(config, ensemble, batch, key=key)

        def both() -> tuple[MSGState, Metrics]:
            learned, report = policy_evaluation_step(state, batch, noise, policy_learns=True)
            changed, more = policy_optimisation_step(state, batch, noise, learned)
            # A mean over steps of which only every k-th has these numbers.
            more = {name: config.policy_every * value for name, value in more.items()}
            return after(state, learned)._replace(**changed), report | more

        def critics_alone() -> tuple[MSGState, Metrics]:
            learned, report = policy_evaluation_step(state, batch, noise, policy_learns=False)
            silent = jax.tree.map(jnp.zeros_like, jax.eval_shape(both)[1])
            return after(state, learned), silent | report

        if config.policy_every == 1:
            return both()
        return jax.lax.cond(state.step % config.policy_every == 0, both, critics_alone)

    def after(state: MSGState, learned: Learned) -> MSGState:
        new = {"critics": learned.critics, "critic_optimiser": learned.optimiser}
        return state._replace(step=state.step + 1, **new)

    def beta(state: MSGState) -> Float[Array, ""]:
        return jnp.float32(deviations(rule.objective, widened * state.hyper.beta, config.members))

    act = acting(lambda s: s.policy.params if s.policy_average is None else s.policy_average)
    values = valuing(lambda params, *pairs: value(ensemble.heads(params, *pairs)))
    algorithm = Algorithm(
        init,
        update,
        act,
        values,
        beta,
        pessimism=("beta", "target_beta", "alpha"),
        wants_next_actions=config.sass > 0.0,
    )
    # Members have the networks, their averages and Adam's two moments, but not its count.
    return critics.everywhere(algorithm, lambda s: (s.critics, *s.critic_optimiser[1:]))
