"""What a study compares: its cells, each a few changes to the same settings."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from chary import algos
from chary.config import refuse_repeats, require
from chary.ensembles import ENSEMBLES, check_name
from chary.errors import unknown_name
from chary.networks.targets import TARGETS
from chary.training.resolve import configure
from chary.training.run_config import RunConfig

LEARNED_FROM = ("reward_scale", "reward_shift", "return_range", "normalise_observations")
"""Settings of a run that say what an algorithm sees of the data: each has its own way with it."""


@dataclass(frozen=True)
class Cell:
    """One variant."""

    name: str
    changes: dict[str, Any]
    """Settings of the algorithm in which it differs from the other cells."""
    algorithm: str = "msg"
    run_changes: dict[str, Any] = field(default_factory=dict)
    """Settings of the run in which it differs."""
    preset: str | None = None
    """The preset that its settings are of, where that is not the study's."""

    def folder(self, seed: int) -> str:
        """The name of its run folder for a seed."""
        return f"{re.sub(r'[/:]', '-', self.name)}-seed{seed}"


def target_cells(kinds: Sequence[str]) -> list[Cell]:
    """Rules for the TD targets; all of them where none are named."""
    for kind in kinds:
        if kind not in TARGETS:
            raise unknown_name("kind of targets", kind, TARGETS)
    return [Cell(kind, {"targets": kind}) for kind in kinds or TARGETS]


def ensemble_cells(kinds: Sequence[str]) -> list[Cell]:
    """Kinds of ensembles; all of them where none are named."""
    return [Cell(kind, {"ensemble": kind}) for kind in known_ensembles(kinds)]


def said_in(run: RunConfig) -> dict[str, Any]:
    """What a preset says of `LEARNED_FROM`; the data decides what is None or auto."""
    return {
        key: value for key in LEARNED_FROM if (value := getattr(run, key)) not in (None, "auto")
    }


def known_ensembles(kinds: Sequence[str]) -> list[str]:
    """The kinds asked for, or all there are; one's own are written module:Name."""
    for kind in kinds:
        check_name(kind)
    return list(kinds or ENSEMBLES)


def size_cells(sizes: Sequence[int], betas: Sequence[float], alphas: Sequence[float]) -> list[Cell]:
    """Ensemble sizes for each pair of beta and alpha.

    A single Q-function has no spread, so beta does not matter to it: one cell for each alpha, with
    beta = 0 as in the paper.
    """
    for option, values in (("sizes", sizes), ("betas", betas), ("alphas", alphas)):
        require(len(values) > 0, option, "empty", "at least one number")
        refuse_repeats(option, values)
    cells: list[Cell] = []
    for size in sizes:
        for beta in betas if size > 1 else (0.0,):
            for alpha in alphas:
                name = f"n{size}" + (f"-beta{beta:g}" if size > 1 else "") + f"-alpha{alpha:g}"
                cells.append(Cell(name, {"members": size, "beta": beta, "alpha": alpha}))
    return cells


def algorithm_cells(names: Sequence[str], preset: str, dataset: str) -> list[Cell]:
    """Algorithms, all of them where none are named, each with its own settings of the preset, or of
    another one where it is named as algorithm:preset."""
    cells: list[Cell] = []
    for name in names or algos.ALGORITHMS:
        algorithm, _, other = name.partition(":")
        config, run = configure(algorithm, other or preset, dataset)
        cells.append(Cell(name, vars(config), algorithm, said_in(run), other or None))
    return cells
