"""Multi-input multi-output ensemble: N members inside one network (Havasi et al. 2021).

The network reads N inputs side by side and gives N outputs. In training every member sees the batch in
an order of its own and learns to answer for its own input only; to predict, one input is copied N times.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from chary.ensembles import Ensemble, EnsembleShape, join, outputs_of
from chary.networks.layers import MLP, Dense


def make_mimo(shape: EnsembleShape) -> Ensemble:
    """Only the first and the last layer grow with the number of members."""
    members, outputs = shape.members, shape.members * shape.heads * shape.outputs

    def init(key: PRNGKeyArray) -> MLP:
        inputs = members * shape.inputs
        return MLP.init(inputs, shape.hidden, outputs, layer_norm=shape.layer_norm, key=key)

    def heads(
        params: MLP,
        observations: Float[Array, "*#member batch observation"],
        actions: Float[Array, "*#member batch action"],
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "member head batch *outputs"]:
        del key  # the order of the rows is drawn by `arrange`
        pairs = join(observations, actions)
        if pairs.ndim == 2:
            values = _fed_with_copies(params, members)(pairs)
        else:
            side_by_side = jnp.moveaxis(pairs, 0, 1).reshape(pairs.shape[1], -1)
            values = params(side_by_side)
        values = values.reshape(-1, members, shape.heads, shape.outputs)
        return outputs_of(jnp.moveaxis(values, 0, 2))

    def arrange(batch: int, key: PRNGKeyArray) -> Int[Array, "member batch"]:
        """Each member its own shuffle of the first rows; the rest stay in place, alike for all."""
        moved = round((1.0 - shape.mimo_repetition) * batch)
        rows = jnp.broadcast_to(jnp.arange(batch), (members, batch))
        shuffled = jax.random.permutation(key, rows[:, :moved], axis=1, independent=True)
        return jnp.concatenate([shuffled, rows[:, moved:]], axis=1)

    return Ensemble(init, heads, shares_weights=True, arrange=arrange, ddof=1)


def _fed_with_copies(network: MLP, copies: int) -> MLP:
    """The network of one input that equals this one fed with copies of it: their weights add up."""
    first, *rest = network.layers
    weight = first.weight.reshape(copies, -1, first.weight.shape[-1]).sum(axis=0)
    return MLP((Dense(weight, first.bias, first.norm), *rest))
