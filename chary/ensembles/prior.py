"""Randomised priors: to every trained network a fixed random one is added (Osband et al. 2018).

Far from the data the trained part has learned nothing, and the priors keep the members apart.
"""

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from chary.ensembles import Ensemble, EnsembleShape
from chary.ensembles.deep import make_deep
from chary.networks.layers import MLP


class WithPrior(eqx.Module):
    """Networks that learn, and networks that never change."""

    trained: MLP
    prior: MLP


def make_prior(shape: EnsembleShape) -> Ensemble:
    """Q_i = f_i + prior_scale * p_i, with separate networks f_i and p_i of the same shape."""
    deep = make_deep(shape)

    def init(key: PRNGKeyArray) -> WithPrior:
        trained_key, prior_key = jax.random.split(key)
        return WithPrior(deep.init(trained_key), deep.init(prior_key))

    def heads(
        params: WithPrior,
        observations: Float[Array, "*#member batch observation"],
        actions: Float[Array, "*#member batch action"],
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "member head batch *outputs"]:
        del key  # nothing random in the forward pass
        # Only the parameters are stopped: the policy's gradient goes through the prior too.
        prior = jax.lax.stop_gradient(params.prior)
        trained = deep.heads(params.trained, observations, actions)
        return trained + shape.prior_scale * deep.heads(prior, observations, actions)

    return Ensemble(init, heads, shares_weights=False, in_windows=True)
