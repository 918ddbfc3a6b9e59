"""Networks."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chary
from chary.data.dataset import Dataset
from chary.networks.layers import MLP
from chary.networks.matmul import Matmul, learning_from, multiplying_in, product
from chary.runs.folder import RunFolder


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


@pytest.mark.long
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


@pytest.mark.parametrize("matmul", ["float32", "bfloat16"])
@pytest.mark.parametrize("layer_norm", [False, True])
def test_layers_learn_from_the_first_rows_and_inputs_have_all_their_slopes(
    layer_norm: bool, matmul: Matmul
) -> None:
    networks = jax.vmap(lambda key: MLP.init(3, (8, 5), 2, layer_norm=layer_norm, key=key))(
        jax.random.split(jax.random.key(0), 3)
    )
    inputs = jax.random.normal(jax.random.key(1), (3, 10, 3))

    def loss(networks: MLP, inputs: jax.Array, rows: int | None) -> jax.Array:
        with learning_from(rows):
            return (jax.vmap(MLP.__call__)(networks, inputs) ** 2).sum()

    gradient = multiplying_in(
        matmul, lambda *rest: jax.jit(jax.grad(loss, (0, 1)), static_argnums=2)(*rest)
    )
    learned, slopes = gradient(networks, inputs, 4)
    expected, _ = gradient(networks, inputs[:, :4], None)
    _, all_slopes = gradient(networks, inputs, None)
    for a, b in zip(jax.tree.leaves(learned), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        assert np.abs(b).max() > 0.0
    np.testing.assert_allclose(slopes, all_slopes, rtol=1e-5, atol=1e-6)


def rounded(numbers: np.ndarray) -> np.ndarray:
    """To the nearest number with bfloat16's eight bits, ties to even."""
    bits = numbers.astype(np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return bits.astype(np.uint32).view(np.float32)


def test_in_bfloat16_all_factors_are_rounded_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    inputs, weight, slope = (
        rng.standard_normal(s).astype(np.float32) for s in [(2, 40, 30), (30, 20), (2, 40, 20)]
    )

    def work(inputs: jax.Array, weight: jax.Array) -> jax.Array:
        return product(inputs, weight)

    found, backward = jax.vjp(jax.jit(multiplying_in("bfloat16", work)), inputs, weight)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, rounded(inputs) @ rounded(weight), atol=1e-4)
    assert np.abs(found - inputs @ weight).max() > 1e-3
    to_inputs, to_weight = backward(slope)
    np.testing.assert_allclose(to_inputs, rounded(slope) @ rounded(weight).T, atol=1e-4)
    rows = rounded(inputs).reshape(-1, 30), rounded(slope).reshape(-1, 20)
    np.testing.assert_allclose(to_weight, rows[0].T @ rows[1], atol=1e-4)
    # The setting ends with the work.
    plain = product(jnp.asarray(inputs), jnp.asarray(weight))
    np.testing.assert_allclose(plain, inputs @ weight, atol=1e-5)


def test_training_in_bfloat16_stays_close_and_keeps_float32(
    dataset: Dataset, tmp_path: Path
) -> None:
    agents = [
        chary.train(
            "bc",
            dataset,
            run=tmp_path / kind,
            matmul=kind,
            steps=40,
            hidden=(32,),
            log_every=40,
            batch_size=64,
        )
        for kind in ("float32", "bfloat16")
    ]
    exact, coarse = (jax.tree.leaves(agent.state) for agent in agents)
    assert all(a.dtype == b.dtype for a, b in zip(exact, coarse, strict=True))
    assert any((np.asarray(a) != np.asarray(b)).any() for a, b in zip(exact, coarse, strict=True))
    first, second = (RunFolder.open(a.folder).read("metrics")[-1] for a in agents)
    assert first == pytest.approx(second, rel=0.02, abs=0.01)
    assert RunFolder.open(agents[1].folder).config["execution"]["matmul"] == "bfloat16"
