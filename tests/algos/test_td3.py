"""TD3+BC and ReBRAC against plain NumPy, and what delay and smoothing do."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chary import algos
from chary.algos.rebrac import ReBRACConfig
from chary.algos.td3 import TD3State
from chary.algos.td3_bc import TD3BCConfig
from chary.errors import CharyError
from chary.losses import normalised
from chary.targets import lower_confidence_bound
from chary.types import Batch
from tests.algos.test_msg import (
    ACTION,
    OBSERVATION,
    SIZE,
    Reference,
    bits,
    differences,
    doubles,
    make_batch,
)

# Noise so large that both its own limit and that of actions are reached.
OWN: dict[str, dict[str, Any]] = {
    "td3-bc": {"alpha": 1.7, "policy_noise": 2.0},
    "rebrac": {"policy_penalty": 0.4, "critic_penalty": 0.3, "policy_noise": 2.0},
}


@cache
def setup(algorithm: str) -> tuple[Any, TD3State]:
    entry = algos.entry(algorithm)
    config = entry.config(hidden=(4,), layer_norm=False, **OWN[algorithm])
    made = entry.make(config, OBSERVATION, ACTION)
    state = made.init(jax.random.key(0))
    rng = np.random.default_rng(0)
    policy, critics = (
        pair._replace(
            **{
                part: jax.tree.map(
                    lambda x: x + 0.2 * rng.standard_normal(x.shape, np.float32),
                    getattr(pair, part),
                )
                for part in ("online", "target")
            }
        )
        for pair in (state.policy, state.critics)
    )
    return jax.jit(made.update), state._replace(policy=policy, critics=critics)


def batch_for(algorithm: str) -> Batch:
    """The last row ends without anybody knowing what came next."""
    following = np.random.default_rng(5).uniform(-0.9, 0.9, (SIZE, ACTION)).astype(np.float32)
    following[-1] = np.nan
    batch = make_batch()
    return batch._replace(next_actions=jnp.asarray(following)) if algorithm == "rebrac" else batch


@pytest.mark.parametrize("algorithm", OWN)
def test_an_update_equals_a_plain_numpy_computation(algorithm: str) -> None:
    update, state = setup(algorithm)
    batch, key, own = batch_for(algorithm), jax.random.key(1), OWN[algorithm]
    after, metrics = update(state, batch, key)

    noise = np.asarray(jax.random.normal(key, (SIZE, ACTION)), np.float64)
    columns = {k: np.asarray(v, np.float64) for k, v in batch._asdict().items() if v is not None}
    data = batch._replace(**columns)
    network = Reference.network

    def values(critics: list[np.ndarray], states: Any, actions: Any) -> np.ndarray:
        pairs = np.concatenate([states, actions], axis=1)
        return np.stack([network([p[i, 0] for p in critics], pairs)[:, 0] for i in range(2)])

    quiet = np.tanh(network(doubles(state.policy.target), data.next_observations))
    next_actions = np.clip(quiet + np.clip(2.0 * noise, -0.5, 0.5), -1.0, 1.0)
    assert (np.abs(2.0 * noise) > 0.5).any()
    target = doubles(state.critics.target)
    next_values = values(target, data.next_observations, next_actions).min(axis=0)
    if algorithm == "rebrac":
        distance = ((next_actions - data.next_actions) ** 2).sum(axis=1)
        assert np.isnan(distance).tolist() == [False, False, True]
        next_values -= own["critic_penalty"] * np.nan_to_num(distance, nan=0.0)
    wanted = data.rewards + 0.99 * data.discounts * next_values

    def critic_loss(critics: list[np.ndarray]) -> float:
        errors = values(critics, data.observations, data.actions) - wanted
        return 0.5 * float((errors**2).mean(axis=1).sum())

    critics = doubles(state.critics.online)
    assert float(metrics["critic/target"]) == pytest.approx(wanted.mean(), abs=1e-5)
    assert 2 * float(metrics["critic/td"]) == pytest.approx(critic_loss(critics), abs=1e-5)

    # The policy learns from critics that have just learned; what scales its values is a constant.
    learned = doubles(after.critics.online)

    def climbed(policy: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        actions = np.tanh(network(policy, data.observations))
        each = values(learned, data.observations, actions)
        return actions, each[0] if algorithm == "td3-bc" else each.min(axis=0)

    policy = doubles(state.policy.online)
    size = np.abs(climbed(policy)[1]).mean()

    def policy_loss(policy: list[np.ndarray]) -> float:
        actions, value = climbed(policy)
        squares = (actions - data.actions) ** 2
        if algorithm == "td3-bc":
            return float(squares.mean() - own["alpha"] * value.mean() / size)
        return float((own["policy_penalty"] * squares.sum(axis=1) - value / size).mean())

    for moment, gradient in (
        (after.critics.optimiser.mu, differences(critic_loss, critics)),
        (after.policy.optimiser.mu, differences(policy_loss, policy)),
    ):
        for a, b in zip(doubles(moment), gradient, strict=True):
            np.testing.assert_allclose(10 * a, b, rtol=1e-4, atol=1e-5)


def test_the_policy_and_all_targets_wait_while_the_critics_learn() -> None:
    update, state = setup("td3-bc")
    for step in range(4):
        after, metrics = update(state, make_batch(step), jax.random.key(step))
        learned = step % 2 == 0
        assert (bits(after.policy) != bits(state.policy)) == learned
        assert (bits(after.critics.target) != bits(state.critics.target)) == learned
        assert bits(after.critics.online) != bits(state.critics.online)
        # Between the policy's steps the log repeats what the last one found.
        assert (bits(after.policy_metrics) != bits(state.policy_metrics)) == learned
        assert float(metrics["policy/q"]) == float(after.policy_metrics["policy/q"])
        state = after


def test_normalised_values_have_size_one_and_no_gradient_through_it() -> None:
    values = jnp.asarray([1.0, -3.0, 8.0])
    np.testing.assert_allclose(normalised(values), values / 4.0, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(lambda v: normalised(v).sum())(values), 0.25, rtol=1e-6)
    assert bool((normalised(jnp.zeros(3)) == 0.0).all())


def test_the_bound_of_two_critics_is_the_smaller_one() -> None:
    made = algos.entry("td3-bc").make(TD3BCConfig(hidden=(4,)), OBSERVATION, ACTION)
    state = made.init(jax.random.key(0))
    batch = make_batch()
    assert made.values is not None and made.beta is not None
    members = made.values(state, batch.observations, batch.actions)
    bound = lower_confidence_bound(members, made.beta(state))
    np.testing.assert_allclose(bound, members.min(axis=0), atol=1e-6)


BAD_SETTINGS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "alpha": (TD3BCConfig, {"alpha": -1.0}, "--alpha is -1.0, but must be at least 0"),
    "noise": (TD3BCConfig, {"policy_noise": float("nan")}, "--policy-noise is nan"),
    "clip": (ReBRACConfig, {"noise_clip": -0.1}, "--noise-clip is -0.1"),
    "delay": (ReBRACConfig, {"policy_delay": 0}, "--policy-delay is 0, but must be at least 1"),
    "penalty": (ReBRACConfig, {"policy_penalty": -1.0}, "--policy-penalty is -1.0"),
    "reward": (ReBRACConfig, {"critic_penalty": float("inf")}, "--critic-penalty is inf"),
    "rate": (ReBRACConfig, {"policy_learning_rate": 0.0}, "above 0 and finite"),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_settings_that_make_no_sense(case: str) -> None:
    config, settings, words = BAD_SETTINGS[case]
    with pytest.raises(CharyError, match=words):
        config(**settings)
