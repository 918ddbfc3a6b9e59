"""A sweep on this machine: several cells at once, each in a process on its own share of the cores."""

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from chary.host.machine import cores
from chary.tune import process
from chary.tune.process import End

if TYPE_CHECKING:
    from chary.tune.sweep import Group


class Local:
    """Workers of this machine."""

    def __init__(self, folder: Path, at_once: int, each: int):
        self._folder = folder
        self._free = shares(at_once, each)
        self._running: list[_Worker] = []

    def begin(self, group: "Group") -> bool:
        """Start a worker for these cells, unless there is no room for another."""
        if not self._free:
            return False
        numbers, log = [cell.number for cell in group], str(process.log_of(group))
        code = process.code_of(group)
        handle = process.spawn(str(self._folder), numbers, log, self._free[-1], code)
        self._running.append(_Worker(group, self._free.pop(), handle))
        return True

    def ended(self) -> list[End]:
        """The workers that have ended since the last look."""
        ends: list[End] = []
        for worker in [worker for worker in self._running if worker.handle.poll() is not None]:
            self._running.remove(worker)
            self._free.append(worker.cores)
            process.end(worker.handle)
            code = worker.handle.returncode
            ends.append(End(worker.group, code, process.how(code)))
        return ends

    def stop(self) -> None:
        """Ask all to save their runs, and wait until they have."""
        for worker in self._running:
            worker.handle.terminate()
        deadline = time.monotonic() + process.GRACE_SECONDS
        while self._running and time.monotonic() < deadline:
            self.ended()
            time.sleep(process.LOOK_SECONDS)

    def close(self) -> None:
        """End what is left at once."""
        for worker in self._running:
            process.end(worker.handle)


class _Worker(NamedTuple):
    """Cells that are being trained."""

    group: "Group"
    cores: list[int]
    handle: subprocess.Popen[bytes]


def shares(count: int, each: int | None = None) -> list[list[int]]:
    """The cores of each of so many processes.

    All have as many, whichever runs are left to do: a run is resumed to the same bits only on as many
    cores as it began with.
    """
    known = hasattr(os, "sched_getaffinity")
    mine = sorted(os.sched_getaffinity(0)) if known else list(range(cores()))
    each = each or max(1, len(mine) // count)
    return [[mine[(i * each + j) % len(mine)] for j in range(each)] for i in range(count)]
