"""Adam with a learning rate that is an array, so that one compiled program serves every value."""

from typing import TypeVar

import jax
import optax
from jaxtyping import Array, Float

from chary.types import PyTree

Params = TypeVar("Params")

_adam = optax.scale_by_adam()


def adam_init(params: PyTree) -> PyTree:
    """The optimiser state before the first step."""
    return _adam.init(params)


def adam_step(
    params: Params, gradient: PyTree, optimiser: PyTree, learning_rate: Float[Array, ""]
) -> tuple[Params, PyTree]:
    """New parameters and optimiser state."""
    direction, optimiser = _adam.update(gradient, optimiser)
    return jax.tree.map(lambda p, d: p - learning_rate * d, params, direction), optimiser
