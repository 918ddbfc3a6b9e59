"""FQL against plain NumPy, and its flow on data with two modes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chary.algos.fql import (
    Flow,
    FQLConfig,
    Noise,
    draw_noise,
    flow_loss,
    make_fql,
    settled_noise,
)
from chary.errors import CharyError
from chary.nets import MLP
from chary.optimise import Trained
from chary.types import Batch
from tests.algos.test_msg import (
    ACTION,
    OBSERVATION,
    SIZE,
    Reference,
    differences,
    doubles,
    make_batch,
)

ALPHA, STEPS = 0.8, 3


@pytest.mark.parametrize(("aggregate", "normalise"), [("mean", False), ("min", True)])
def test_an_update_equals_a_plain_numpy_computation(aggregate: Any, normalise: bool) -> None:
    config = FQLConfig(
        hidden=(4,),
        layer_norm=False,
        alpha=ALPHA,
        flow_steps=STEPS,
        aggregate=aggregate,
        normalise_q=normalise,
    )
    made = make_fql(config, OBSERVATION, ACTION)
    rng = np.random.default_rng(0)
    start = made.init(jax.random.key(0))
    params = {
        name: jax.tree.map(lambda x: x + 0.2 * rng.standard_normal(x.shape, np.float32), tree)
        for name, tree in (
            ("flow", start.flow.params),
            ("policy", start.policy.params),
            ("online", start.critics.online),
            ("target", start.critics.target),
        )
    }
    state = start._replace(
        flow=start.flow._replace(params=params["flow"]),
        policy=start.policy._replace(params=params["policy"]),
        critics=start.critics._replace(online=params["online"], target=params["target"]),
    )
    key = jax.random.key(1)
    after, metrics = jax.jit(made.update)(state, make_batch(), key)

    def double(tree: Any) -> Any:
        return type(tree)(*(None if x is None else np.asarray(x, np.float64) for x in tree))

    data: Batch = double(make_batch())
    noise: Noise = double(draw_noise((SIZE, ACTION), key=key))
    flow, policy, critics, target = (doubles(tree) for tree in params.values())
    network = Reference.network

    def velocity(flow: list[np.ndarray], points: np.ndarray, times: np.ndarray) -> np.ndarray:
        return network(flow, np.concatenate([data.observations, points, times[:, None]], axis=1))

    def one_step(policy: list[np.ndarray], states: np.ndarray, z: np.ndarray) -> np.ndarray:
        return network(policy, np.concatenate([states, z], axis=1))

    def values(critics: list[np.ndarray], states: Any, actions: Any) -> np.ndarray:
        pairs = np.concatenate([states, np.clip(actions, -1, 1)], axis=1)
        return np.stack([network([p[i, 0] for p in critics], pairs)[:, 0] for i in range(2)])

    def matching(flow: list[np.ndarray]) -> float:
        times = np.asarray(noise.times)
        points = (1 - times[:, None]) * noise.starts + times[:, None] * data.actions
        return float(np.mean((velocity(flow, points, times) - (data.actions - noise.starts)) ** 2))

    next_actions = one_step(policy, np.asarray(data.next_observations), np.asarray(noise.after))
    next_values = values(target, data.next_observations, next_actions)
    together = next_values.mean(axis=0) if aggregate == "mean" else next_values.min(axis=0)
    wanted = data.rewards + 0.99 * data.discounts * together

    def critic_loss(critics: list[np.ndarray]) -> float:
        errors = values(critics, data.observations, data.actions) - wanted
        return 0.5 * float((errors**2).mean(axis=1).sum())

    flowed = np.asarray(noise.policy)
    for step in range(STEPS):
        flowed = flowed + velocity(flow, flowed, np.full(SIZE, step / STEPS)) / STEPS
    flowed = np.clip(flowed, -1, 1)

    def parts(policy: list[np.ndarray]) -> tuple[float, np.ndarray]:
        actions = one_step(policy, np.asarray(data.observations), np.asarray(noise.policy))
        value = values(critics, data.observations, actions).mean(axis=0)
        return float(np.mean((actions - flowed) ** 2)), value

    distance, value = parts(policy)
    size = np.abs(value).mean() if normalise else 1.0

    def policy_loss(policy: list[np.ndarray]) -> float:
        distance, value = parts(policy)
        return ALPHA * distance - float(value.mean() / size)

    for name, found in (
        ("flow/matching", matching(flow)),
        ("critic/target", wanted.mean()),
        ("critic/td", critic_loss(critics) / 2),
        ("policy/distance", distance),
        ("policy/q", value.mean()),
    ):
        assert float(metrics[name]) == pytest.approx(found, abs=1e-5), name
    for moment, gradient in (
        (after.flow.optimiser.mu, differences(matching, flow)),
        (after.critics.optimiser.mu, differences(critic_loss, critics)),
        (after.policy.optimiser.mu, differences(policy_loss, policy)),
    ):
        for a, b in zip(doubles(moment), gradient, strict=True):
            np.testing.assert_allclose(10 * a, b, rtol=1e-4, atol=1e-5)


def test_the_flow_integrates_to_data_with_two_modes() -> None:
    """Three in four actions at 0.6, the others at -0.6: a Gaussian would put most between."""
    size = 256
    observations = jnp.zeros((size, 1))

    def step(index: Any, flow: Trained[Flow]) -> Any:
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
    assert not np.isclose(swapped, noise).any(axis=1).all()


BAD_SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "alpha": ({"alpha": -1.0}, "--alpha is -1.0, but must be at least 0"),
    "no flow": ({"flow_steps": 0}, "--flow-steps is 0, but must be at least 1"),
    "layers": ({"hidden": ()}, "--hidden is .., but must be sizes of at least 1"),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_settings_that_make_no_sense(case: str) -> None:
    settings, words = BAD_SETTINGS[case]
    with pytest.raises(CharyError, match=words):
        FQLConfig(**settings)
