"""A sweep on this machine: several cells at once, each in a process on its own share of the cores."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from chary.config import require
from chary.errors import CharyError
from chary.host.machine import cores
from chary.host.terminal import StudyDisplay, duration, say
from chary.training.loop import stop_requests
from chary.tune.sweep import Cell, Sweep

LOOK_SECONDS = 0.2
"""Time between looks at the processes."""
LOG_SECONDS = 2.0
"""Time between looks at how far their logs have got."""
GRACE_SECONDS = 30.0
"""How long a run may take to save itself; it loses only what came after its last checkpoint."""


def run(
    sweep: Sweep,
    cells: Sequence[Cell],
    *,
    at_once: int | None = None,
    describe: Callable[[Cell], str] = lambda cell: f"{cell.folder.name}: {cell.state}",
) -> None:
    """Train what is missing of these cells; what is complete stays as it is.

    Every cell that fails is named at the end, the others continue. Raises KeyboardInterrupt, with every
    run saved, when the user asks to stop.
    """
    require(at_once is None or at_once >= 1, "jobs", at_once, "at least 1")
    waiting = [cell for cell in cells if not cell.finished]
    done = len(cells) - len(waiting)
    free = shares(at_once or cores())
    total = sum(cell.spec.run.steps for cell in cells)
    complete = sum(cell.spec.run.steps for cell in cells if cell not in waiting)
    failures: list[str] = []
    warned: set[str] = set()
    looked = 0.0
    with (
        stop_requests() as stop_asked,
        StudyDisplay(len(cells), done, total, complete + _steps(waiting)) as display,
        _workers(sweep) as workers,
    ):
        while waiting or workers.running:
            if stop_asked():
                say("stopping: every run saves itself (Ctrl-C again: at once)")
                workers.stop()
                raise KeyboardInterrupt("Everything is kept; the same command resumes.")
            while free and waiting:
                workers.begin(waiting.pop(0), free.pop())
            for worker in workers.ended():
                free.append(worker.cores)
                for line in worker.lines("chary: warning: "):
                    if line not in warned:
                        say(f"chary: warning: {line}")
                        warned.add(line)
                if worker.cell.finished:
                    complete += worker.cell.spec.run.steps
                    took = duration(time.monotonic() - worker.began)
                    display.finished(f"{describe(worker.cell)}, {took}")
                else:
                    failures.append(worker.failure())
                    say(f"failed: {failures[-1]}")
            if time.monotonic() - looked > LOG_SECONDS:
                running = [worker.cell for worker in workers.running]
                display.step(complete + _steps([*running, *waiting]))
                looked = time.monotonic()
            time.sleep(LOOK_SECONDS)
    if failures:
        raise CharyError(
            f"{len(failures)} of {len(cells)} runs failed; the others are kept, and the same "
            f"command resumes. {failures[0]}"
        )


def shares(count: int) -> list[list[int]]:
    """The cores of each of so many processes.

    All have as many, whichever runs are left to do: a run is resumed to the same bits only on as many
    cores as it began with.
    """
    known = hasattr(os, "sched_getaffinity")
    mine = sorted(os.sched_getaffinity(0)) if known else list(range(cores()))
    each = max(1, len(mine) // count)
    return [[mine[(i * each + j) % len(mine)] for j in range(each)] for i in range(count)]


def _steps(cells: Sequence[Cell]) -> int:
    return sum(cell.step for cell in cells)


class _Worker(NamedTuple):
    """A cell that is being trained."""

    cell: Cell
    cores: list[int]
    handle: subprocess.Popen[str]
    log: Path
    log_start: int
    began: float

    def lines(self, start: str) -> list[str]:
        """What it has written to its log in lines that begin so."""
        with open(self.log, errors="replace") as file:
            file.seek(self.log_start)
            return [line.removeprefix(start).strip() for line in file if line.startswith(start)]

    def failure(self) -> str:
        code = self.handle.returncode
        errors = self.lines("chary: error: ")
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return errors[-1] if errors else f"{self.cell.folder}: the process {how}; see {self.log}."


class _Workers:
    """The processes of a sweep, which do not outlive it."""

    def __init__(self, sweep: Sweep):
        self._sweep = sweep
        self.running: list[_Worker] = []

    def begin(self, cell: Cell, cores: list[int]) -> None:
        """Start a cell or resume it; what it says goes to a log beside its folder."""
        log = cell.folder.with_name(f"{cell.folder.name}.log")
        words = ["sweep", self._sweep.folder, "--cell", cell.number, "--cores", *cores]
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            start = log.stat().st_size if log.exists() else 0
            with open(log, "a") as file:
                # A session of its own: Ctrl-C in the terminal is the sweep's to pass on. Its input is
                # open as long as the sweep lives.
                handle = subprocess.Popen(
                    [sys.executable, "-m", "chary", *map(str, words), "--attached"],
                    stdin=subprocess.PIPE,
                    stdout=file,
                    stderr=file,
                    text=True,
                    start_new_session=True,
                )
        except OSError as error:
            raise CharyError(f"{log}: cannot be written ({error.strerror or error}).") from error
        self.running.append(_Worker(cell, cores, handle, log, start, time.monotonic()))

    def ended(self) -> list[_Worker]:
        """Those that have ended since the last look."""
        ended = [worker for worker in self.running if worker.handle.poll() is not None]
        for worker in ended:
            self.running.remove(worker)
            _close(worker)
        return ended

    def stop(self) -> None:
        """Ask all to save themselves and wait until they have."""
        for worker in self.running:
            worker.handle.terminate()
        deadline = time.monotonic() + GRACE_SECONDS
        while self.running and time.monotonic() < deadline:
            self.ended()
            time.sleep(LOOK_SECONDS)

    def kill(self) -> None:
        """End all at once."""
        for worker in self.running:
            worker.handle.kill()
            worker.handle.wait()
            _close(worker)


@contextmanager
def _workers(sweep: Sweep) -> Iterator[_Workers]:
    workers = _Workers(sweep)
    try:
        yield workers
    finally:
        workers.kill()


def _close(worker: _Worker) -> None:
    assert worker.handle.stdin is not None
    with suppress(BrokenPipeError):
        worker.handle.stdin.close()
