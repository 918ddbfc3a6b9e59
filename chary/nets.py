"""Dense layers and multi-layer perceptrons: modules that hold arrays and nothing else."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from chary.settings import Matmul

glorot = jax.nn.initializers.variance_scaling(1.0, "fan_avg", "truncated_normal")

NORM_EPSILON = 1e-5
"""Added to the variance in layer normalisation, so that equal units do not divide by zero."""


Work = TypeVar("Work", bound=Callable[..., Any])

_matmul: ContextVar[Matmul] = ContextVar("matmul", default="float32")
"""Set only while a program is traced."""


def multiplying_in(matmul: Matmul, work: Work) -> Work:
    """The same work, with the factors of all layers' products, in both directions, of this kind."""

    @wraps(work)
    def traced(*arguments: Any) -> Any:
        token = _matmul.set(matmul)
        try:
            return work(*arguments)
        finally:
            _matmul.reset(token)

    return work if matmul == "float32" else traced  # pyright: ignore[reportReturnType]


def product(
    inputs: Float[Array, "*batch inputs"], weight: Float[Array, "inputs outputs"]
) -> Float[Array, "*batch outputs"]:
    """`inputs @ weight`, of factors as they are or rounded to bfloat16."""
    return inputs @ weight if _matmul.get() == "float32" else _rounded_product(inputs, weight)


@jax.custom_vjp
def _rounded_product(inputs: Any, weight: Any) -> Any:
    """Factors in bfloat16, sums in float32; the gradient's products too, which JAX's own would not."""
    return _rounded_forward(inputs, weight)[0]


def _rounded_forward(inputs: Any, weight: Any) -> tuple[Any, tuple[Any, Any]]:
    factors = inputs.astype(jnp.bfloat16), weight.astype(jnp.bfloat16)
    return jnp.matmul(*factors, preferred_element_type=jnp.float32), factors


def _rounded_backward(factors: tuple[Any, Any], slope: Any) -> tuple[Any, Any]:
    inputs, weight = factors
    slope = slope.astype(jnp.bfloat16)
    rows = inputs.reshape(-1, inputs.shape[-1]), slope.reshape(-1, slope.shape[-1])
    return (
        jnp.matmul(slope, weight.T, preferred_element_type=jnp.float32),
        jnp.matmul(rows[0].T, rows[1], preferred_element_type=jnp.float32),
    )


_rounded_product.defvjp(_rounded_forward, _rounded_backward)


class LayerNorm(eqx.Module):
    """Zero mean and unit variance over the units, then a learned scale and shift (Ba et al. 2016)."""

    scale: Float[Array, "*member outputs"]
    shift: Float[Array, "*member outputs"]

    @classmethod
    def init(cls, *sizes: int) -> "LayerNorm":
        return cls(jnp.ones(sizes), jnp.zeros(sizes))

    def __call__(
        self, inputs: Float[Array, "*member batch outputs"]
    ) -> Float[Array, "*member batch outputs"]:
        centred = inputs - inputs.mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True)
        standard = centred * jax.lax.rsqrt(variance + NORM_EPSILON)
        return standard * self.scale[..., None, :] + self.shift[..., None, :]


class Dense(eqx.Module):
    """`x @ weight + bias`, with the weight stored as (in, out), and a normalisation where wanted."""

    weight: Float[Array, "*member inputs outputs"]
    bias: Float[Array, "*member outputs"]
    norm: LayerNorm | None = None

    @classmethod
    def init(
        cls, inputs: int, outputs: int, *, layer_norm: bool = False, key: PRNGKeyArray
    ) -> "Dense":
        """Glorot-scaled truncated-normal weights and zero biases, as the paper's authors use."""
        weight = glorot(key, (inputs, outputs), jnp.float32)
        return cls(weight, jnp.zeros(outputs), LayerNorm.init(outputs) if layer_norm else None)

    def __call__(self, inputs: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        outputs = product(inputs, self.weight) + self.bias
        return outputs if self.norm is None else self.norm(outputs)


class MLP(eqx.Module):
    """Dense layers with ReLU between them."""

    layers: tuple[Dense, ...]

    @classmethod
    def init(
        cls,
        inputs: int,
        hidden: Sequence[int],
        outputs: int,
        *,
        layer_norm: bool = False,
        key: PRNGKeyArray,
    ) -> "MLP":
        """Layers of the given sizes; normalisation, where wanted, is in all but the last."""
        sizes = (inputs, *hidden, outputs)
        keys = jax.random.split(key, len(sizes) - 1)
        triples = list(zip(sizes[:-1], sizes[1:], keys, strict=True))
        layers = [Dense.init(a, b, layer_norm=layer_norm, key=k) for a, b, k in triples[:-1]]
        before, after, last_key = triples[-1]
        return cls((*layers, Dense.init(before, after, key=last_key)))

    def __call__(self, inputs: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        *hidden, last = self.layers
        for layer in hidden:
            inputs = jax.nn.relu(layer(inputs))
        return last(inputs)
