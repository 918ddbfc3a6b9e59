"""An uncertainty estimator of your own, complete: members of low rank around one shared network.

    chary train msg --dataset pointmaze-umaze --ensemble examples.custom_ensemble:MyEnsemble

Layer k of member i is x @ (W + A_i @ B_i) + b_i: the matrix W is shared, and the thin matrices A_i and
B_i are the member's own (the additions of LoRA, Hu et al. 2022, one for each member). docs/ensembles.md
explains the parts.
"""

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp

from chary.ensembles import EnsembleShape, join
from chary.networks.layers import glorot

RANK = 4


class MyEnsemble:
    """Called with an EnsembleShape; has `init`, `heads` and `shares_weights`."""

    shares_weights = True  # through W: all members are then given the same actions

    def __init__(self, shape: EnsembleShape):
        self.shape = shape

    def init(self, key: jax.Array) -> list[dict[str, jax.Array]]:
        """The parameters: float32 arrays in any nesting. Adam and the target average do the rest."""
        networks = (self.shape.members, self.shape.heads)
        sizes = list(pairwise((self.shape.inputs, *self.shape.hidden, 1)))

        def layer(inputs: int, outputs: int, key: jax.Array) -> dict[str, jax.Array]:
            shared_key, a_key, b_key = jax.random.split(key, 3)
            return {
                "W": glorot(shared_key, (inputs, outputs), jnp.float32),
                "A": jax.random.normal(a_key, (*networks, inputs, RANK)) / inputs**0.5,
                "B": jax.random.normal(b_key, (*networks, RANK, outputs)) / RANK**0.5,
                "b": jnp.zeros((*networks, 1, outputs)),
            }

        keys = jax.random.split(key, len(sizes))
        return [layer(before, after, k) for (before, after), k in zip(sizes, keys, strict=True)]

    def heads(
        self, params: list[dict[str, Any]], observations: Any, actions: Any, *, key: Any = None
    ) -> jax.Array:
        """Q-values (member, head, batch); a key is given in training, to those who draw something."""
        del key
        x = join(observations, actions)[None, None]  # alike for every member and head
        for layer in params:
            x = x @ layer["W"] + (x @ layer["A"]) @ layer["B"] + layer["b"]
            if layer is not params[-1]:
                x = jax.nn.relu(x)
        return x.squeeze(-1)
