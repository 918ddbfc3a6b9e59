"""Algorithms by name. Each one's file has its settings and presets; a preset holds only differences."""

from collections.abc import Callable
from typing import Any, NamedTuple

from chary.algos import (
    bc,
    cql,
    crr,
    edac,
    fbrc,
    fql,
    iql,
    msg_config,
    rebrac,
    rem,
    td3_bc,
)
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
    "sac-n": Entry(
        edac.SACNConfig, edac.make_sac_n, edac.SAC_N_PRESETS, "the smallest of many critics"
    ),
    "edac": Entry(
        edac.EDACConfig, edac.make_edac, edac.EDAC_PRESETS, "the smallest of diversified critics"
    ),
    "rem": Entry(rem.REMConfig, rem.make_rem, rem.PRESETS, "random mixtures of critics"),
    "td3-bc": Entry(
        td3_bc.TD3BCConfig, td3_bc.make_td3_bc, td3_bc.PRESETS, "TD3 that stays close to the data"
    ),
    "rebrac": Entry(
        rebrac.ReBRACConfig,
        rebrac.make_rebrac,
        rebrac.PRESETS,
        "TD3 whose policy and critics stay close to the data",
    ),
    "fql": Entry(fql.FQLConfig, fql.make_fql, fql.PRESETS, "one step that does better than a flow"),
}


def entry(name: str) -> Entry:
    """The algorithm of that name."""
    if name not in ALGORITHMS:
        raise unknown_name("algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]
