"""Algorithms by name. Each one's file has its settings and presets; a preset holds only differences."""

from collections.abc import Callable
from typing import Any, NamedTuple

from chary.algorithms import check_algorithm
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
    td3_bc,
)
from chary.algos.msg import make_msg
from chary.types import Algorithm


class Entry(NamedTuple):
    """An algorithm: its config class, and presets over the config and the run's settings."""

    config: type
    make: Callable[[Any, int, int], Algorithm[Any]]
    presets: dict[str, dict[str, Any]]


ALGORITHMS = {
    "msg": Entry(msg_config.MSGConfig, make_msg, msg_presets.PRESETS),
    "bc": Entry(bc.BCConfig, bc.make_bc, bc.PRESETS),
    "iql": Entry(iql.IQLConfig, iql.make_iql, iql.PRESETS),
    "cql": Entry(cql.CQLConfig, cql.make_cql, cql.PRESETS),
    "crr": Entry(crr.CRRConfig, crr.make_crr, crr.PRESETS),
    "fbrc": Entry(fbrc.FBRCConfig, fbrc.make_fbrc, fbrc.PRESETS),
    "sac-n": Entry(edac.SACNConfig, edac.make_sac_n, edac.SAC_N_PRESETS),
    "edac": Entry(edac.EDACConfig, edac.make_edac, edac.EDAC_PRESETS),
    "rem": Entry(rem.REMConfig, rem.make_rem, rem.PRESETS),
    "td3-bc": Entry(td3_bc.TD3BCConfig, td3_bc.make_td3_bc, td3_bc.PRESETS),
    "rebrac": Entry(rebrac.ReBRACConfig, rebrac.make_rebrac, rebrac.PRESETS),
    "fql": Entry(fql.FQLConfig, fql.make_fql, fql.PRESETS),
}
"""In the order of `chary.algorithms.SUMMARIES`, which says what each is."""


def entry(name: str) -> Entry:
    """The algorithm of that name."""
    check_algorithm(name)
    return ALGORITHMS[name]
