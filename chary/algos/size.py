"""How large a learner is."""

from math import prod
from typing import Any

import jax

from chary.types import Algorithm


def critic_parameters(algorithm: Algorithm[Any]) -> int:
    """Numbers in all Q-functions together, fixed ones included, target networks not."""
    state = jax.eval_shape(algorithm.init, jax.random.key(0))
    return sum(prod(leaf.shape) for leaf in jax.tree.leaves(state.critics.online))
