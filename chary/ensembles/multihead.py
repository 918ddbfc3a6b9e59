"""Multi-head ensemble: one trunk and N outputs (Lee et al. 2015, Osband et al. 2016)."""

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from chary.ensembles import Ensemble, EnsembleShape, join, outputs_of
from chary.networks.layers import MLP


def make_multihead(shape: EnsembleShape) -> Ensemble:
    """Members differ in the last layer only, at about the cost of one network."""

    def init(key: PRNGKeyArray) -> MLP:
        outputs = shape.members * shape.heads * shape.outputs
        return MLP.init(shape.inputs, shape.hidden, outputs, layer_norm=shape.layer_norm, key=key)

    def heads(
        params: MLP,
        observations: Float[Array, "*#member batch observation"],
        actions: Float[Array, "*#member batch action"],
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "member head batch *outputs"]:
        del key  # nothing random in the forward pass
        pairs = join(observations, actions)
        values = params(pairs).reshape(*pairs.shape[:-1], shape.members, shape.heads, shape.outputs)
        if pairs.ndim == 3:  # rows of each member's own: all outputs are computed, and its own kept
            return outputs_of(jnp.einsum("ibiho->ihbo", values))
        return outputs_of(jnp.moveaxis(values, 0, 2))

    return Ensemble(init, heads, shares_weights=True, ddof=1)
