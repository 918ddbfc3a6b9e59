"""Deep ensemble: N separate networks, which is what the paper finds to work."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from chary.ensembles import Ensemble, EnsembleShape
from chary.nets import MLP


def make_deep(shape: EnsembleShape) -> Ensemble:
    """N times as many parameters as one network, and nothing shared between members."""
    inputs = shape.observation_size + shape.action_size

    def init(key: PRNGKeyArray) -> MLP:
        def network(key: PRNGKeyArray) -> MLP:
            return MLP.init(inputs, shape.hidden, 1, key=key)

        keys = jax.random.split(key, (shape.members, shape.heads))
        return jax.vmap(jax.vmap(network))(keys)

    def heads(
        params: MLP,
        observations: Float[Array, "*#member batch observation"],
        actions: Float[Array, "*#member batch action"],
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "member head batch"]:
        del key  # nothing random in the forward pass
        pairs = _join(observations, actions)
        per_member = jax.vmap(
            lambda networks, x: jax.vmap(lambda q: q(x))(networks),
            (0, 0 if pairs.ndim == 3 else None),
        )
        return per_member(params, pairs).squeeze(-1)

    return Ensemble(init, heads, shares_weights=False)


def _join(
    observations: Float[Array, "*m batch observation"], actions: Float[Array, "*n batch action"]
) -> Float[Array, "*k batch pair"]:
    """Observations beside actions, either of them shared by all members or one for each."""
    # Without the barrier the compiler computes the actions anew inside the copy, number by number.
    observations, actions = jax.lax.optimization_barrier((observations, actions))
    leading = jnp.broadcast_shapes(observations.shape[:-1], actions.shape[:-1])
    return jnp.concatenate(
        [
            jnp.broadcast_to(observations, (*leading, observations.shape[-1])),
            jnp.broadcast_to(actions, (*leading, actions.shape[-1])),
        ],
        axis=-1,
    )
