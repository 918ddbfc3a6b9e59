"""Ensembles of Q-functions: one file a kind, one small interface, one registry.

An ensemble is a value of two functions. `init(key)` makes the parameters, and
`heads(params, observations, actions, key=None)` gives Q-values as (member, head, batch): one head a
member, or two for double-Q. Observations and actions come as (batch, ...) shared by all members or as
(member, batch, ...) with inputs of each member's own.

Parameters that must not be trained (fixed priors) are stopped inside `heads`: their gradient is zero,
so neither Adam nor the target average moves them.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from jaxtyping import Array, Float, PRNGKeyArray

from chary.types import PyTree


class Ensemble(NamedTuple):
    """N Q-functions of the same shape."""

    init: Callable[[PRNGKeyArray], PyTree]
    heads: Callable[..., Float[Array, "member head batch"]]
    shares_weights: bool
    """Members that share weights are given one action sample for all."""

    def values(
        self,
        params: PyTree,
        observations: Float[Array, "*#member batch observation"],
        actions: Float[Array, "*#member batch action"],
    ) -> Float[Array, "member batch"]:
        """What each member says: the minimum over its heads."""
        return self.heads(params, observations, actions).min(axis=1)


class EnsembleShape(NamedTuple):
    """What every kind of ensemble is built from."""

    members: int
    heads: int
    observation_size: int
    action_size: int
    hidden: Sequence[int]


from chary.ensembles.deep import make_deep

ENSEMBLES: dict[str, Callable[[EnsembleShape], Ensemble]] = {"deep": make_deep}
