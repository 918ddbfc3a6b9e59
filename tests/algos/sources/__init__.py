"""What the papers and their authors' code set, written down by hand from them, with the place of each.

One entry for the defaults of an algorithm, and one for each preset, which has all that the preset sets.
The `small` presets are chary's own, for two cores.
"""

from tests.algos.sources import ensembles, pairs
from tests.algos.sources.base import Source

SOURCES: dict[str, dict[str, Source]] = {
    "msg": ensembles.MSG,
    "bc": pairs.BC,
    "iql": pairs.IQL,
    "cql": pairs.CQL,
    "crr": pairs.CRR,
    "fbrc": pairs.FBRC,
    "sac-n": ensembles.SAC_N,
    "edac": ensembles.EDAC,
    "rem": ensembles.REM,
    "td3-bc": pairs.TD3_BC,
    "rebrac": pairs.REBRAC,
    "fql": pairs.FQL,
}
