"""MSG written the plain way, to measure ours against: the same algorithm, the same random numbers.

Every member's loss is one function of its own network, mapped over members by one `jax.vmap`; critics
and policy take separate gradients, and Optax does the rest. Nothing is fused by hand, chunked or shared.
It is what one writes from the paper's algorithm box in an afternoon, and JAX makes even that fast.
"""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from chary.algos.msg import MSGState, Noise, draw_noise, make_msg
from chary.algos.msg_config import MSGConfig
from chary.nets import MLP
from chary.policies import Policy
from chary.types import Algorithm, Batch, Metrics, OnlineAndTarget


def make_plain(config: MSGConfig, observation_size: int, action_size: int) -> Algorithm[MSGState]:
    """MSG with a deep ensemble, independent targets, tuned entropy and samples of each member's own."""
    ours = make_msg(config, observation_size, action_size)
    adam = optax.scale_by_adam()

    def value(
        network: MLP, observations: Float[Array, "batch o"], actions: Float[Array, "batch a"]
    ) -> Float[Array, " batch"]:
        units = jnp.concatenate([observations, actions], axis=-1)
        *hidden, last = network.layers
        for layer in hidden:
            units = jax.nn.relu(units @ layer.weight + layer.bias)
        return (units @ last.weight + last.bias)[:, 0]

    def member_loss(
        network: MLP,
        target: MLP,
        noise: Float[Array, "batch action"],
        weights: Float[Array, " batch"],
        state: MSGState,
        batch: Batch,
    ) -> Float[Array, ""]:
        """L_i + alpha * H_i of one member."""
        next_actions = state.policy.params(batch.next_observations).sample(noise)
        next_value = value(target, batch.next_observations, next_actions)
        wanted = batch.rewards + state.hyper.discount * batch.discounts * next_value
        at_data = value(network, batch.observations, batch.actions)
        loss = 0.5 * (weights * (at_data - wanted) ** 2).mean()
        if config.alpha:
            policy_actions = state.policy.params(batch.observations).sample(noise)
            at_policy = value(network, batch.observations, policy_actions)
            loss += state.hyper.alpha * (at_policy.mean() - at_data.mean())
        return loss

    def policy_loss(
        policy: Policy, networks: MLP, state: MSGState, batch: Batch, noise: Noise
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        law = policy(batch.observations)
        actions, log_prob = law.sample_and_log_prob(noise.policy_actions)
        values = jax.vmap(value, (0, None, None))(networks, batch.observations, actions)
        bound = values.mean(axis=0) + state.hyper.beta * values.std(axis=0)
        bonus = -jnp.exp(state.log_temperature.params) * log_prob
        climb = -(bound + bonus).mean()
        clone = -law.log_prob(batch.actions).mean()
        return jnp.where(state.step < config.warmup_steps, clone, climb), -log_prob.mean()

    def temperature_loss(
        log_temperature: Float[Array, ""], entropy: Float[Array, ""], state: MSGState
    ) -> Float[Array, ""]:
        return jnp.exp(log_temperature) * (entropy - state.hyper.target_entropy)

    def update(state: MSGState, batch: Batch, key: PRNGKeyArray) -> tuple[MSGState, Metrics]:
        noise = draw_noise(config, len(batch.rewards), action_size, shared=False, key=key)
        hyper = state.hyper
        # The package keeps two leading axes, members and heads; here each member has one head.
        online, target = jax.tree.map(lambda x: x[:, 0], state.critics)
        losses, gradient = jax.vmap(jax.value_and_grad(member_loss), (0, 0, 0, 0, None, None))(
            online, target, noise.member_actions, noise.weights[:, 0], state, batch
        )
        gradient = jax.tree.map(lambda g: g[:, None], gradient)
        direction, critic_optimiser = adam.update(gradient, state.critic_optimiser)
        critics = jax.tree.map(
            lambda p, d: p - hyper.critic_learning_rate * d, state.critics.online, direction
        )
        averages = optax.incremental_update(critics, state.critics.target, hyper.tau)

        (_, entropy), policy_gradient = jax.value_and_grad(policy_loss, has_aux=True)(
            state.policy.params, online, state, batch, noise
        )
        slope = jax.grad(temperature_loss)(state.log_temperature.params, entropy, state)
        return state._replace(
            step=state.step + 1,
            policy=state.policy.step(policy_gradient, hyper.policy_learning_rate),
            critics=OnlineAndTarget(critics, averages),
            critic_optimiser=critic_optimiser,
            log_temperature=state.log_temperature.step(slope, hyper.temperature_learning_rate),
        ), {"critic/loss": losses.mean()}

    return Algorithm(ours.init, update, ours.act, ours.values, ours.beta)
