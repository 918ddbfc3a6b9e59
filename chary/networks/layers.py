"""Dense layers and multi-layer perceptrons: modules that hold arrays and nothing else."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from chary.networks.matmul import in_rows, product

glorot = jax.nn.initializers.variance_scaling(1.0, "fan_avg", "truncated_normal")

NORM_EPSILON = 1e-5
"""Added to the variance in layer normalisation, so that equal units do not divide by zero."""


@jax.custom_jvp
def relu(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """max(x, 0), whose gradient is read off the result: x itself need not be kept for it."""
    return jnp.maximum(x, 0.0)


@relu.defjvp
def _relu_slope(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    result = relu(*primals)
    return result, jnp.where(result > 0.0, *tangents, 0.0)


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
        scale, shift = (in_rows(x[..., None, :], standard) for x in (self.scale, self.shift))
        return standard * scale + shift


class Dense(eqx.Module):
    """`x @ weight + bias`, with the weight stored as (in, out), and a normalisation where asked for."""

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
        outputs = product(inputs, self.weight)
        outputs += in_rows(self.bias, outputs)
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
        """Layers of the given sizes; normalisation, where asked for, is in all but the last."""
        sizes = (inputs, *hidden, outputs)
        keys = jax.random.split(key, len(sizes) - 1)
        triples = list(zip(sizes[:-1], sizes[1:], keys, strict=True))
        layers = [Dense.init(a, b, layer_norm=layer_norm, key=k) for a, b, k in triples[:-1]]
        before, after, last_key = triples[-1]
        return cls((*layers, Dense.init(before, after, key=last_key)))

    def features(self, inputs: Float[Array, "*batch inputs"]) -> Float[Array, "*batch units"]:
        """The last hidden layer."""
        for layer in self.layers[:-1]:
            inputs = relu(layer(inputs))
        return inputs

    def __call__(self, inputs: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        return self.layers[-1](self.features(inputs))
