"""Ensembles of Q-functions: one file a kind, one small interface, one registry.

An ensemble is a value of two functions. `init(key)` makes the parameters, and
`heads(params, observations, actions, key=None)` gives Q-values as (member, head, batch): one head a
member, or two for double-Q; where a network has several outputs, they are a last axis. The key is for
what a kind draws in training; without one the values are the same every time.

Observations and actions come as (batch, ...) shared by all members, or as (member, batch, ...): members
that share no weights act by themselves, and some kinds learn from rows of each member's own.

Parameters that must not be trained (fixed priors) are stopped inside `heads`: their gradient is zero,
so neither Adam nor the target average moves them.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from chary.algorithms import installed
from chary.errors import unknown_name
from chary.networks.targets import smallest
from chary.types import PyTree


class Ensemble(NamedTuple):
    """N Q-functions of the same shape."""

    init: Callable[[PRNGKeyArray], PyTree]
    heads: Callable[..., Float[Array, "member head batch *outputs"]]
    shares_weights: bool
    """Members that share weights are given one action sample for all."""
    arrange: Callable[[int, PRNGKeyArray], Int[Array, "member batch"]] | None = None
    """`arrange(batch, key)`: the order in which each member sees the rows of a batch in training;
    None for the batch's own."""
    in_windows: bool = False
    """Whether parameters have a first axis of members, and `heads` takes any window of it."""
    features: Callable[..., Float[Array, "member head batch unit"]] | None = None
    """`features(params, observations, actions)`: the last hidden layer of every network, for kinds
    whose members have one each."""
    ddof: int = 0
    """Subtracted from N in the members' variance, as the authors of MSG have it for this kind."""

    def values(
        self,
        params: PyTree,
        observations: Float[Array, "*#member batch observation"],
        actions: Float[Array, "*#member batch action"],
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "member batch"]:
        """What each member says: the minimum over its heads."""
        return smallest(self.heads(params, observations, actions, key=key), axis=1)


class EnsembleShape(NamedTuple):
    """What ensembles are built from; each kind reads what it needs."""

    members: int
    heads: int
    observation_size: int
    action_size: int
    hidden: Sequence[int]
    layer_norm: bool
    outputs: int = 1
    """Numbers that a network gives for an input: one value, or the logits of so many bins."""
    complete_heads: bool = True
    """Whether the two heads of a double-Q member share nothing; otherwise they are two outputs."""
    mimo_repetition: float = 0.5
    modulation: str = "sign"
    shared_layers: int = 1
    prior_scale: float = 1.0
    dropout: float = 0.1

    @property
    def inputs(self) -> int:
        """Size of an observation beside an action."""
        return self.observation_size + self.action_size


def join(
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


def outputs_of(values: Float[Array, "*axes output"]) -> Float[Array, "*axes_and_outputs"]:
    """A network's outputs as they are, or its only one without an axis of its own."""
    return values.squeeze(-1) if values.shape[-1] == 1 else values


def by_member(pairs: Float[Array, "*#member batch pair"]) -> Float[Array, "#member 1 batch pair"]:
    """Pairs with axes for members and heads, whether shared by all members or one for each."""
    return pairs[:, None] if pairs.ndim == 3 else pairs[None, None]


from chary.ensembles import custom as own
from chary.ensembles.batch import make_batch
from chary.ensembles.deep import make_deep
from chary.ensembles.dropout import make_dropout
from chary.ensembles.mimo import make_mimo
from chary.ensembles.multihead import make_multihead
from chary.ensembles.prior import make_prior
from chary.ensembles.tree import make_tree

ENSEMBLES: dict[str, Callable[[EnsembleShape], Ensemble]] = {
    "deep": make_deep,
    "multihead": make_multihead,
    "mimo": make_mimo,
    "batch": make_batch,
    "tree": make_tree,
    "prior": make_prior,
    "dropout": make_dropout,
    "none": make_deep,  # one network; MSG's settings see to it that there is one member
}


def check_name(ensemble: str) -> None:
    """Refuse a kind that is neither in the registry nor installed nor written like one of your own."""
    known = {*ENSEMBLES, *installed(own.GROUP)}
    if ensemble not in known and ":" not in ensemble:
        raise unknown_name("ensemble", ensemble, known, "One of your own is module:Name.")


def make_ensemble(ensemble: str, shape: EnsembleShape) -> Ensemble:
    """An ensemble by the name of its kind, of an installed one, or by `module:Name` of your own."""
    if ensemble not in ENSEMBLES:
        return own.make(ensemble, shape)
    made = ENSEMBLES[ensemble](shape)
    if shape.heads > 1 and shape.complete_heads and made.shares_weights:
        return in_copies(ENSEMBLES[ensemble](shape._replace(heads=1)), shape.heads)
    return made  # members that share no weights share none between their heads either


def in_copies(single: Ensemble, copies: int) -> Ensemble:
    """An ensemble of one head, several times over: head h of member i is member i of copy h."""

    def init(key: PRNGKeyArray) -> PyTree:
        return jax.vmap(single.init)(jax.random.split(key, copies))

    def heads(
        params: PyTree,
        observations: Float[Array, "*#member batch observation"],
        actions: Float[Array, "*#member batch action"],
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "member head batch *outputs"]:
        values = jax.vmap(lambda copy: single.heads(copy, observations, actions, key=key))(params)
        return values.squeeze(2).swapaxes(0, 1)

    return single._replace(init=init, heads=heads)
