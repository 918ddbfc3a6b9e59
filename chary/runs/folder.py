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
    diverged.json   only where training diverged: at which step, and why
    tensorboard/    event files, where they were asked for

Lines are appended whole. Resuming cuts every log back to the step of the checkpoint it starts from.
"""

import json
import math
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from chary.errors import CharyError
from chary.host.files import jsonable, whole, write_whole
from chary.runs import checkpoints
from chary.runs.schema import Record, is_valid

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
    "tensorboard",
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

    @classmethod
    def exists(cls, path: Path) -> bool:
        return (path / "config.json").is_file()

    @classmethod
    def create(cls, path: Path, config: Record) -> "RunFolder":
        """A new run in a folder that has been claimed."""
        folder = cls(path, config)
        folder.write_config(config)
        return folder

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """A run that is already there."""
        if not cls.exists(path):
            raise CharyError(
                f"{path}: no run here (no config.json). `chary runs` lists what there is."
            )
        try:
            config = json.loads((path / "config.json").read_text())
            if not isinstance(config, dict) or "algorithm" not in config:
                raise ValueError("not a run's config")
        except (OSError, ValueError) as error:
            raise CharyError(f"{path}/config.json: cannot be read ({error}).") from error
        return cls(path, config)

    def write_config(self, config: Record) -> None:
        self.config = config
        write_whole(self.path / "config.json", json.dumps(config, indent=2) + "\n")

    def append(self, log: str, record: Record) -> None:
        """Add one line to a log, in a single write."""
        line = json.dumps(jsonable(record)) + "\n"
        try:
            with open(self.path / f"{log}.jsonl", "ab", buffering=0) as file:
                start = file.seek(0, os.SEEK_END)
                if file.write(line.encode()) != len(line.encode()):
                    file.truncate(start)
                    raise OSError("the disk is full")
        except OSError as error:
            raise CharyError(
                f"{self.path}/{log}.jsonl: cannot be written ({error.strerror or error}). Make room, "
                f"then `chary resume {self.path}`."
            ) from error

    def read(self, log: str) -> list[Record]:
        """All valid lines of a log; one torn by a crash is skipped."""
        return self.read_and_count(log)[0]

    def read_and_count(self, log: str) -> tuple[list[Record], int]:
        """All valid lines of a log, and how many others were skipped."""
        path = self.path / f"{log}.jsonl"
        records: list[Record] = []
        torn = 0
        if path.is_file():
            for line in path.read_text(errors="replace").splitlines():
                try:
                    record = json.loads(line)
                except ValueError:
                    record = None
                if isinstance(record, dict) and is_valid(log, record):
                    records.append(record)
                else:
                    torn += 1
        return records, torn

    def write_data(self, summary: Record) -> None:
        """Keep what a reader of the run will want to know of its data."""
        write_whole(self.path / "data.json", json.dumps(jsonable(summary)) + "\n")

    @property
    def has_data(self) -> bool:
        return (self.path / "data.json").is_file()

    def data(self) -> Record:
        """What is known of the run's data; nothing in folders from before it was kept."""
        record = json.loads((self.path / "data.json").read_text()) if self.has_data else {}
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
            if f.suffix != ".npz" or not f.stem.isdecimal()
        ]
        return [name for name in [*own, *odd] if not Path(name).name.startswith(".")]

    def cut_back(self, step: int) -> None:
        """Forget everything after a step: log lines, diagnostics, and checkpoints, which are damaged."""
        sound = {s for s in self.checkpoint_steps() if s <= step}
        checkpoints.prune(self.checkpoint_folder, sound)
        if not self.diverged(step):
            (self.path / "diverged.json").unlink(missing_ok=True)
        for log in LOGS:
            if (self.path / f"{log}.jsonl").exists():
                kept = [record for record in self.read(log) if record["step"] <= step]
                text = "".join(json.dumps(record) + "\n" for record in kept)
                write_whole(self.path / f"{log}.jsonl", text)
        for path in (*self.diagnostics(), *self.row_files()):
            if int(path.stem) > step:
                path.unlink()

    def mark_diverged(self, step: int, reason: str) -> None:
        """Record that training has diverged."""
        write_whole(
            self.path / "diverged.json", json.dumps({"step": step, "reason": reason}) + "\n"
        )

    def diverged(self, by: int | None = None) -> bool:
        """Whether training has become meaningless, or had by a step."""
        record = self._divergence()
        return record is not None and (by is None or record["step"] <= by)

    def divergence(self) -> str | None:
        """Why training diverged; None where it did not."""
        record = self._divergence()
        return None if record is None else str(record["reason"])

    def _divergence(self) -> Record | None:
        try:
            return json.loads((self.path / "diverged.json").read_text())
        except FileNotFoundError:
            return None

    def save_diagnostics(self, step: int, arrays: dict[str, np.ndarray]) -> None:
        _save_arrays(self.path / "diagnostics" / f"{step}.npz", arrays)

    def diagnostics(self) -> list[Path]:
        """Files of diagnostics, oldest first."""
        return self._numbered("diagnostics")

    def _numbered(self, below: str) -> list[Path]:
        """Files of arrays by the step that they are of, oldest first."""
        files = (self.path / below).glob("*.npz")
        return sorted((f for f in files if f.stem.isdecimal()), key=lambda f: int(f.stem))

    def save_rows(self, step: int, arrays: dict[str, np.ndarray]) -> None:
        """Keep what happened in the task since the rows that were kept last."""
        _save_arrays(self.path / "online" / f"{step}.npz", arrays)

    def row_files(self) -> list[Path]:
        """Files of what happened in the task, oldest first."""
        return self._numbered("online")

    def rows(self, step: int | None = None) -> Iterator[dict[str, np.ndarray]]:
        """What happened in the task, up to a step or in all, file by file."""
        for path in self.row_files():
            if step is None or int(path.stem) <= step:
                try:
                    yield _load_arrays(path)
                except ValueError as error:
                    raise CharyError(f"{path}: damaged ({error}). Restore it.") from error

    def save_limits(self, arrays: dict[str, np.ndarray]) -> None:
        """Keep where the data ends, as the run sees it."""
        _save_arrays(self.path / LIMITS, arrays)

    def limits(self) -> dict[str, np.ndarray] | None:
        """Where the data ends; None where it was not recorded. A damaged file raises ValueError."""
        path = self.path / LIMITS
        return _load_arrays(path) if path.exists() else None

    @property
    def checkpoint_folder(self) -> Path:
        return self.path / "checkpoints"

    def checkpoint_steps(self) -> list[int]:
        return checkpoints.steps(self.checkpoint_folder)

    def save_checkpoint(self, step: int, state: Any) -> None:
        """Save, then drop all but the newest few and the best."""
        checkpoints.save(self.checkpoint_folder, step, state)
        newest = self.checkpoint_steps()[-NEWEST_KEPT:]
        best = self.best()
        checkpoints.prune(self.checkpoint_folder, {*newest, *([best["step"]] if best else [])})

    def best(self) -> Record | None:
        """The evaluation with the best score (or validation, where there is no simulator).

        Of equals the later.
        """
        evals = self.read("evals")
        if evals:
            return max(evals, key=lambda e: (headline(e), e["step"]))
        validated = [m for m in self.read("metrics") if m.get("validation") is not None]
        return max(validated, key=lambda m: m["validation"]) if validated else None

    def last(self) -> Record | None:
        """The newest evaluation."""
        evals = self.read("evals")
        return evals[-1] if evals else None


def _save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with whole(path) as temporary:
        np.savez_compressed(temporary, allow_pickle=False, **arrays)


def _load_arrays(path: Path) -> dict[str, np.ndarray]:
    """A file of arrays; ValueError where it is damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(str(error)) from error


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


def seconds_in(timing: Sequence[Record]) -> float:
    """Time that a run took, evaluations on the way included, from its log of speed."""
    seconds, before = 0.0, 0
    for line in timing:
        seconds += (line["step"] - before) / line["steps_per_s"]
        before = line["step"]
    return seconds


def speed_in(timing: Sequence[Record]) -> float | None:
    """Updates a second over a whole run, evaluations on the way included."""
    return timing[-1]["step"] / seconds_in(timing) if timing else None


@contextmanager
def claimed(path: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Hold a run's folder for one process; the lock dies with the process. If another holds it, that is
    waited for, so many seconds.

    The folder is made for it, and removed again if no run was made in it.
    """
    import filelock

    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        if path.exists() and not path.is_dir():
            raise CharyError(f"{path}: is a file; a run needs a folder of its own.")
        path.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(path / ".lock")
        lock.acquire(timeout=patience)
        # A run that was killed as it began has only its lock and a config that was not whole yet.
        own = (".lock", ".config-", ".config.json", ".start", "start.npz")
        foreign = any(not entry.name.startswith(own) for entry in path.iterdir())
        if foreign and not RunFolder.exists(path):
            lock.release()
            (path / ".lock").unlink(missing_ok=True)
            raise CharyError(
                f"{path}: holds other files but no run (no config.json). Choose another --run."
            )
    except filelock.Timeout:
        raise CharyError(
            f"{path}: in use by another process. Wait for it, stop it, or choose another --run."
        ) from None
    except OSError as error:
        raise CharyError(f"{path}: cannot be used: {error.strerror or error}.") from error
    try:
        yield
    finally:
        lock.release()
        if made and not RunFolder.exists(path):
            (path / ".lock").unlink(missing_ok=True)
            for folder in made:
                with suppress(OSError):  # others may have put something there
                    folder.rmdir()


def headline(evaluation: Record) -> float:
    """The number that ranks an evaluation: normalised score, or the plain return."""
    numbers = (evaluation.get("score"), evaluation.get("return"))
    return float(next((number for number in numbers if number is not None), -math.inf))
