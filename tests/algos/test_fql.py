"""FQL against plain NumPy, and its flow on data with two modes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chary.algos.fql import Flow, FQLConfig, draw_noise, flow_loss, settled_noise
from chary.networks.layers import MLP
from chary.networks.optimisers import Trained
from chary.types import Batch
from tests.algos.double import (
    ACTION,
    GAMMA,
    KEY,
    SIZE,
    check,
    check_gradient,
    critics,
    double,
    mlp,
    one_step,
    td,
)

ALPHA, STEPS = 0.8, 3


@pytest.mark.parametrize(("aggregate", "normalise"), [("mean", False), ("min", True)])
def test_an_update(aggregate: Any, normalise: bool) -> None:
    config = FQLConfig(
        hidden=(5,),
        layer_norm=False,
        discount=GAMMA,
        alpha=ALPHA,
        flow_steps=STEPS,
        aggregate=aggregate,
        normalise_q=normalise,
    )
    state, after, metrics, batch = one_step("fql", config)
    noise = double(draw_noise((SIZE, ACTION), key=KEY))

    def velocity(flow: Any, points: np.ndarray, times: np.ndarray) -> np.ndarray:
        inputs = [batch.observations, points, times[:, None]]
        return mlp(flow.network, np.concatenate(inputs, axis=1))

    def act(policy: Any, observations: np.ndarray, z: np.ndarray) -> np.ndarray:
        return mlp(policy.network, np.concatenate([observations, z], axis=1))

    def matching(flow: Any) -> float:
        t = noise.times[:, None]
        points = (1 - t) * noise.starts + t * batch.actions
        return np.mean((velocity(flow, points, noise.times) - (batch.actions - noise.starts)) ** 2)

    next_actions = np.clip(act(state.policy.params, batch.next_observations, noise.after), -1, 1)
    next_values = critics(state.critics.target, batch.next_observations, next_actions)
    together = next_values.mean(axis=0) if aggregate == "mean" else next_values.min(axis=0)
    wanted = batch.rewards + GAMMA * batch.discounts * together

    def critic_loss(networks: Any) -> float:
        return td(critics(networks, batch.observations, batch.actions), wanted)

    flowed = noise.policy
    for step in range(STEPS):
        times = np.full(SIZE, step / STEPS)
        flowed = flowed + velocity(state.flow.params, flowed, times) / STEPS
    flowed = np.clip(flowed, -1.0, 1.0)

    def parts(policy: Any) -> tuple[float, np.ndarray]:
        actions = act(policy, batch.observations, noise.policy)
        inside = np.clip(actions, -1.0, 1.0)
        values = critics(state.critics.online, batch.observations, inside).mean(axis=0)
        return np.mean((actions - flowed) ** 2), values

    distance, values = parts(state.policy.params)
    size = np.abs(values).mean() if normalise else 1.0  # a constant: no gradient goes through it

    def policy_loss(policy: Any) -> float:
        distance, values = parts(policy)
        return ALPHA * distance - values.mean() / size

    check(
        metrics,
        {
            "flow/matching": matching(state.flow.params),
            "critic/td": critic_loss(state.critics.online) / 2,
            "critic/target": wanted.mean(),
            "policy/loss": policy_loss(state.policy.params),
            "policy/distance": distance,
            "policy/q": values.mean(),
        },
    )
    check_gradient(matching, state.flow.params, after.flow.optimiser)
    check_gradient(critic_loss, state.critics.online, after.critics.optimiser)
    check_gradient(policy_loss, state.policy.params, after.policy.optimiser)


def test_the_flow_integrates_to_data_with_two_modes() -> None:
    """Three in four actions at 0.6, the others at -0.6: a Gaussian would put most between."""
    size = 256
    observations = jnp.zeros((size, 1))

    def step(index: Any, flow: Any) -> Any:
        noise_key, data_key = jax.random.split(jax.random.fold_in(jax.random.key(1), index))
        modes = jnp.where(jax.random.uniform(data_key, (size, 1)) < 0.75, 0.6, -0.6)
        batch = Batch(observations, modes, jnp.zeros(size), jnp.zeros(size), observations)
        gradient = jax.grad(flow_loss)(flow.params, batch, draw_noise((size, 1), key=noise_key))
        return flow.step(gradient, jnp.float32(1e-2))

    @jax.jit
    def learned_actions(key: Any) -> Any:
        flow = Trained.of(Flow(MLP.init(3, (32, 32), 1, key=key)))
        flow = jax.lax.fori_loop(0, 500, step, flow)
        noise = jax.random.normal(jax.random.key(2), (size, 1))
        return flow.params.integrate(observations, noise, 10)

    actions = np.asarray(learned_actions(jax.random.key(0)))
    assert (np.abs(np.abs(actions) - 0.6) < 0.2).mean() > 0.85
    assert (actions > 0.0).mean() == pytest.approx(0.75, abs=0.1)


def test_without_a_key_an_observation_decides_its_noise() -> None:
    observations = jnp.asarray(np.random.default_rng(0).standard_normal((500, 3)), jnp.float32)
    noise = np.asarray(settled_noise(observations, 2))
    np.testing.assert_array_equal(noise[7:8], settled_noise(observations[7:8], 2))
    assert len(np.unique(noise)) == noise.size
    assert noise.mean() == pytest.approx(0.0, abs=0.1)
    assert noise.std() == pytest.approx(1.0, abs=0.1)
    swapped = settled_noise(observations[:, ::-1], 2)
    assert not np.isclose(swapped, noise).all(axis=1).any()  # no row is the same
