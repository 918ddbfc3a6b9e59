"""The run folder: the only code that knows its layout.

    config.json     everything needed to repeat the run
    data.json       the data it learns from, in a few numbers, and what the doctor says of it
    metrics.jsonl   one line a logging boundary; no clock times in it
    timing.jsonl    speed and clock times, the only log that may differ between equal runs
    evals.jsonl     one line an evaluation, with every episode's return and length, and how it acted
    episodes.jsonl  one line an episode that was acted for learning, in runs that learn in their task
    online/         <step>.npz, what happened in these episodes up to that step
    start.npz       random actions that such a run began with, where it had no data
    diagnostics/    <step>.npz, what the critics thought at each evaluation
    checkpoints/    <step>/, the newest few and the best
    limits.npz      where the data ends: logged states, and the doubt on rows put aside
    strip.png       an episode in pictures, where somebody had it drawn
    diverged.json   only where training diverged: at which step, and why
    tensorboard/    event files, where that tracker was asked for
    aside/          <n>/, what a resumed run could not read, or all there was before it began again

Lines are appended whole. Resuming cuts every log back to the step of the checkpoint it starts from.
"""

import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from chary.errors import CharyError, reason
from chary.host.files import jsonable, read_json, write_whole
from chary.runs import checkpoints
from chary.runs.arrays import UNREADABLE, read_arrays, save_arrays
from chary.runs.logs import Log
from chary.runs.schema import (
    Record,
    is_divergence,
    is_text,
    population_of,
)

LOGS = ("metrics", "timing", "evals", "episodes")
NAMES = {
    "config.json",
    "data.json",
    *(f"{log}.jsonl" for log in LOGS),
    "diagnostics",
    "online",
    "checkpoints",
    "diverged.json",
    "limits.npz",
    "start.npz",
    "strip.png",
    "tensorboard",
    "aside",
}
"""What a run folder may hold; names that begin with a dot are passed over."""
LIMITS = "limits.npz"
SELECTED = "select.json"
"""What `chary select` leaves beside runs."""
NEWEST_KEPT = 2


class RunFolder:
    """A run on disk."""

    def __init__(self, path: Path, config: Record):
        self.path = path
        self.config = config
        self._logs: dict[str, Log] = {}

    @classmethod
    def exists(cls, path: Path) -> bool:
        return (path / "config.json").is_file()

    @classmethod
    def create(cls, path: Path, config: Record) -> "RunFolder":
        """A new run in a folder that has been claimed."""
        folder = cls(path, config)
        folder.write_config({"saved": False, **config})
        return folder

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """A run that is already there."""
        if not cls.exists(path):
            raise CharyError(
                f"{path}: no run here (no config.json). `chary runs` lists what there is."
            )
        try:
            config = read_json(path / "config.json")
            if not isinstance(config, dict) or not is_text(config.get("algorithm")):
                raise ValueError("not a run's config")
        except (OSError, ValueError) as error:
            raise CharyError(f"{path}/config.json: cannot be read ({reason(error)}).") from error
        return cls(path, config)

    def population(self) -> tuple[list[str], int] | None:
        """The names of the runs that this one is trained with, and its place; None if it is alone."""
        try:
            return population_of(self.config)
        except ValueError as error:
            raise CharyError(f"{self.path}/config.json: damaged ({error}).") from error

    def write_config(self, config: Record) -> None:
        self.config = config
        write_whole(self.path / "config.json", json.dumps(config, indent=2) + "\n")

    def log(self, name: str) -> Log:
        """One of the folder's logs, which remembers what was read of it."""
        return self._logs.setdefault(name, Log(self.path / f"{name}.jsonl", name))

    def append(self, log: str, record: Record) -> None:
        """Add one line to a log, in a single write."""
        self.log(log).append(record)

    def read(self, log: str) -> list[Record]:
        """All valid lines of a log; one torn by a crash is skipped."""
        return self.log(log).read_and_count()[0]

    def write_data(self, summary: Record) -> None:
        """Keep what a reader of the run will want to know of its data."""
        write_whole(self.path / "data.json", json.dumps(jsonable(summary)) + "\n")

    @property
    def has_data(self) -> bool:
        return (self.path / "data.json").is_file()

    def data(self) -> Record:
        """What is known of the run's data; nothing in folders from before it was kept."""
        record = read_json(self.path / "data.json") if self.has_data else {}
        if not isinstance(record, dict):
            raise ValueError("no summary of data")
        return record

    def foreign(self) -> list[str]:
        """Names in the folder, among the diagnostics or the rows, that are not of a run."""
        own = sorted(entry.name for entry in self.path.iterdir() if entry.name not in NAMES)
        odd = [
            f"{below}/{f.name}"
            for below in ("diagnostics", "online")
            for f in sorted((self.path / below).glob("*"))
            if f.suffix != ".npz" or not checkpoints.is_step(f.stem)
        ]
        return [name for name in [*own, *odd] if not Path(name).name.startswith(".")]

    def cut_back(self, step: int) -> None:
        """Forget everything after a step: log lines, diagnostics, and checkpoints, which are damaged.

        A resumed run makes them again. What cannot be read, it cannot: such lines are kept aside.
        """
        sound = {s for s in self.checkpoint_steps() if s <= step}
        checkpoints.prune(self.checkpoint_folder, sound)
        if not self.diverged(step):
            (self.path / "diverged.json").unlink(missing_ok=True)
        aside = self._aside()
        for name in LOGS:
            self.log(name).cut_back(step, aside)
        self._logs.clear()
        for path in (*self.diagnostics(), *self.row_files()):
            if int(path.stem) > step:
                path.unlink()

    @property
    def saved(self) -> bool:
        """Whether the run has ever had a checkpoint; older folders do not say, but most have."""
        return self.config.get("saved") is not False

    @property
    def begun(self) -> bool:
        """Whether there is something of the run to lose."""
        return bool(self.checkpoint_steps()) or (self.saved and self.has_lines())

    def has_lines(self) -> bool:
        """Whether anything was logged or looked at."""
        logs = [self.path / f"{log}.jsonl" for log in LOGS]
        return any(p.exists() and p.stat().st_size for p in logs) or bool(self.diagnostics())

    def unseen_checkpoints(self) -> str:
        """Why a run that has saved shows no checkpoint, as far as the disk tells."""
        path = self.checkpoint_folder
        if path.is_symlink() and not path.exists():
            return f"checkpoints is a link to {os.readlink(path)}, which is not there"
        if not path.exists():
            return "its folder checkpoints is not there"
        return "checkpoints is empty" if path.is_dir() else "checkpoints is not a folder"

    def put_aside(self) -> Path | None:
        """Move all that a run has made into a folder of its own; None where there is nothing."""
        folders = ["diagnostics", "online", "checkpoints"]
        made = [*(f"{log}.jsonl" for log in LOGS), *folders, "diverged.json"]
        there = [name for name in made if os.path.lexists(self.path / name)]
        if not there:
            return None
        aside = self._aside()
        aside.mkdir(parents=True)
        for name in there:
            os.replace(self.path / name, aside / name)
        return aside

    def _aside(self) -> Path:
        """A new place, not made yet, for what is kept but no longer of the run."""
        above = self.path / "aside"
        taken = [int(p.name) for p in above.glob("*") if checkpoints.is_step(p.name)]
        return above / str(max(taken, default=0) + 1)

    def mark_diverged(self, step: int, reason: str) -> None:
        """Record that training has diverged."""
        write_whole(
            self.path / "diverged.json", json.dumps({"step": step, "reason": reason}) + "\n"
        )

    def diverged(self, by: int | None = None) -> bool:
        """Whether training has become meaningless, or had by a step; a damaged file is ignored, with a
        warning."""
        try:
            record = self._divergence()
        except (OSError, ValueError) as error:
            path = self.path / "diverged.json"
            warnings.warn(f"{path}: cannot be read ({reason(error)}); ignored.", stacklevel=2)
            return False
        return record is not None and (by is None or record["step"] <= by)

    def divergence(self) -> str | None:
        """Why training diverged; None where it did not. A damaged file raises ValueError or OSError."""
        record = self._divergence()
        return None if record is None else record["reason"]

    def _divergence(self) -> Record | None:
        try:
            record = read_json(self.path / "diverged.json")
        except FileNotFoundError:
            return None
        if not is_divergence(record):
            raise ValueError("not from a run")
        return record

    def save_diagnostics(self, step: int, arrays: dict[str, np.ndarray]) -> None:
        save_arrays(self.path / "diagnostics" / f"{step}.npz", arrays)

    def diagnostics(self) -> list[Path]:
        """Files of diagnostics, oldest first."""
        return self._numbered("diagnostics")

    def _numbered(self, below: str) -> list[Path]:
        """Files of arrays by the step that they are of, oldest first."""
        files = (self.path / below).glob("*.npz")
        return sorted((f for f in files if checkpoints.is_step(f.stem)), key=lambda f: int(f.stem))

    def save_rows(self, step: int, arrays: dict[str, np.ndarray]) -> None:
        """Keep what happened in the task since the rows that were kept last."""
        save_arrays(self.path / "online" / f"{step}.npz", arrays)

    def row_files(self) -> list[Path]:
        """Files of what happened in the task, oldest first."""
        return self._numbered("online")

    def rows(self, step: int | None = None) -> Iterator[dict[str, np.ndarray]]:
        """What happened in the task, up to a step or in all, file by file."""
        for path in self.row_files():
            if step is None or int(path.stem) <= step:
                try:
                    yield read_arrays(path)
                except UNREADABLE as error:
                    raise CharyError(f"{path}: damaged ({reason(error)}). Restore it.") from error

    def save_limits(self, arrays: dict[str, np.ndarray]) -> None:
        """Keep where the data ends, as the run sees it."""
        save_arrays(self.path / LIMITS, arrays)

    def limits(self) -> dict[str, np.ndarray] | None:
        """Where the data ends; None where it was not recorded. A damaged file raises ValueError."""
        try:
            return read_arrays(self.path / LIMITS)
        except FileNotFoundError:
            return None
        except UNREADABLE as error:
            raise ValueError(reason(error)) from error

    @property
    def checkpoint_folder(self) -> Path:
        return self.path / "checkpoints"

    def checkpoint_steps(self) -> list[int]:
        return checkpoints.steps(self.checkpoint_folder)

    def save_checkpoint(self, step: int, state: Any) -> None:
        """Save, then drop all but the newest few and the best."""
        checkpoints.save(self.checkpoint_folder, step, state)
        if not self.saved:  # from now on, logs without a checkpoint mean that checkpoints are lost
            self.write_config({**self.config, "saved": True})
        newest = self.checkpoint_steps()[-NEWEST_KEPT:]
        best = self.best()
        checkpoints.prune(self.checkpoint_folder, {*newest, *([best["step"]] if best else [])})

    def best(self) -> Record | None:
        """The evaluation with the best score (or validation, where there is no simulator).

        Of equals the later.
        """
        return self.log("evals").seen().best or self.log("metrics").seen().best

    def last(self) -> Record | None:
        """The newest evaluation."""
        return self.log("evals").seen().last

    def validations(self) -> list[float]:
        """The held-out score of every log line that has one."""
        return self.log("metrics").seen().scores

    def looked_at(self, step: int, *, simulated: bool) -> bool:
        """Whether a step was evaluated, or without a simulator the critics were asked there."""
        if simulated:
            return step in self.log("evals").seen().steps
        return (self.path / "diagnostics" / f"{step}.npz").exists()


def find_runs(folder: Path) -> list[Path]:
    """The run in a folder, or all runs below it; other programs' files of that name are among them."""
    if RunFolder.exists(folder):
        return [folder]
    found: list[Path] = []
    for here, below, files in os.walk(folder):
        if "config.json" in files:
            found.append(Path(here))
            below.clear()  # runs have no runs in them, but thousands of files of checkpoints
    return sorted(found)
