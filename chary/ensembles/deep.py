"""Deep ensemble: N separate networks, which is what the paper finds to work."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from chary.ensembles import Ensemble, EnsembleShape, join, outputs_of
from chary.networks.layers import MLP


def make_deep(shape: EnsembleShape) -> Ensemble:
    """N times as many parameters as one network, and nothing shared between members."""

    def init(key: PRNGKeyArray) -> MLP:
        return separate_networks(shape, shape.inputs, shape.hidden, key=key)

    def heads(
        params: MLP,
        observations: Float[Array, "*#member batch observation"],
        actions: Float[Array, "*#member batch action"],
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "member head batch *outputs"]:
        del key  # nothing random in the forward pass
        return each_network(params, join(observations, actions))

    def features(
        params: MLP,
        observations: Float[Array, "*#member batch observation"],
        actions: Float[Array, "*#member batch action"],
    ) -> Float[Array, "member head batch unit"]:
        pairs = join(observations, actions)
        members = len(params.layers[0].bias)
        pairs = jnp.broadcast_to(pairs, (members, *pairs.shape[-2:]))
        return jax.vmap(jax.vmap(MLP.features, (0, None)))(params, pairs)

    return Ensemble(init, heads, shares_weights=False, in_windows=True, features=features)


def separate_networks(
    shape: EnsembleShape, inputs: int, hidden: Sequence[int], *, key: PRNGKeyArray
) -> MLP:
    """A network for every member and head, stacked along two leading axes."""

    def network(key: PRNGKeyArray) -> MLP:
        return MLP.init(inputs, hidden, shape.outputs, layer_norm=shape.layer_norm, key=key)

    return jax.vmap(jax.vmap(network))(jax.random.split(key, (shape.members, shape.heads)))


def each_network(
    networks: MLP, inputs: Float[Array, "*#member batch inputs"]
) -> Float[Array, "member head batch *outputs"]:
    """What every member's networks make of shared inputs, or of its own."""
    # One axis of networks, not two: XLA's loops over a fourth axis are half as fast. And a copy of the
    # inputs for each: what a product of shared inputs with all first layers gives is out of order.
    members, heads = networks.layers[0].bias.shape[:2]
    one_axis = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), networks)
    inputs = jnp.broadcast_to(inputs, (members, *inputs.shape[-2:]))
    values = jax.vmap(lambda network, x: network(x))(one_axis, jnp.repeat(inputs, heads, axis=0))
    return outputs_of(values.reshape(members, heads, *values.shape[1:]))
