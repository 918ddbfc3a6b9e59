"""A run as the report tells it: read from its folder alone, whatever state that is in.

A damaged or foreign file costs only its own content and a line in `warnings`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os.path import commonpath
from pathlib import Path
from typing import Any

import numpy as np

from chary.errors import CharyError
from chary.evaluation.acting import resolve
from chary.runs.arrays import UNREADABLE, read_arrays
from chary.runs.folder import LOGS, RunFolder, find_runs
from chary.runs.logs import headline, seconds_in, speed_in
from chary.runs.schema import SHOWN, Record, is_number, require_shapes, require_summary

Columns = dict[str, np.ndarray]
"""Equally long arrays by name, `step` among them; NaN where a line had no such number."""


@dataclass(frozen=True)
class RunStory:
    """One run, with everything that was kept of it."""

    name: str
    folder: RunFolder
    config: Record
    metrics: Columns
    timing: list[Record]
    evaluations: list[Record]
    episodes: list[Record]
    """Acted for learning, in runs that learn in their task."""
    data: Record
    """What was noted of the data when training began; empty in older folders."""
    diverged: str | None
    """Why training diverged, if it did."""
    warnings: list[str] = field(default_factory=list)
    """Files that could not be used, a sentence each."""

    @property
    def algorithm(self) -> str:
        return str(self.config["algorithm"])[:SHOWN]

    @property
    def dataset(self) -> str:
        return str(self.part("dataset").get("name", "unknown"))[:SHOWN]

    @property
    def fingerprint(self) -> str:
        """Of the data; empty where it is not known."""
        return str(self.part("dataset").get("fingerprint") or "")

    @property
    def is_online(self) -> bool:
        """Whether the run learns in its task: its steps are then those of the environment."""
        return bool(self.part("online"))

    def names(self, kind: str) -> list[str]:
        """Names of the columns of observations or actions; empty where the data has none."""
        names = self.part("columns").get(f"{kind}s")
        return [str(name)[:SHOWN] for name in names] if isinstance(names, list) else []

    @property
    def seed(self) -> int | None:
        return self.part("run").get("seed")

    @property
    def goal(self) -> int:
        """Steps that the run is meant to take."""
        steps = self.part("run").get("steps")
        return int(steps) if is_number(steps) else self.step

    @property
    def step(self) -> int:
        """How far the run has got, by its logs."""
        logged = self.metrics["step"][-1:].tolist() + [e["step"] for e in self.evaluations[-1:]]
        return int(max(logged, default=0))

    @property
    def seconds(self) -> float:
        return seconds_in(self.timing)

    @property
    def speed(self) -> float | None:
        """Updates a second, over the whole run; evaluations on the way count as time."""
        return speed_in(self.timing)

    @property
    def last(self) -> Record | None:
        return self.evaluations[-1] if self.evaluations else None

    @property
    def best(self) -> Record | None:
        """Of equals the later."""
        return max(self.evaluations, key=lambda e: (headline(e), e["step"]), default=None)

    @property
    def measure(self) -> str | None:
        """What ranks the evaluations, if there are any: the normalised score, or the return."""
        if self.last is None:
            return None
        return "return" if self.last.get("score") is None else "score"

    @property
    def act(self) -> str:
        """How the policy acts for the numbers that rank it; older runs do not say, and take the mode."""
        try:
            return resolve(str(self.part("run").get("act", "mode"))).main.name
        except CharyError:
            return "unknown"

    @property
    def smallest_return(self) -> float | None:
        """Of an episode in the data, as far as it is known."""
        found = self.data.get("returns", {}).get("min")
        return float(found) if is_number(found) else None

    def part(self, *names: str) -> Record:
        """A section of config.json, or one within it; empty where it is missing or something else."""
        section: Any = self.config
        for name in names:
            section = section.get(name, {})
            if not isinstance(section, dict):
                self.warn(f"config.json: its {name} is not from a run; skipped.")
                return {}
        return section

    def warn(self, message: str) -> None:
        """Remember what could not be used, once."""
        if message not in self.warnings:
            self.warnings.append(message)

    @cached_property
    def snapshot_steps(self) -> list[int]:
        """Steps of the evaluations at which the critics were asked."""
        return [int(path.stem) for path in self.folder.diagnostics()]

    def snapshots(
        self, names: Sequence[str], *, most: int
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Steps with the arrays of these names that are there, at most so many, evenly spread."""
        paths = self.folder.diagnostics()
        for index in thin(len(paths), most):
            path = paths[index]
            try:
                arrays = read_arrays(path, names)
                require_shapes(arrays)
            except UNREADABLE:
                self.warn(f"diagnostics/{path.name}: damaged or not from a run; skipped.")
                continue
            yield int(path.stem), arrays


def read_runs(paths: Sequence[Path]) -> tuple[list[RunStory], list[str]]:
    """The runs in folders, or below them, and what was found there that is no run."""
    found: dict[Path, Path] = {}
    if not paths:
        raise CharyError(
            "no run folder named. Name run folders, or one that holds them: `runs`, say."
        )
    for path in paths:
        if not path.is_dir():
            raise CharyError(f"{path}: no such folder. Name run folders, or one that holds them.")
        below = find_runs(path)
        if not below:
            raise CharyError(f"{path}: no runs in this folder (no config.json in it or below).")
        found |= {run.resolve(): run for run in below}
    stories: list[RunStory] = []
    problems: list[str] = []
    names = _names(list(found))
    for path in found.values():
        try:
            stories.append(read_run(path, name=names[path.resolve()]))
        except (CharyError, OSError) as error:
            problems.append(f"{str(error).rstrip('.')}; skipped.")
    if not stories:
        raise CharyError(f"{paths[0]}: none of the runs can be read. {problems[0]}")
    return stories, problems


def read_run(path: Path, *, name: str | None = None) -> RunStory:
    """One run; only a config.json that cannot be read is an error."""
    folder = RunFolder.open(path)
    warnings: list[str] = []
    logs: dict[str, list[Record]] = {}
    for log in LOGS:
        try:
            records, torn = folder.log(log).read_and_count()
        except OSError as error:
            records, torn = [], 0
            warnings.append(f"{log}.jsonl: cannot be read ({error.strerror or error}).")
        if torn:
            lines = f"{torn} lines are" if torn > 1 else "a line is"
            warnings.append(f"{log}.jsonl: {lines} damaged or not from a run; skipped.")
        logs[log] = sorted(records, key=lambda record: record["step"])
    if foreign := folder.foreign():
        warnings.append(f"not from a run, skipped: {', '.join(foreign)}.")
    return RunStory(
        name=name or path.resolve().name,
        folder=folder,
        config=folder.config,
        metrics=_columns(logs["metrics"]),
        timing=logs["timing"],
        evaluations=logs["evals"],
        episodes=logs["episodes"],
        data=_data(folder, warnings),
        diverged=_diverged(folder, warnings),
        warnings=warnings,
    )


def thin(count: int, most: int) -> list[int]:
    """At most so many of the numbers below count, evenly spread, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return np.unique(np.linspace(0, count - 1, most).round().astype(int)).tolist()


def _names(paths: Sequence[Path]) -> dict[Path, str]:
    """What tells runs apart: their paths, less what all have in common."""
    if len(paths) == 1:
        return {paths[0]: paths[0].name}
    common = commonpath(paths)
    return {path: str(path.relative_to(common)) for path in paths}


def _columns(records: Sequence[Record]) -> Columns:
    names = dict.fromkeys(
        key for record in records for key, value in record.items() if is_number(value)
    )
    columns: Columns = {"step": np.zeros(0)}
    for key in names:
        values = [record.get(key) for record in records]
        columns[key] = np.array([v if is_number(v) else np.nan for v in values], np.float64)
    return columns


def _data(folder: RunFolder, warnings: list[str]) -> Record:
    try:
        summary = folder.data()
        if folder.has_data:
            require_summary(summary)
    except (OSError, ValueError, KeyError, TypeError):
        warnings.append("data.json: damaged or not from a run; skipped.")
        return {}
    return summary


def _diverged(folder: RunFolder, warnings: list[str]) -> str | None:
    try:
        return folder.divergence()
    except (OSError, ValueError):
        warnings.append("diverged.json: damaged or not from a run; skipped.")
        return None
