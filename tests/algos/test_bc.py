"""Behavioural cloning."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chary.algos.bc import BCConfig, Loss, make_bc
from chary.types import Batch


def batch_of(actions_of_sine: float) -> Batch:
    rng = np.random.default_rng(0)
    observations = jnp.asarray(rng.uniform(-1, 1, (512, 2)), jnp.float32)
    actions = actions_of_sine * jnp.sin(2.0 * observations[:, :1])
    numbers = jnp.zeros(512)
    return Batch(observations, actions, numbers, numbers, observations)


@pytest.mark.parametrize(("loss", "gain"), [("likelihood", 1.0), ("squared", 0.2)])
def test_cloning_recovers_a_function_of_the_observation(loss: Loss, gain: float) -> None:
    batch = batch_of(0.8)
    algorithm = make_bc(BCConfig(hidden=(32, 32), learning_rate=3e-3, loss=loss), 2, 1)
    state = algorithm.init(jax.random.key(0))
    assert algorithm.validate is not None
    before = algorithm.validate(state, batch)
    update = jax.jit(algorithm.update)
    for step in range(300):
        state, _ = update(state, batch, jax.random.key(step))
    assert algorithm.validate(state, batch) > before + gain
    assert float(jnp.abs(algorithm.act(state, batch.observations) - batch.actions).mean()) < 0.1


def test_both_losses_are_logged_and_the_squared_one_is_that_of_the_mode() -> None:
    batch = batch_of(0.8)
    algorithm = make_bc(BCConfig(hidden=(4,), loss="squared"), 2, 1)
    state = algorithm.init(jax.random.key(0))
    moved, metrics = algorithm.update(state, batch, jax.random.key(0))
    error = np.asarray(algorithm.act(state, batch.observations)) - np.asarray(batch.actions)
    np.testing.assert_allclose(metrics["policy/squared_error"], (error**2).mean(), rtol=1e-5)
    law = state.policy(batch.observations)
    likelihood = np.asarray(law.log_prob(batch.actions)).mean()
    np.testing.assert_allclose(metrics["policy/log_likelihood"], likelihood, rtol=1e-5)
    # The scale is no part of a squared error.
    np.testing.assert_array_equal(moved.policy.raw_scale.weight, state.policy.raw_scale.weight)
    assert np.abs(np.asarray(moved.policy.loc.weight - state.policy.loc.weight)).max() > 0.0
