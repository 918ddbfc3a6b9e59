"""Tree ensemble: the first hidden layers shared, the rest separate (Lee et al. 2015).

Between the deep ensemble (nothing shared) and the multi-head one (all hidden layers shared).
"""

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from chary.ensembles import Ensemble, EnsembleShape, join
from chary.ensembles.deep import each_network, separate_networks
from chary.networks.layers import MLP, Dense, relu


class Tree(eqx.Module):
    """Hidden layers that all members share, and a network for every member and head above them."""

    trunk: tuple[Dense, ...]
    branches: MLP


def make_tree(shape: EnsembleShape) -> Ensemble:
    """N branches on a common trunk of `shared_layers` hidden layers."""
    shared, separate = shape.hidden[: shape.shared_layers], shape.hidden[shape.shared_layers :]

    def init(key: PRNGKeyArray) -> Tree:
        trunk_key, branch_key = jax.random.split(key)
        # A network's hidden layers; its output layer is what the branches stand in for.
        trunk = MLP.init(shape.inputs, shared, 1, layer_norm=shape.layer_norm, key=trunk_key)
        features = (shape.inputs, *shared)[-1]
        branches = separate_networks(shape, features, separate, key=branch_key)
        return Tree(trunk.layers[:-1], branches)

    def heads(
        params: Tree,
        observations: Float[Array, "*#member batch observation"],
        actions: Float[Array, "*#member batch action"],
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "member head batch *outputs"]:
        del key  # nothing random in the forward pass
        features = join(observations, actions)
        for layer in params.trunk:
            features = relu(layer(features))
        return each_network(params.branches, features)

    return Ensemble(init, heads, shares_weights=bool(shared))
