"""Dense layers and multi-layer perceptrons: modules that hold arrays and nothing else."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

glorot = jax.nn.initializers.variance_scaling(1.0, "fan_avg", "truncated_normal")


class Dense(eqx.Module):
    """`x @ weight + bias`, with the weight stored as (in, out)."""

    weight: Float[Array, "*member inputs outputs"]
    bias: Float[Array, "*member outputs"]

    @classmethod
    def init(cls, inputs: int, outputs: int, *, key: PRNGKeyArray) -> "Dense":
        """Glorot-scaled truncated-normal weights and zero biases, as the paper's authors use."""
        return cls(glorot(key, (inputs, outputs), jnp.float32), jnp.zeros(outputs))

    def __call__(self, inputs: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        return inputs @ self.weight + self.bias


class MLP(eqx.Module):
    """Dense layers with ReLU between them."""

    layers: tuple[Dense, ...]

    @classmethod
    def init(cls, inputs: int, hidden: Sequence[int], outputs: int, *, key: PRNGKeyArray) -> "MLP":
        sizes = (inputs, *hidden, outputs)
        keys = jax.random.split(key, len(sizes) - 1)
        pairs = zip(sizes[:-1], sizes[1:], keys, strict=True)
        return cls(tuple(Dense.init(before, after, key=k) for before, after, k in pairs))

    def __call__(self, inputs: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        *hidden, last = self.layers
        for layer in hidden:
            inputs = jax.nn.relu(layer(inputs))
        return last(inputs)
