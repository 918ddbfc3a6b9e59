"""Adam with a learning rate that is an array, so that one compiled program serves every value."""

from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

from chary.types import PyTree

Params = TypeVar("Params")
Fields = TypeVar("Fields")

_adam = optax.scale_by_adam()
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # Optax's defaults, and those of Kingma and Ba (2015)


def adam_init(params: PyTree) -> PyTree:
    """The optimiser state before the first step."""
    return _adam.init(params)


def adam_step(
    params: Params, gradient: PyTree, optimiser: PyTree, learning_rate: Float[Array, ""]
) -> tuple[Params, PyTree]:
    """New parameters and optimiser state."""
    direction, optimiser = _adam.update(gradient, optimiser)
    return jax.tree.map(lambda p, d: p - learning_rate * d, params, direction), optimiser


def move_towards(slow: Params, new: Params, tau: Float[Array, ""]) -> Params:
    """The target average: slow + tau * (new - slow), so that equal parameters stay equal to the bit."""
    return jax.tree.map(lambda slow, new: slow + tau * (new - slow), slow, new)


def either(condition: Bool[Array, ""], yes: Params, no: Params) -> Params:
    """The one or the other, leaf by leaf."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def as_arrays(kind: type[Fields], config: Any, **changes: float) -> Fields:
    """A named tuple of a config's continuous settings: as arrays, one program serves every value."""
    values = vars(config) | changes
    return kind(*(jnp.float32(values[name]) for name in kind._fields))  # pyright: ignore[reportAttributeAccessIssue]


class Trained(NamedTuple, Generic[Params]):
    """Parameters with the state of the optimiser that trains them."""

    params: Params
    optimiser: PyTree

    @classmethod
    def of(cls, params: Params) -> "Trained[Params]":
        return Trained(params, adam_init(params))

    def step(self, gradient: PyTree, learning_rate: Float[Array, ""]) -> "Trained[Params]":
        return Trained(*adam_step(self.params, gradient, self.optimiser, learning_rate))


class TrainedWithTarget(NamedTuple, Generic[Params]):
    """The same, with the parameters' slow average."""

    online: Params
    target: Params
    optimiser: PyTree

    @classmethod
    def of(cls, params: Params) -> "TrainedWithTarget[Params]":
        return TrainedWithTarget(params, jax.tree.map(jnp.copy, params), adam_init(params))

    def step(
        self, gradient: PyTree, learning_rate: Float[Array, ""], tau: Float[Array, ""]
    ) -> "TrainedWithTarget[Params]":
        online, optimiser = adam_step(self.online, gradient, self.optimiser, learning_rate)
        return TrainedWithTarget(online, move_towards(self.target, online, tau), optimiser)
