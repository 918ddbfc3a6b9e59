"""Numbers of Ghasemipour et al. 2022 that depend on the dataset: MSG's best settings, search grids.

`--preset paper` takes beta and alpha from `TABLE_1`; a name after `--population` or `--grid`, such as
paper-antmaze, stands for the values of one of the `GRIDS`.
"""

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from chary.errors import CharyError

DECIDING = ("members", "ensemble")
"""Settings of MSG that decide how many members there are, and so which column of the table is taken."""


class Best(NamedTuple):
    """The best settings of a dataset for one ensemble size, and the normalised score they reach."""

    beta: float
    alpha: float
    score: float
    deviation: float
    """What the table has after the score's +-; the paper does not say over what."""


TABLE_1: dict[str, dict[int, Best]] = {
    "maze2d-umaze": {64: Best(-8.0, 0.0, 101.1, 26.3), 4: Best(-4.0, 0.1, 68.8, 20.2)},
    "maze2d-medium": {64: Best(-4.0, 0.1, 57.0, 17.2), 4: Best(-4.0, 0.1, 53.2, 26.8)},
    "maze2d-large": {64: Best(-4.0, 0.1, 159.3, 49.4), 4: Best(-8.0, 0.5, 59.2, 59.1)},
    "antmaze-umaze": {64: Best(-4.0, 0.5, 97.8, 1.2), 4: Best(-4.0, 1.0, 98.6, 1.4)},
    "antmaze-umaze-diverse": {64: Best(-4.0, 1.0, 81.8, 3.0), 4: Best(-4.0, 0.5, 76.6, 7.6)},
    "antmaze-medium-play": {64: Best(-4.0, 0.5, 89.6, 2.2), 4: Best(-4.0, 0.1, 83.0, 7.1)},
    "antmaze-medium-diverse": {64: Best(-4.0, 0.5, 88.6, 2.6), 4: Best(-4.0, 0.5, 83.0, 6.2)},
    "antmaze-large-play": {64: Best(-8.0, 0.0, 72.6, 7.0), 4: Best(-4.0, 0.5, 46.8, 14.7)},
    "antmaze-large-diverse": {64: Best(-8.0, 0.1, 71.4, 12.2), 4: Best(-8.0, 0.1, 58.2, 9.6)},
}
"""Table 1 by dataset without its version (maze2d-v1, antmaze-v0), then by the number of members."""
MOST_FOR_FOUR = 16
"""Most members for which the column N = 4 is taken: below sqrt(4 * 64), 4 is nearer than 64 on a
logarithmic scale."""


class Choice(NamedTuple):
    """What the table says for a dataset and a number of members."""

    column: int
    beta: float
    alpha: float


def row_of(algorithm: str, dataset: str) -> str | None:
    """The row of Table 1 that a dataset of any version has; none for other algorithms than MSG."""
    row = without_version(dataset)
    return row if algorithm == "msg" and row in TABLE_1 else None


def without_version(dataset: str) -> str:
    """The name that all versions of a dataset have."""
    return re.sub(r"-v[012]$", "", dataset)


def choose(row: str, members: int) -> Choice:
    """Beta and alpha of a row, from the column whose N is nearest on a logarithmic scale.

    A single Q-function has no standard deviation for beta to weigh: the paper sets its beta to 0.
    """
    column = 4 if members <= MOST_FOR_FOUR else 64
    best = TABLE_1[row][column]
    return Choice(column, best.beta if members > 1 else 0.0, best.alpha)


def describe(row: str, members: int, settings: Mapping[str, float]) -> str:
    """Which of a run's settings are the table's, which column that is and why; empty if none are."""
    choice = choose(row, members)
    table = {"beta": choice.beta, "alpha": choice.alpha}
    alone = {"beta": 0.0} if members == 1 else {}  # which is the paper's, but not the table's
    taken = [k for k in settings if k not in alone and settings[k] == table[k]]
    given = [k for k in settings if settings[k] != table[k]]
    if not taken:
        return ""
    why = f", the nearest to {members} on a logarithmic scale" if members != choice.column else ""
    parts = [
        f"{_listed(taken, settings)} as in the paper's Table 1 "
        f"(row {row}, column N = {choice.column}{why})"
    ]
    if alone and "beta" in settings and "beta" not in given:
        parts.append("beta 0, the paper's for a single Q-function")
    if given:
        parts.append(f"{_listed(given, settings)} instead of {_listed(given, table)}")
    return "; ".join(parts)


def _listed(names: Sequence[str], settings: Mapping[str, float]) -> str:
    return " and ".join(f"{name} {settings[name]:g}" for name in names)


@dataclass(frozen=True)
class Grid:
    """Values that the paper searches over, every combination of them."""

    values: dict[str, tuple[float, ...]]
    source: str
    remark: str = ""
    seeds: int = 2
    """Runs of each combination in the paper."""

    @property
    def cells(self) -> int:
        """Number of combinations."""
        return prod(map(len, self.values.values()))


_CQL = (0.0, 0.45, 0.9, 1.36, 1.81, 2.27, 2.32, 3.18, 3.63, 4.09, 4.55, 5.0)
_MISPRINT = "The values are evenly spaced except 2.32, which is likely a misprint for about 2.73."
_TENTHS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1)
GRIDS: dict[str, dict[str, Grid]] = {
    "msg": {
        "paper-gym": Grid(
            {"beta": (-4.0, -8.0), "alpha": (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)}, "Appendix A.1"
        ),
        "paper-antmaze": Grid(
            {"beta": (-4.0, -8.0), "alpha": (0.0, 0.1, 0.5, 1.0)},
            "Appendix B.1",
            "No grid is given for maze2d; all of its best settings in Table 1 are in this one.",
            seeds=5,  # of deep ensembles and of a single Q-function; all else has 2
        ),
        "paper-rlu": Grid(
            {"beta": (-1.0, -2.0, -4.0, -8.0), "alpha": (0.0, 0.5)},
            "Appendix C.1",
            "Two seeds for each; the best is trained again with five new seeds.",
        ),
    },
    # The names of the presets with the MSG paper's settings for these two: `paper-*` are their authors'.
    "cql": {
        "msg-paper-gym": Grid({"alpha": _CQL}, "Appendix A.1", _MISPRINT),
        "msg-paper-antmaze": Grid(
            {"alpha": _CQL},
            "Appendix B.1",
            "The paper says 8 choices for every method but lists these 12. " + _MISPRINT,
        ),
    },
    "fbrc": {
        "msg-paper-gym": Grid({"fisher_weight": _TENTHS}, "Appendix A.1"),
        "msg-paper-antmaze": Grid(
            {"fisher_weight": (0.0, 0.14, 0.29, 0.43, 0.57, 0.71, 0.86, 1.0)}, "Appendix B.1"
        ),
    },
}
"""The paper's sweeps by algorithm and name, each with where the paper gives it."""


def grid_values(
    algorithm: str, name: str, members: int | None, *, option: str = "--population"
) -> dict[str, tuple[float, ...]]:
    """The settings and values that a grid's name stands for.

    A single Q-function has no standard deviation for beta to weigh: the paper's beta is then 0, and
    only alpha is searched.
    """
    grids = GRIDS.get(algorithm, {})
    if name not in grids:
        raise _no_grid(algorithm, name, grids, option)
    values = dict(grids[name].values)
    return values | {"beta": (0.0,)} if members == 1 and "beta" in values else values


def _no_grid(algorithm: str, name: str, grids: Collection[str], option: str) -> CharyError:
    owners = [other for other, theirs in GRIDS.items() if name in theirs]
    whose = f" (a grid of {' and '.join(owners)}, not of {algorithm})" if owners else ""
    ours = f", or the name of a grid of the paper for {algorithm}: {', '.join(grids)}"
    close = difflib.get_close_matches(name, list(grids), n=1)
    return CharyError(
        f"{option} has '{name}'{whose}, but must be settings with their values, such as "
        f"alpha=0,0.1,0.5{ours if grids else ''}." + (f" Did you mean {close[0]}?" if close else "")
    )
