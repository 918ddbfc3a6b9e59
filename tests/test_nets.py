"""Networks."""

from collections.abc import Callable
from functools import partial

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


def test_gradients_of_every_order_are_those_of_plain_products_and_relu() -> None:
    """The network's own rules for gradients, alone and for several networks side by side."""
    networks = jax.vmap(lambda key: MLP.init(3, (4, 5, 4), 1, key=key))(
        jax.random.split(jax.random.key(0), 2)
    )
    rows = jax.random.normal(jax.random.key(1), (2, 6, 3))

    def plainly(network: MLP, rows: jax.Array) -> jax.Array:
        *hidden, last = network.layers
        for layer in hidden:
            rows = jax.nn.relu(rows @ layer.weight + layer.bias)
        return rows @ last.weight + last.bias

    def penalty(call: Callable[..., jax.Array], network: MLP, rows: jax.Array) -> jax.Array:
        slopes = jax.grad(lambda rows: (call(network, rows) ** 2).sum())(rows)
        return (slopes**2).sum() + call(network, rows).sum()

    ours, plain = (
        jax.vmap(jax.grad(partial(penalty, call), (0, 1)))(networks, rows)
        for call in (MLP.__call__, plainly)
    )
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
