"""Multi-head ensemble: one trunk and N outputs (Lee et al. 2015, Osband et al. 2016)."""

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from chary.ensembles import Ensemble, EnsembleShape, join
from chary.nets import MLP


def make_multihead(shape: EnsembleShape) -> Ensemble:
    """Members differ in the last layer only, at about the cost of one network."""

    def init(key: PRNGKeyArray) -> MLP:
        outputs = shape.members * shape.heads
        return MLP.init(shape.inputs, shape.hidden, outputs, layer_norm=shape.layer_norm, key=key)

    def heads(
        params: MLP,
        observations: Float[Array, "*#member batch observation"],
        actions: Float[Array, "*#member batch action"],
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "member head batch"]:
        del key  # nothing random in the forward pass
        pairs = join(observations, actions)
        if pairs.ndim == 2:
            return params(pairs).T.reshape(shape.members, shape.heads, -1)
        # Rows of each member's own: all outputs are computed, and member i's are kept.
        values = params(pairs).reshape(*pairs.shape[:2], shape.members, shape.heads)
        return jnp.einsum("ibih->ihb", values)

    return Ensemble(init, heads, shares_weights=True, ddof=1)
