"""A sweep: a folder with a plan of runs (`sweep.json`) and an ordinary run folder for each of them.

The folder is the truth. A worker takes a cell, trains or resumes it to the same bits, and leaves. What
starts workers (`local`, a cluster, a scheduler) keeps nothing that could be lost with it.
"""

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from chary import config as settings
from chary.data.tasks import find_task
from chary.errors import CharyError
from chary.execution.config import Execution
from chary.host.files import read_json, write_whole
from chary.host.importing import require_trusted, trust
from chary.host.machine import command_line
from chary.host.parts import locked
from chary.runs.claims import claimed
from chary.runs.folder import RunFolder
from chary.training import records
from chary.training.loop import is_over
from chary.training.population import split_evenly
from chary.training.run_config import RunConfig, RunSpec
from chary.training.start import start_all

PLAN = "sweep.json"
State: TypeAlias = Literal["waiting", "begun", "complete", "diverged"]


class Cell(NamedTuple):
    """One run of a sweep."""

    number: int
    """Its place in the plan, by which schedulers call it."""
    spec: RunSpec
    command: str
    """That asked for it."""

    @property
    def folder(self) -> Path:
        return self.spec.folder

    @property
    def state(self) -> State:
        """What its folder says: complete is trained and, where it is evaluated, evaluated at the end."""
        if not RunFolder.exists(self.folder):
            return "waiting"
        folder = RunFolder.open(self.folder)
        if folder.diverged():
            return "diverged"
        steps, last, run = folder.checkpoint_steps(), folder.last(), self.spec.run
        if not steps or not is_over(steps[-1], folder, run):
            return "begun"
        simulated = run.env or find_task(folder.config["dataset"]["name"])
        evaluated = last is not None and last["step"] == steps[-1]
        return "complete" if evaluated or not (simulated and run.final_episodes) else "begun"

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to train."""
        return self.state in ("complete", "diverged")

    @property
    def step(self) -> int:
        """How far its log has got."""
        if not RunFolder.exists(self.folder):
            return 0
        line = RunFolder.open(self.folder).log("timing").last_line()
        return line["step"] if line else 0


Group: TypeAlias = tuple[Cell, ...]
"""Cells that one worker trains."""


@dataclass(frozen=True)
class Sweep:
    """A plan of runs."""

    folder: Path
    cells: tuple[Cell, ...]

    def cell(self, number: int) -> Cell:
        """The cell of that number."""
        if not 0 <= number < len(self.cells):
            raise CharyError(
                f"{self.folder}: has no cell {number}; they are numbered 0 to {len(self.cells) - 1}."
            )
        return self.cells[number]

    def named(self, specs: Sequence[RunSpec]) -> list[Cell]:
        """The cells of these runs."""
        by_folder = {cell.folder.name: cell for cell in self.cells}
        return [by_folder[spec.folder.name] for spec in specs]


def create(folder: Path, specs: Sequence[RunSpec]) -> Sweep:
    """Write down a plan of runs, each in a folder below this one, or add to the one that is there.

    A run of another name is added; one of the same name must be the same run.
    """
    if RunFolder.exists(folder):
        raise CharyError(f"{folder}: is a run itself; choose another --out for a sweep.")
    trust(name for spec in specs for name in spec.own_code)
    with locked(folder, work="sweep"):
        plan = _read(folder) if (folder / PLAN).exists() else {}
        for spec in specs:
            record = _record(spec)
            before = plan.setdefault(spec.folder.name, {**record, "command": command_line()})
            differing = _differences(before, record)
            if differing:
                raise CharyError(
                    f"{folder}: holds a sweep in which {spec.folder.name} is another run "
                    f"({'; '.join(differing)}). Choose another --out."
                )
        write_whole(folder / PLAN, json.dumps({"cells": plan}, indent=1) + "\n")
    return read(folder)


def read(folder: Path) -> Sweep:
    """The sweep in a folder."""
    if not (folder / PLAN).exists():
        raise CharyError(
            f"{folder}: no sweep here (no {PLAN}). `chary sweep msg --dataset NAME --grid ... --out "
            f"{folder}` makes one."
        )
    cells: list[Cell] = []
    for name, record in _read(folder).items():
        try:
            config = settings.from_json(
                records.entry_of(record["algorithm"], folder).config, record["settings"]
            )
            run = settings.from_json(RunConfig, record["run"])
            execution = settings.from_json(Execution, record["execution"])
            run = replace(run, run=folder / name)  # the sweep may have been moved
            spec = RunSpec(record["algorithm"], config, run, execution, record["preset"])
            cells.append(Cell(len(cells), spec, str(record["command"])))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise CharyError(f"{folder / PLAN}: damaged at {name} ({error}).") from error
    return Sweep(folder, tuple(cells))


def shared(cells: Sequence[Cell], *, together: bool, at_once: int | None) -> list[Group]:
    """Cells in the groups that one worker trains: each alone, or `together` those that may have the same
    program. Runs that have begun in a group stay in it."""
    kinds: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        kinds.setdefault(_kind(cell, together=together), []).append(cell)
    groups: list[Group] = []
    for (word, *_), alike in kinds.items():
        parts = (at_once or 1) if word == "together" else 1
        groups += [tuple(part) for part in split_evenly(alike, ceil(len(alike) / parts))]
    return groups


def _kind(cell: Cell, *, together: bool) -> tuple[Any, ...]:
    """What cells of one group have in common."""
    spec = cell.spec
    if RunFolder.exists(cell.folder):
        population = RunFolder.open(cell.folder).population()
        return "begun", *(population[0] if population else [cell.folder.name])
    if not together or spec.run.validation:  # which holds out other episodes in every seed
        return "alone", cell.number
    record = _record(spec._replace(run=replace(spec.run, seed=0)))
    for name, value in record["settings"].items():
        record["settings"][name] = 0.0 if isinstance(value, float) else value
    return "together", json.dumps(record)


def train(cells: Sequence[Cell], *, patience: float = 0.0) -> None:
    """Train cells to their end, or resume them; their folders' locks keep them to one process.

    A predecessor that is just ending is waited for, so many seconds.
    """
    for cell in cells:
        with claimed(cell.folder, patience=patience):
            pass
    require_known_code(cells)
    sys.argv = shlex.split(cells[0].command)  # what the runs record as their command
    start_all([cell.spec for cell in cells], resume=True)


def require_known_code(cells: Sequence[Cell]) -> None:
    """Refuse a plan that names code which its user has never named."""
    for cell in cells:
        require_trusted(cell.spec.own_code, cell.folder.parent)


def _read(folder: Path) -> dict[str, dict[str, Any]]:
    """The records of the plan, by the names of their folders."""
    path = folder / PLAN
    try:
        cells = read_json(path)["cells"]
        if not isinstance(cells, dict) or not all(
            isinstance(cell, dict) for cell in cells.values()
        ):
            raise ValueError("no plan of cells")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CharyError(f"{path}: cannot be read ({error}).") from error
    if any(Path(name).name != name for name in cells):
        raise CharyError(f"{path}: names a folder that is not inside {folder}.")
    return cells


def _record(spec: RunSpec) -> dict[str, Any]:
    run = settings.to_json(replace(spec.run, run=None))
    return {
        "algorithm": spec.algorithm,
        "preset": spec.preset,
        "settings": settings.to_json(spec.config),
        "run": run,
        "execution": settings.to_json(spec.execution),
    }


def _differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Settings in which two records of a run differ."""
    if before.get("algorithm") != now["algorithm"]:
        return [f"algorithm is {before.get('algorithm')} there, not {now['algorithm']}"]
    return [
        f"{key} is {before.get(part, {}).get(key)} there, not {value}"
        for part in ("settings", "run", "execution")
        for key, value in now[part].items()
        if before.get(part, {}).get(key) != value
    ]
