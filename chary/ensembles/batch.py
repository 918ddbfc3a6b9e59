"""BatchEnsemble: shared weights, modulated for each member by rank-one matrices (Wen et al. 2020)."""

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from chary.ensembles import Ensemble, EnsembleShape, by_member, join, outputs_of
from chary.networks.layers import LayerNorm, glorot, relu
from chary.networks.matmul import product

GAUSSIAN_STD = 0.5
"""Spread around 1 of Gaussian modulations, as in Wen et al."""


class ModulatedDense(eqx.Module):
    """`((x * r) @ weight) * s + bias`: member i's weights are W times the outer product of r_i and s_i,
    a matrix that is never made."""

    weight: Float[Array, "inputs outputs"]
    r: Float[Array, "member head inputs"]
    s: Float[Array, "member head outputs"]
    bias: Float[Array, "member head outputs"]
    norm: LayerNorm | None

    def __call__(
        self, inputs: Float[Array, "#member #head batch inputs"]
    ) -> Float[Array, "member head batch outputs"]:
        modulated = inputs * self.r[:, :, None]
        outputs = product(modulated, self.weight) * self.s[:, :, None] + self.bias[:, :, None]
        return outputs if self.norm is None else self.norm(outputs)


def make_batch(shape: EnsembleShape) -> Ensemble:
    """A few vectors a member, but the arithmetic of N networks."""
    copies = (shape.members, shape.heads)

    def modulation(size: int, *, key: PRNGKeyArray) -> Float[Array, "member head size"]:
        if shape.modulation == "sign":
            return jax.random.rademacher(key, (*copies, size), jnp.float32)
        return 1.0 + GAUSSIAN_STD * jax.random.normal(key, (*copies, size))

    def layer(inputs: int, outputs: int, *, norm: bool, key: PRNGKeyArray) -> ModulatedDense:
        weight_key, r_key, s_key = jax.random.split(key, 3)
        return ModulatedDense(
            weight=glorot(weight_key, (inputs, outputs), jnp.float32),
            r=modulation(inputs, key=r_key),
            s=modulation(outputs, key=s_key),
            bias=jnp.zeros((*copies, outputs)),
            norm=LayerNorm.init(*copies, outputs) if norm else None,
        )

    def init(key: PRNGKeyArray) -> tuple[ModulatedDense, ...]:
        *hidden_keys, last_key = jax.random.split(key, len(shape.hidden) + 1)
        sizes = pairwise((shape.inputs, *shape.hidden))
        hidden = [
            layer(before, after, norm=shape.layer_norm, key=k)
            for (before, after), k in zip(sizes, hidden_keys, strict=True)
        ]
        return (*hidden, layer(shape.hidden[-1], shape.outputs, norm=False, key=last_key))

    def heads(
        params: tuple[ModulatedDense, ...],
        observations: Float[Array, "*#member batch observation"],
        actions: Float[Array, "*#member batch action"],
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "member head batch *outputs"]:
        del key  # nothing random in the forward pass
        inputs = by_member(join(observations, actions))
        *hidden, last = params
        for dense in hidden:
            inputs = relu(dense(inputs))
        return outputs_of(last(inputs))

    return Ensemble(init, heads, shares_weights=True)
