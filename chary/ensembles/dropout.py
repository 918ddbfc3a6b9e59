"""Monte-Carlo dropout: one network seen through N masks (Gal and Ghahramani 2016).

A mask takes the same hidden units from every row, so that a member is a function of its own. In training
the masks of all members are drawn anew in every step; without a key they are N fixed ones.
"""

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from chary.ensembles import Ensemble, EnsembleShape, by_member, join, outputs_of
from chary.networks.layers import MLP, relu

FIXED_SEED = 0
"""Seed of the masks that predictions use."""


def make_dropout(shape: EnsembleShape) -> Ensemble:
    """The parameters of one network, and the arithmetic of N."""
    kept = 1.0 - shape.dropout

    def init(key: PRNGKeyArray) -> MLP:
        return MLP.init(
            shape.inputs, shape.hidden, shape.outputs, layer_norm=shape.layer_norm, key=key
        )

    def masks(key: PRNGKeyArray) -> list[Float[Array, "member head 1 units"]]:
        """0 or 1 / kept for each hidden unit: what is left is scaled so that sums stay as large."""
        keys = jax.random.split(key, len(shape.hidden))
        sizes = [(shape.members, shape.heads, 1, units) for units in shape.hidden]
        return [jax.random.bernoulli(k, kept, s) / kept for k, s in zip(keys, sizes, strict=True)]

    def heads(
        params: MLP,
        observations: Float[Array, "*#member batch observation"],
        actions: Float[Array, "*#member batch action"],
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "member head batch *outputs"]:
        key = jax.random.key(FIXED_SEED) if key is None else key
        units = by_member(join(observations, actions))
        *hidden, last = params.layers
        for layer, mask in zip(hidden, masks(key), strict=True):
            units = relu(layer(units)) * mask
        return outputs_of(last(units))

    return Ensemble(init, heads, shares_weights=True)
