"""Every operation of a graph, by NumPy and by ONNX, against JAX."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chary.deploy import npz_file, onnx_file
from chary.deploy.trace import trace
from chary.errors import CharyError

WEIGHTS = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "unary": lambda x: jnp.tanh(-x) + jnp.abs(x) + jnp.exp(x) + jnp.sin(x) * jnp.cos(x) + jnp.sign(x),
    "roots": lambda x: jnp.sqrt(x**2) + jax.lax.rsqrt(1.0 + x**2) + jnp.floor(x) + x**3,
    "logs": lambda x: jnp.log(1.0 + x**2) + jnp.log1p(x**2) + jnp.expm1(x) + jax.nn.sigmoid(x),
    "atanh": lambda x: jnp.arctanh(0.5 * jnp.tanh(x)),
    "softplus": lambda x: jax.nn.softplus(x) + jax.nn.relu(x),
    "clip": lambda x: jnp.clip(x, -0.5, 0.5) / 3.0 + jnp.maximum(x, x[:, :1]) + jnp.minimum(x, 0.1),
    "compared": lambda x: jnp.where((x > 0) & (x <= 1) | (x < -1), x, 0.0) + jnp.where(x != 0, 1, 0.5),
    "boolean": lambda x: jnp.where(~(x >= 0).all(1) | (x == 0).any(1), 1.0, 2.0),
    "reduced": lambda x: x.sum(1) + x.max(1) - x.min(1) + x.mean(1) + x.var(1),
    "softmax": lambda x: jax.nn.log_softmax(x) + jax.nn.logsumexp(x, axis=1, keepdims=True),
    "places": lambda x: jnp.where(jnp.argmin(x, 1) == 1, x.sum(1), jnp.argmax(x, 1).astype(jnp.float32)),
    "top": lambda x: jax.lax.top_k(x, 2)[0].sum(1),
    "joined": lambda x: jnp.concatenate([x, 2.0 * x[:, 1:]], axis=1)[:, ::2],
    "taken": lambda x: x[:, np.array([2, 0, 2, 1])] + x[:, -1:] + x[..., 1][:, None],
    "turned": lambda x: (x.T + 1.0).T.reshape(x.shape[0], 3, 1) * jnp.ones((1, 1, 2)),
    "members": lambda x: jnp.einsum("bi,mio->mbo", x, WEIGHTS),
    "both": lambda x: jnp.einsum("bi,mio->bmo", x, WEIGHTS).mean(axis=(1, 2)),
    "rows": lambda x: jnp.einsum("bi,bj->bij", x, x).sum(2),
    "a loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y * 0.5 + i * x, x),
    "constant": lambda x: x + jax.random.normal(jax.random.key(0), (3,)),
    "broadcast": lambda x: jnp.broadcast_to(x, (2, *x.shape)) + jnp.zeros(x.shape),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_operations_are_those_of_jax(name: str, tmp_path: Path) -> None:
    function = FUNCTIONS[name]
    graph = trace(lambda observations: {"out": function(observations)}, {"observations": (None, 3)})
    onnx_file.write(tmp_path / "a.onnx", graph, {})
    npz_file.write(tmp_path / "a.npz", {"decide": graph}, {})
    for rows in (1, 5):
        given = np.random.default_rng(1).standard_normal((rows, 3)).astype(np.float32)
        expected = np.asarray(function(jnp.asarray(given)))
        for run, _ in (onnx_file.read(tmp_path / "a.onnx"), npz_file.read(tmp_path / "a.npz")):
            found = run(observations=given)["out"]
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: jnp.cumsum(x, axis=1), "cumsum"),
        (lambda x: jnp.concatenate([x, x]), "size depends on the batch"),
        (lambda x: jax.lax.top_k(x, 2)[1].astype(jnp.float32), "places of the largest"),
    ],
)
def test_what_no_file_has_is_named(function: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(CharyError, match=f"cannot be exported: .*{said}"):
        trace(lambda observations: {"out": function(observations)}, {"observations": (None, 3)})
