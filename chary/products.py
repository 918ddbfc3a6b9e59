"""Products of rows with weights, in bfloat16 where that is asked for."""

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from chary.settings import Matmul

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
