"""Multi-head ensemble: one trunk and N outputs (Lee et al. 2015, Osband et al. 2016)."""

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
        observations: Float[Array, "batch observation"],
        actions: Float[Array, "batch action"],
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "member head batch"]:
        del key  # nothing random in the forward pass
        return params(join(observations, actions)).T.reshape(shape.members, shape.heads, -1)

    return Ensemble(init, heads, shares_weights=True)
