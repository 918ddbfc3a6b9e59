"""Networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chary.nets import MLP


def test_weights_start_glorot_scaled_and_truncated_and_biases_at_zero() -> None:
    layer = MLP.init(200, (300,), 1, key=jax.random.key(0)).layers[0]
    scale = np.sqrt(2.0 / 500)
    assert float(layer.weight.std()) == pytest.approx(scale, rel=0.02)
    assert float(jnp.abs(layer.weight).max()) < 2.5 * scale  # truncated at two deviations
    assert not layer.bias.any()


@pytest.mark.parametrize("layer_norm", [False, True])
def test_a_network_is_matrix_products_relu_and_where_wanted_normalisation(layer_norm: bool) -> None:
    network = MLP.init(3, (4, 5), 2, layer_norm=layer_norm, key=jax.random.key(0))
    rng = np.random.default_rng(1)
    network = jax.tree.map(lambda x: x + 0.3 * rng.standard_normal(x.shape, np.float32), network)
    inputs = rng.standard_normal((6, 3)).astype(np.float32)
    hidden = inputs
    for layer in network.layers[:-1]:
        hidden = hidden @ np.asarray(layer.weight) + np.asarray(layer.bias)
        assert (layer.norm is not None) == layer_norm
        if layer.norm is not None:
            deviation = np.sqrt(hidden.var(axis=1, keepdims=True) + 1e-5)
            hidden = (hidden - hidden.mean(axis=1, keepdims=True)) / deviation
            hidden = hidden * np.asarray(layer.norm.scale) + np.asarray(layer.norm.shift)
        hidden = np.maximum(hidden, 0)
    last = network.layers[-1]
    assert last.norm is None
    expected = hidden @ np.asarray(last.weight) + np.asarray(last.bias)
    np.testing.assert_allclose(network(jnp.asarray(inputs)), expected, rtol=1e-4, atol=1e-5)
