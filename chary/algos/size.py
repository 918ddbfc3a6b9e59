"""How large a learner is."""

from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from chary.types import Algorithm


class CriticSize(NamedTuple):
    """Of all Q-functions together; None without any."""

    members: int | None
    parameters: int | None
    """Numbers in them, fixed ones included, target networks not."""


def critic_size(algorithm: Algorithm[Any], observation_size: int, action_size: int) -> CriticSize:
    """How many Q-functions there are, and of how many numbers they are made."""
    if algorithm.values is None:
        return CriticSize(None, None)
    state = jax.eval_shape(algorithm.init, jax.random.key(0))
    inputs = (jnp.zeros((1, size)) for size in (observation_size, action_size))
    values = jax.eval_shape(algorithm.values, state, *inputs)
    leaves = jax.tree.leaves(state.critics.online)
    return CriticSize(values.shape[0], sum(prod(leaf.shape) for leaf in leaves))
