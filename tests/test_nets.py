"""Networks and deep ensembles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chary.ensembles import EnsembleShape
from chary.ensembles.deep import make_deep
from chary.nets import MLP


def test_a_network_is_plain_matrix_products_and_relu() -> None:
    network = MLP.init(3, (4, 5), 2, key=jax.random.key(0))
    inputs = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    hidden = inputs
    for layer in network.layers[:-1]:
        hidden = np.maximum(hidden @ np.asarray(layer.weight) + np.asarray(layer.bias), 0)
    last = network.layers[-1]
    expected = hidden @ np.asarray(last.weight) + np.asarray(last.bias)
    np.testing.assert_allclose(network(jnp.asarray(inputs)), expected, rtol=1e-5, atol=1e-6)


def test_weights_start_glorot_scaled_and_truncated_and_biases_at_zero() -> None:
    layer = MLP.init(200, (300,), 1, key=jax.random.key(0)).layers[0]
    scale = np.sqrt(2.0 / 500)
    assert float(layer.weight.std()) == pytest.approx(scale, rel=0.02)
    assert float(jnp.abs(layer.weight).max()) < 2.5 * scale  # truncated at two deviations
    assert not layer.bias.any()


SHAPE = EnsembleShape(members=3, heads=2, observation_size=4, action_size=2, hidden=(5,))


def test_every_member_and_head_is_a_network_of_its_own() -> None:
    ensemble = make_deep(SHAPE)
    params = ensemble.init(jax.random.key(0))
    observations, actions = jnp.ones((7, 4)), 0.5 * jnp.ones((7, 2))
    together = ensemble.heads(params, observations, actions)
    assert together.shape == (3, 2, 7)
    pairs = jnp.concatenate([observations, actions], axis=-1)
    for member in range(3):
        for head in range(2):
            network = jax.tree.map(lambda x: x[member, head], params)
            np.testing.assert_allclose(
                together[member, head], network(pairs)[:, 0], rtol=1e-5, atol=1e-6
            )
    assert len(np.unique(np.asarray(together[:, :, 0]))) == 6
    np.testing.assert_array_equal(
        ensemble.values(params, observations, actions), together.min(axis=1)
    )


def test_inputs_may_be_shared_or_each_members_own() -> None:
    ensemble = make_deep(SHAPE)
    params = ensemble.init(jax.random.key(0))
    rng = np.random.default_rng(0)
    observations = jnp.asarray(rng.standard_normal((7, 4)), jnp.float32)
    actions = jnp.asarray(rng.uniform(-1, 1, (3, 7, 2)), jnp.float32)
    own = ensemble.heads(params, observations, actions)
    for member in range(3):
        shared = ensemble.heads(params, observations, actions[member])
        np.testing.assert_allclose(own[member], shared[member], rtol=1e-5, atol=1e-6)
