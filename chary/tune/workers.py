"""The watch over a sweep's workers, wherever they run: an executor only starts and stops them."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from chary.errors import CharyError
from chary.host.machine import cores
from chary.host.terminal import StudyDisplay, duration, say
from chary.training.loop import stop_requests
from chary.tune.process import LOOK_SECONDS, End, log_of
from chary.tune.sweep import Cell, Group, Sweep, shared
from chary.tune.where import Where

LOG_SECONDS = 2.0
"""Time between looks at how far their logs have got."""
KILLS = 5
"""How often a worker may be killed at the same step before its run counts as failed."""


@runtime_checkable
class Executor(Protocol):
    """Where workers run. It remembers nothing that could be lost with it."""

    def begin(self, group: Group) -> bool:
        """Start a worker for these cells, unless there is no room for another."""
        ...

    def ended(self) -> list[End]:
        """The workers that have ended since the last look."""
        ...

    def stop(self) -> None:
        """Ask all to save their runs, and wait until they have."""
        ...

    def close(self) -> None:
        """End what is left at once."""
        ...


def describe(cell: Cell) -> str:
    """A finished cell in a few words."""
    return f"{cell.folder.name}: {cell.state}"


def train_all(
    sweep: Sweep,
    cells: Sequence[Cell],
    where: Where,
    *,
    describe: Callable[[Cell], str] = describe,
) -> None:
    """Train what is missing of these cells; what is complete stays as it is.

    A worker that is killed is started again, as long as its run advances in between. Every cell that
    fails is named at the end, the others continue. Raises KeyboardInterrupt, with every run saved, when
    the user asks to stop.
    """
    left = [cell for cell in cells if not cell.finished]
    if not left:
        return
    executor = _executor(sweep.folder, where)
    waiting = shared(left, together=where.together, at_once=where.jobs)
    done = len(cells) - len(left)
    total = sum(cell.spec.run.steps for cell in cells)
    complete = total - sum(cell.spec.run.steps for cell in left)
    running: dict[int, _Begun] = {}
    kills: dict[tuple[int, int], int] = {}
    failures: list[str] = []
    warned: set[str] = set()
    looked = 0.0
    try:
        with (
            stop_requests() as stop_asked,
            StudyDisplay(len(cells), done, total, complete + _steps(left)) as display,
        ):
            while waiting or running:
                if stop_asked():
                    say("stopping: every run saves itself (Ctrl-C again: at once)")
                    executor.stop()
                    raise KeyboardInterrupt("Everything is kept; the same command resumes.")
                while waiting:
                    begun = _Begun.now(waiting[0])
                    if not executor.begin(begun.group):
                        break
                    running[waiting.pop(0)[0].number] = begun
                for end in executor.ended():
                    first = end.group[0]
                    begun = running.pop(first.number)
                    for line in begun.lines("chary: warning: "):
                        if line not in warned:
                            say(f"chary: warning: {line}")
                            warned.add(line)
                    unfinished = tuple(cell for cell in end.group if not cell.finished)
                    place = first.number, _steps(unfinished)
                    kills[place] = kills.get(place, 0) + 1
                    for cell in [cell for cell in end.group if cell not in unfinished]:
                        complete += cell.spec.run.steps
                        took = duration(time.monotonic() - begun.at)
                        display.finished(f"{describe(cell)}, {took}")
                    if unfinished and end.code < 0 and kills[place] < KILLS:
                        say(f"{first.folder.name}: {end.how}; started again")
                        waiting.insert(0, unfinished)
                    elif unfinished:
                        failures += [begun.failure(end)] * len(unfinished)
                        say(f"failed: {failures[-1]}")
                if time.monotonic() - looked > LOG_SECONDS:
                    groups = [*(begun.group for begun in running.values()), *waiting]
                    display.step(complete + _steps([cell for group in groups for cell in group]))
                    looked = time.monotonic()
                time.sleep(LOOK_SECONDS)
    finally:
        executor.close()
    if failures:
        raise CharyError(
            f"{len(failures)} of {len(cells)} runs failed; the others are kept, and the same "
            f"command resumes. {failures[0]}"
        )


def _executor(folder: Path, where: Where) -> Executor:
    if where.on == "ray":
        from chary.tune.on_ray import OnRay

        return OnRay(folder, where)
    from chary.tune.local import Local

    return Local(folder, where.jobs or max(1, cores() // where.cores), where.cores)


class _Begun(NamedTuple):
    """A worker that was started."""

    group: Group
    log_start: int
    at: float

    @classmethod
    def now(cls, group: Group) -> "_Begun":
        log = log_of(group)
        return cls(group, os.path.getsize(log) if log.exists() else 0, time.monotonic())

    def lines(self, start: str) -> list[str]:
        """What it has written to its log in lines that begin so."""
        try:
            with open(log_of(self.group), errors="replace") as file:
                file.seek(self.log_start)
                return [line.removeprefix(start).strip() for line in file if line.startswith(start)]
        except OSError:  # it never came as far as to say something
            return []

    def failure(self, end: End) -> str:
        errors = self.lines("chary: error: ")
        silent = f"{self.group[0].folder}: {end.how}; see {log_of(self.group)}."
        return errors[-1] if errors else silent


def _steps(cells: Sequence[Cell]) -> int:
    return sum(cell.step for cell in cells)
