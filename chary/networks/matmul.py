"""Products of rows with weights: in bfloat16, or learning from some rows only, where asked for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any, Literal, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Matmul: TypeAlias = Literal["float32", "bfloat16"]
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


_rows: ContextVar[int | None] = ContextVar("rows", default=None)
"""Set only while a program is traced."""


@contextmanager
def learning_from(rows: int | None) -> Iterator[None]:
    """Layers traced inside learn from the first rows of what goes through them, or from all. The others
    are there for the gradient in the inputs alone, and cost no more than that."""
    token = _rows.set(rows)
    try:
        yield
    finally:
        _rows.reset(token)


def product(
    inputs: Float[Array, "*batch inputs"], weight: Float[Array, "inputs outputs"]
) -> Float[Array, "*batch outputs"]:
    """`inputs @ weight`, of factors as they are or rounded to bfloat16."""
    matmul, rows = _matmul.get(), _rows.get()
    if matmul == "float32" and rows is None:
        return inputs @ weight
    return _product(matmul, rows, inputs, weight)


def in_rows(
    parameter: Float[Array, "... units"], units: Float[Array, "*batch units"]
) -> Float[Array, "... units"]:
    """A bias or a scale, to go with the units of every row."""
    rows = _rows.get()
    return parameter if rows is None else _repeated(rows, units.shape, parameter)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _product(matmul: Matmul, rows: int | None, inputs: Any, weight: Any) -> Any:
    """Factors as asked for and sums in float32; so are the gradient's, which JAX's own would not be."""
    return _forward(matmul, rows, inputs, weight)[0]


def _forward(
    matmul: Matmul, _: int | None, inputs: Any, weight: Any
) -> tuple[Any, tuple[Any, Any]]:
    factors = inputs.astype(matmul), weight.astype(matmul)
    return sums("...i,io->...o", *factors), factors


def _backward(
    matmul: Matmul, rows: int | None, factors: tuple[Any, Any], gradient: Any
) -> tuple[Any, Any]:
    inputs, weight = factors
    gradient = gradient.astype(matmul)
    learned, its_gradient = (x.reshape(-1, x.shape[-1])[:rows] for x in (inputs, gradient))
    # Products over these axes, and no transposed weight: XLA would copy that, and with it all members.
    return sums("...o,io->...i", gradient, weight), sums("ri,ro->io", learned, its_gradient)


sums = partial(jnp.einsum, preferred_element_type=jnp.float32)
_product.defvjp(_forward, _backward)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _repeated(rows: int, shape: tuple[int, ...], parameter: Any) -> Any:
    del rows
    return jnp.broadcast_to(parameter, shape)


_repeated.defvjp(
    lambda rows, shape, parameter: (_repeated(rows, shape, parameter), parameter),
    lambda rows, _, parameter, gradient: (gradient[:rows].sum(axis=0).reshape(parameter.shape),),
)
