"""Algorithms by name. Each one's file has its settings and presets; a preset holds only differences."""

from collections.abc import Callable
from typing import Any, NamedTuple

from chary.algos import bc, cql, crr, fbrc, iql, msg_config
from chary.algos.msg import make_msg
from chary.errors import unknown_name
from chary.types import Algorithm


class Entry(NamedTuple):
    """An algorithm, its config class, and presets over the config and the run's settings."""

    config: type
    make: Callable[[Any, int, int], Algorithm[Any]]
    presets: dict[str, dict[str, Any]]
    summary: str


ALGORITHMS = {
    "msg": Entry(
        msg_config.MSGConfig, make_msg, msg_config.PRESETS, "ensemble lower confidence bound"
    ),
    "bc": Entry(bc.BCConfig, bc.make_bc, bc.PRESETS, "behavioural cloning"),
    "iql": Entry(iql.IQLConfig, iql.make_iql, iql.PRESETS, "the best actions in the data"),
    "cql": Entry(cql.CQLConfig, cql.make_cql, cql.PRESETS, "low values outside the data"),
    "crr": Entry(
        crr.CRRConfig, crr.make_crr, crr.PRESETS, "cloning of what the critics hold for good"
    ),
    "fbrc": Entry(
        fbrc.FBRCConfig, fbrc.make_fbrc, fbrc.PRESETS, "values that follow the behaviour's density"
    ),
}


def entry(name: str) -> Entry:
    """The algorithm of that name."""
    if name not in ALGORITHMS:
        raise unknown_name("algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]
