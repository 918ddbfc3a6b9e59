"""Ensembles of your own, by `module:Name`, and those of installed packages: tried before a run."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from chary.algorithms import installed
from chary.ensembles import Ensemble, EnsembleShape
from chary.errors import CharyError
from chary.host.importing import find_named, in_short

GROUP = "chary.ensembles"
"""Entry points of this group are ensembles: a name, and the module:Name of what makes one."""
TRIED_BATCH = 5
"""Rows of the batch that an ensemble's shapes are tried with."""


def make(ensemble: str, shape: EnsembleShape) -> Ensemble:
    """Call `Name` of `module` with the shape, and see that it gives an ensemble of that shape."""
    known = installed(GROUP)
    named, there = known.get(ensemble, ensemble), ensemble in known
    maker = find_named("--ensemble", named, "mine:MyEnsemble", installed=there)
    made = _call(ensemble, maker, shape)
    missing = [part for part in ("init", "heads", "shares_weights") if not hasattr(made, part)]
    if missing:
        raise CharyError(
            f"--ensemble {ensemble}: makes something of type {type(made).__name__} without "
            f"{', '.join(missing)}; an ensemble has these (see docs/ensembles.md)."
        )
    own = Ensemble(
        made.init,
        made.heads,
        made.shares_weights,
        getattr(made, "arrange", None),
        ddof=getattr(made, "ddof", 0),
    )
    if own.arrange is not None and not own.shares_weights:
        raise CharyError(
            f"--ensemble {ensemble}: arranges rows but does not share weights; set shares_weights, so "
            "that all members are given the same actions to arrange."
        )
    _try_shapes(ensemble, own, shape)
    return own


def _call(ensemble: str, maker: Any, shape: EnsembleShape) -> Any:
    if not callable(maker):
        raise CharyError(
            f"--ensemble {ensemble}: is of type {type(maker).__name__}, not something that makes an "
            "ensemble when called with an EnsembleShape (see docs/ensembles.md)."
        )
    return _trying(ensemble, "called with an EnsembleShape", lambda: maker(shape))


def _try_shapes(ensemble: str, own: Ensemble, shape: EnsembleShape) -> None:
    """Trace `init` and `heads` with every kind of input that training will give them."""
    key = jax.random.key(0)
    params = _trying(ensemble, "asked for init(key)", lambda: jax.eval_shape(own.init, key))
    leaves = jax.tree.leaves(params)
    if not leaves or any(leaf.dtype != jnp.float32 for leaf in leaves):
        raise CharyError(f"--ensemble {ensemble}: init must give float32 arrays, in any nesting.")

    def inputs(size: int, *, each: bool) -> jax.ShapeDtypeStruct:
        leading = (shape.members, TRIED_BATCH) if each else (TRIED_BATCH,)
        return jax.ShapeDtypeStruct((*leading, size), jnp.float32)

    if own.arrange is not None:
        arrange = own.arrange
        rows = _trying(
            ensemble,
            "asked for arrange(batch, key)",
            lambda: jax.eval_shape(lambda k: arrange(TRIED_BATCH, k), key),
        )
        _expect(ensemble, "arrange(batch, key)", rows, (shape.members, TRIED_BATCH))
    arranged = own.arrange is not None
    for own_observations, own_actions, given in (
        (False, False, None),
        (False, False, key),
        (arranged, arranged or not own.shares_weights, key),
    ):
        observations = inputs(shape.observation_size, each=own_observations)
        actions = inputs(shape.action_size, each=own_actions)
        asked = (
            f"heads(params, observations{observations.shape}, actions{actions.shape}, "
            f"key={'None' if given is None else 'key'})"
        )
        found = _trying(
            ensemble,
            f"asked for {asked}",
            lambda o=observations, a=actions, k=given: jax.eval_shape(
                lambda p, o, a: own.heads(p, o, a, key=k), params, o, a
            ),
        )
        _expect(ensemble, asked, found, (shape.members, shape.heads, TRIED_BATCH))


def _expect(ensemble: str, asked: str, found: Any, expected: tuple[int, ...]) -> None:
    if getattr(found, "shape", None) != expected:
        raise CharyError(
            f"--ensemble {ensemble}: {asked} gives {getattr(found, 'shape', type(found).__name__)}, but "
            f"must give {expected}: members{', heads' if len(expected) == 3 else ''}, batch."
        )


def _trying(ensemble: str, what: str, work: Callable[[], Any]) -> Any:
    """Do it; whatever a user's code raises is reported as an error of that code."""
    try:
        return work()
    except Exception as error:
        raise CharyError(
            f"--ensemble {ensemble}: fails when {what} ({in_short(error)})."
        ) from error
