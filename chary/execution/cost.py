"""What an update asks of the machine, read from the program itself: arithmetic and memory."""

from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr


class Cost(NamedTuple):
    """Of one update of one run."""

    flops: float
    """Of its matrix products, which are nearly all there is."""
    memory: float
    """Bytes held while it runs: the state twice, as when many are put together, and the results of all
    matrix products, which are the networks' values and gradients. Of these, what the compiler was seen
    to hold at once is 70 to 100%, because it reuses some and keeps others after the activation too."""


def cost_of(update: jax.stages.Traced) -> Cost:
    """The cost of a traced `update(state, batch, key)`."""
    products = list(_matrix_products(update.jaxpr.jaxpr))
    state = sum(_size(leaf) for leaf in jax.tree.leaves(update.out_info))
    results = sum(size for _, size in products)
    return Cost(sum(flops for flops, _ in products), 2.0 * state + results)


def _matrix_products(program: Jaxpr) -> Iterator[tuple[float, float]]:
    """Every matrix product: its arithmetic, and the bytes of its result."""
    for equation in program.eqns:
        if equation.primitive.name == "dot_general":
            contracted = equation.params["dimension_numbers"][0][0]
            left: Any = equation.invars[0].aval
            result: Any = equation.outvars[0].aval
            terms = prod(left.shape[axis] for axis in contracted)
            yield 2.0 * prod(result.shape) * terms, _size(result)
        times = _times(equation)
        for inner in _programs_in(tuple(equation.params.values())):
            for flops, size in _matrix_products(inner):
                yield times * flops, size


def _times(equation: Any) -> int:
    """How often what is inside an operation is done: in every turn of a loop, or on every device."""
    if equation.primitive.name == "scan":
        return equation.params["length"]
    return equation.params["mesh"].size if equation.primitive.name == "shard_map" else 1


def _programs_in(parameters: tuple[Any, ...]) -> Iterator[Jaxpr]:
    for parameter in parameters:
        if isinstance(parameter, ClosedJaxpr):
            yield parameter.jaxpr
        elif isinstance(parameter, Jaxpr):
            yield parameter
        elif isinstance(parameter, tuple):
            yield from _programs_in(parameter)


def _size(array: Any) -> float:
    return float(prod(array.shape) * array.dtype.itemsize)
