"""Algorithms by name. Each one's file has its settings and presets; a preset holds only differences."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

from chary.algorithms import SUMMARIES, check_algorithm, installed
from chary.algos import (
    bc,
    cql,
    crr,
    edac,
    fbrc,
    fql,
    iql,
    msg_config,
    msg_presets,
    rebrac,
    rem,
    sac_n,
    td3_bc,
)
from chary.algos.msg import make_msg
from chary.errors import CharyError
from chary.execution.config import DEFAULT, Execution
from chary.execution.devices import counted
from chary.execution.fused import Fused
from chary.execution.plain import Plain
from chary.host.importing import find_named, in_short
from chary.networks.matmul import multiplying_in
from chary.types import Algorithm


class Entry(NamedTuple):
    """An algorithm: its config class, and presets over the config and the run's settings."""

    config: type
    make: Callable[..., Algorithm[Any]]
    """`make(config, observation_size, action_size)`."""
    presets: dict[str, dict[str, Any]]
    executed: bool = False
    """Whether `make` takes an `executor`: critics that are trained in windows and on devices."""
    by_dataset: dict[str, dict[str, Any]] = {}
    """What the authors set on single datasets, by name without version. The preset `paper` has it."""


ALGORITHMS = {
    "msg": Entry(msg_config.MSGConfig, make_msg, msg_presets.PRESETS, executed=True),
    "bc": Entry(bc.BCConfig, bc.make_bc, bc.PRESETS),
    "iql": Entry(iql.IQLConfig, iql.make_iql, iql.PRESETS),
    "cql": Entry(cql.CQLConfig, cql.make_cql, cql.PRESETS),
    "crr": Entry(crr.CRRConfig, crr.make_crr, crr.PRESETS),
    "fbrc": Entry(fbrc.FBRCConfig, fbrc.make_fbrc, fbrc.PRESETS),
    "sac-n": Entry(sac_n.SACNConfig, sac_n.make_sac_n, sac_n.PRESETS, executed=True),
    "edac": Entry(edac.EDACConfig, edac.make_edac, edac.PRESETS),
    "rem": Entry(rem.REMConfig, rem.make_rem, rem.PRESETS),
    "td3-bc": Entry(td3_bc.TD3BCConfig, td3_bc.make_td3_bc, td3_bc.PRESETS),
    "rebrac": Entry(
        rebrac.ReBRACConfig, rebrac.make_rebrac, rebrac.PRESETS, by_dataset=rebrac.WEIGHTS
    ),
    "fql": Entry(fql.FQLConfig, fql.make_fql, fql.PRESETS, by_dataset=fql.LARGE),
}
"""In the order of `chary.algorithms.SUMMARIES`, which says what each is."""


def entry(name: str) -> Entry:
    """The algorithm of that name; one that is not chary's own is imported."""
    check_algorithm(name)
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    known = installed()
    found = find_named("algorithm", known.get(name, name), "mine:AWAC", installed=name in known)
    if not isinstance(found, Entry):
        raise CharyError(
            f"algorithm {name}: is of type {type(found).__name__}, but must be a chary.algos.Entry: its "
            "settings, a function that makes it, and its presets."
        )
    return found


def build(
    name: str,
    config: Any,
    observation_size: int,
    action_size: int,
    execution: Execution = DEFAULT,
) -> Algorithm[Any]:
    """The algorithm for vectors of the given sizes, executed as the settings say.

    Equal settings give one and the same value, so that runs of one process, a resumed one or the next
    seed, share what was compiled. A user's own ensemble may have changed since, and is made anew.
    """
    own = ":" in getattr(config, "ensemble", "")
    make = built.__wrapped__ if own else built
    return make(name, config, observation_size, action_size, execution)


@lru_cache(maxsize=16)
def built(
    name: str, config: Any, observation_size: int, action_size: int, execution: Execution
) -> Algorithm[Any]:
    """What `build` gives for settings that it has not seen lately."""
    make = entry(name).make
    if entry(name).executed:
        execution.check_members(config.members)
        executor = {"fused": Fused, "plain": Plain}[execution.executor]
        make = partial(make, executor=partial(executor.of, execution=execution))
    elif execution.window or counted(execution.devices) > 1:
        able = " and ".join(other for other in ALGORITHMS if ALGORITHMS[other].executed)
        raise CharyError(
            f"--window, --devices and several processes divide the members of an ensemble, which {able} "
            f"can do; {name} is trained as a whole, by one process on one device."
        )
    try:
        made = make(config, observation_size, action_size)
    except Exception as error:
        if name in SUMMARIES or isinstance(error, CharyError):
            raise
        raise CharyError(f"algorithm {name}: cannot be made ({in_short(error)}).") from error
    if not isinstance(made, Algorithm):
        raise CharyError(
            f"algorithm {name}: makes something of type {type(made).__name__}, not an Algorithm "
            "(chary.types)."
        )
    return replace(made, update=multiplying_in(execution.matmul, made.update))
