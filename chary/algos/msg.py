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
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from chary import losses
from chary.algos.msg_config import MSGConfig
from chary.ensembles import make_ensemble
from chary.errors import CharyError
from chary.losses import critic_metrics, td_loss, temperature_loss
from chary.optimise import adam_init, adam_step, as_arrays, either, move_towards
from chary.policies import Policy
from chary.targets import TARGETS, mean_and_std, smallest
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
    policy: Policy
    policy_optimiser: PyTree
    critics: OnlineAndTarget
    critic_optimiser: PyTree
    log_temperature: Float[Array, ""]
    temperature_optimiser: PyTree
    hyper: Hyper


class Noise(NamedTuple):
    """All that is random in one step."""

    member_actions: Float[Array, "*member batch action"]
    """Standard normal, for a'_i ~ pi(s') and a_i ~ pi(s) in H_i, or without a member axis one draw for
    all: each is drawn anew in every step, and that the two share their noise leaves both expectations,
    and so the gradient's, as they are."""
    policy_actions: Float[Array, "batch action"]
    """Standard normal, for a ~ pi(s) in the policy's objective: one sample for all members."""
    weights: Float[Array, "member batch"]
    """U[0, 2], the weights of the squared TD errors."""
    rows: Int[Array, "member batch"] | None = None
    """The order in which each member sees the batch, where that is not the batch's own."""
    ensemble_key: PRNGKeyArray | None = None
    """For what the ensemble itself draws, such as masks: the same for all its passes in a step."""

    def arranged(
        self, batch: Float[Array, "*#member batch feature"]
    ) -> Float[Array, "*#member batch feature"]:
        """The batch as the members see it."""
        return batch if self.rows is None else batch[self.rows]

    def in_order(
        self, heads: Float[Array, "member head batch"]
    ) -> Float[Array, "member head batch"]:
        """Values of an arranged batch, back in the batch's own order."""
        if self.rows is None:
            return heads
        places = jnp.argsort(self.rows, axis=-1)
        return jnp.take_along_axis(heads, places[:, None], axis=-1)


class Slopes(NamedTuple):
    """Q_i(s, a) around the a ~ pi(s) of a step: all that the policy need know of the critics."""

    values: Float[Array, "member batch"]
    in_actions: Float[Array, "member batch action"]

    def at(self, actions: Float[Array, "batch action"]) -> Float[Array, "member batch"]:
        """The values, with their gradient in these actions."""
        return self.values + (self.in_actions * (actions - jax.lax.stop_gradient(actions))).sum(-1)


def draw_noise(
    config: MSGConfig,
    size: int,
    action_size: int,
    *,
    shared: bool,
    arrange: Callable[[int, PRNGKeyArray], Int[Array, "member batch"]] | None = None,
    key: PRNGKeyArray,
) -> Noise:
    """All draws of a step; where targets or weights are shared, so are the actions."""
    action_key, weight_key, rows_key, ensemble_key = jax.random.split(key, 4)
    # One draw for all purposes: with small networks, random numbers are a good part of the work.
    draws = 1 if shared else config.members
    normal = jax.random.normal(action_key, (draws + 1, size, action_size))
    weights = jnp.ones((config.members, size))
    if config.random_weights:
        weights = jax.random.uniform(weight_key, weights.shape, maxval=2.0)
    member_actions = normal[0] if shared else normal[:-1]
    rows = None if arrange is None else arrange(size, rows_key)
    return Noise(member_actions, normal[-1], weights, rows, ensemble_key)


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
    regularise = config.alpha != 0.0
    one_pass = regularise and config.regulariser_samples == "shared" and not ensemble.shares_weights

    def init(key: PRNGKeyArray) -> MSGState:
        policy_key, critic_key = jax.random.split(key)
        policy = Policy.init(observation_size, action_size, config.hidden, key=policy_key)
        critics = ensemble.init(critic_key)
        log_temperature = jnp.log(jnp.float32(config.temperature))
        target_beta = config.beta if config.target_beta is None else config.target_beta
        return MSGState(
            step=jnp.int32(0),
            policy=policy,
            policy_optimiser=adam_init(policy),
            critics=OnlineAndTarget(critics, jax.tree.map(jnp.copy, critics)),
            critic_optimiser=adam_init(critics),
            log_temperature=log_temperature,
            temperature_optimiser=adam_init(log_temperature),
            hyper=as_arrays(Hyper, config, target_beta=target_beta),
        )

    def td_targets(state: MSGState, batch: Batch, noise: Noise) -> Float[Array, "member batch"]:
        """y_i = r + gamma * Q_target_i(s', a'_i), with no gradient through it (Eq. 6)."""
        next_actions = state.policy(batch.next_observations).sample(noise.member_actions)
        next_heads = noise.in_order(
            ensemble.heads(
                state.critics.target,
                noise.arranged(batch.next_observations),
                noise.arranged(next_actions),
                key=noise.ensemble_key,
            )
        )
        next_values = targets.backup(next_heads, state.hyper.target_beta)
        return losses.td_targets(batch, state.hyper.discount, next_values)

    def slopes_at_policy(state: MSGState, batch: Batch, noise: Noise) -> tuple[Slopes, PyTree]:
        """Q_i(s, a) of one a ~ pi(s) for all members, and its two gradients by one backward pass: in a,
        for the policy, and in the parameters, as sum_i E[Q_i(s, a)], for H_i."""
        actions = state.policy(batch.observations).sample(noise.policy_actions)
        each = jnp.broadcast_to(actions, (config.members, *actions.shape))
        values, backward = jax.vjp(
            lambda critics, each: ensemble.values(
                critics, batch.observations, each, key=noise.ensemble_key
            ),
            state.critics.online,
            each,
        )
        in_parameters, in_actions = backward(jnp.ones_like(values))
        size = batch.rewards.shape[0]
        return Slopes(values, in_actions), jax.tree.map(lambda g: g / size, in_parameters)

    def critic_loss(
        critics: PyTree, state: MSGState, batch: Batch, noise: Noise, slopes: Slopes | None
    ) -> tuple[Float[Array, ""], Metrics]:
        """sum_i L_i + alpha * H_i (Eqs. 5 and 8); with slopes, Q_i(s, a_i) in H_i is a constant here."""
        wanted = td_targets(state, batch, noise)
        observations, key = noise.arranged(batch.observations), noise.ensemble_key
        if slopes is not None:
            heads = ensemble.heads(critics, observations, batch.actions, key=key)
            gap = (slopes.values - smallest(heads, axis=1)).mean(axis=-1)
        elif regularise:
            # One pass over dataset actions and policy actions together.
            size = batch.rewards.shape[0]
            policy_actions = state.policy(batch.observations).sample(noise.member_actions)
            data_actions = jnp.broadcast_to(batch.actions, policy_actions.shape)
            actions = noise.arranged(data_actions), noise.arranged(policy_actions)
            both = ensemble.heads(
                critics,
                jnp.concatenate([observations, observations], axis=-2),
                jnp.concatenate(actions, axis=-2),
                key=key,
            )
            heads, policy_heads = noise.in_order(both[..., :size]), noise.in_order(both[..., size:])
            gap = (smallest(policy_heads, axis=1) - smallest(heads, axis=1)).mean(axis=-1)
        else:
            actions = noise.arranged(batch.actions)
            heads = noise.in_order(ensemble.heads(critics, observations, actions, key=key))
            gap = jnp.zeros(config.members)
        td = td_loss(heads, wanted, noise.weights)
        metrics = {"critic/regulariser": gap.mean(), **critic_metrics(td, heads, wanted)}
        return (td + state.hyper.alpha * gap).sum(), metrics

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
        objective = targets.objective(values, state.hyper.beta)
        likelihood = law.log_prob(batch.actions)
        temperature = jnp.exp(state.log_temperature)
        bonus = 0.0 if config.entropy == "off" else -temperature * log_prob
        warming_up = state.step < config.warmup_steps
        metrics = {
            "policy/objective": objective.mean(),
            "policy/std": mean_and_std(values)[1].mean(),
            "policy/q": values.mean(),
            "policy/entropy": -log_prob.mean(),
            "policy/log_likelihood": likelihood.mean(),
            "policy/temperature": temperature,
        }
        return -jnp.where(warming_up, likelihood, objective + bonus).mean(), metrics

    def step(state: MSGState, batch: Batch, noise: Noise) -> tuple[MSGState, Metrics]:
        """One update with the given noise; the policy climbs the critics from before the step."""
        hyper = state.hyper
        slopes, regulariser_gradient = (
            slopes_at_policy(state, batch, noise) if one_pass else (None, None)
        )

        critic_gradient, critic_metrics = jax.grad(critic_loss, has_aux=True)(
            state.critics.online, state, batch, noise, slopes
        )
        if one_pass:
            critic_gradient = jax.tree.map(
                lambda td, pushed: td + hyper.alpha * pushed, critic_gradient, regulariser_gradient
            )
        online, critic_optimiser = adam_step(
            state.critics.online,
            critic_gradient,
            state.critic_optimiser,
            hyper.critic_learning_rate,
        )
        target = move_towards(state.critics.target, online, hyper.tau)

        policy_gradient, policy_metrics = jax.grad(policy_loss, has_aux=True)(
            state.policy, state, batch, noise, slopes
        )
        policy, policy_optimiser = adam_step(
            state.policy, policy_gradient, state.policy_optimiser, hyper.policy_learning_rate
        )

        temperature = state.log_temperature, state.temperature_optimiser
        if config.entropy == "tuned":
            temperature_gradient = jax.grad(temperature_loss)(
                state.log_temperature, policy_metrics["policy/entropy"], hyper.target_entropy
            )
            tuned = adam_step(
                state.log_temperature,
                temperature_gradient,
                state.temperature_optimiser,
                hyper.temperature_learning_rate,
            )
            # Tuning, its moments included, begins after the warm-up.
            warming_up = state.step < config.warmup_steps
            temperature = either(warming_up, temperature, tuned)
        log_temperature, temperature_optimiser = temperature

        return MSGState(
            step=state.step + 1,
            policy=policy,
            policy_optimiser=policy_optimiser,
            critics=OnlineAndTarget(online, target),
            critic_optimiser=critic_optimiser,
            log_temperature=log_temperature,
            temperature_optimiser=temperature_optimiser,
            hyper=hyper,
        ), critic_metrics | policy_metrics

    def update(state: MSGState, batch: Batch, key: PRNGKeyArray) -> tuple[MSGState, Metrics]:
        noise = draw_noise(
            config,
            len(batch.rewards),
            action_size,
            shared=targets.shared or ensemble.shares_weights,
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
        return state.policy.act(observations, key=key)

    def values(
        state: MSGState,
        observations: Float[Array, "batch observation"],
        actions: Float[Array, "batch action"],
    ) -> Float[Array, "member batch"]:
        return ensemble.values(state.critics.online, observations, actions)

    return Algorithm(init, update, act, values, beta=lambda state: state.hyper.beta)
