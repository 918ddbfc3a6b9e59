"""Behavioural cloning."""

import jax
import jax.numpy as jnp
import numpy as np

from chary.algos.bc import BCConfig, make_bc
from chary.types import Batch


def test_cloning_recovers_a_function_of_the_observation() -> None:
    rng = np.random.default_rng(0)
    observations = jnp.asarray(rng.uniform(-1, 1, (512, 2)), jnp.float32)
    actions = 0.8 * jnp.sin(2.0 * observations[:, :1])
    numbers = jnp.zeros(512)
    batch = Batch(observations, actions, numbers, numbers, observations)
    algorithm = make_bc(BCConfig(hidden=(32, 32), learning_rate=3e-3), 2, 1)
    state = algorithm.init(jax.random.key(0))
    assert algorithm.validate is not None
    before = algorithm.validate(state, batch)
    update = jax.jit(algorithm.update)
    state, metrics = update(state, batch, jax.random.key(0))
    for step in range(300):
        state, metrics = update(state, batch, jax.random.key(step))
    assert algorithm.validate(state, batch) > before + 1.0
    assert float(jnp.abs(algorithm.act(state, observations) - actions).mean()) < 0.1
    assert float(metrics["policy/log_likelihood"]) > float(before)
