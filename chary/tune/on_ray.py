"""A sweep on Ray: one task for each cell, on a cluster that is there or on one of this machine.

A task is a worker's process and the wait for it. Only names and numbers pass through Ray; results are
read from the sweep's folder, which all nodes must share. Tasks that die with their Ray worker or node
are begun again by the watch over all workers, as others are.
"""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from chary.errors import CharyError, reason
from chary.host.machine import cores
from chary.host.terminal import say
from chary.tune import process
from chary.tune.local import shares
from chary.tune.process import End
from chary.tune.where import Where

if TYPE_CHECKING:
    from chary.tune.sweep import Group

OWN_CLUSTER = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Makes Ray of one machine use the loopback address only, as it does by itself on macOS.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}
"""How a cluster of this machine is started. Ray reads these when it is imported."""
REACH_SECONDS = 10.0
STORE_BYTES = 80_000_000
"""About the least that Ray takes for objects, of which there are hardly any."""


class OnRay:
    """Workers in tasks of a Ray cluster."""

    def __init__(self, folder: Path, where: Where):
        self._folder = str(folder.resolve())
        self._where = where
        self._ray = _connected(where)
        self._running: dict[Any, Group] = {}
        # Ray's own retries would begin a run again that has long failed, and count nothing.
        self._task = self._ray.remote(
            num_cpus=where.cores, num_gpus=where.gpus_per_run, max_retries=0
        )(work)

    def begin(self, group: "Group") -> bool:
        """Start a worker for these cells, unless there is no room for another. Ray has room for all."""
        if self._where.jobs and len(self._running) >= self._where.jobs:
            return False
        numbers, log = [cell.number for cell in group], str(process.log_of(group).resolve())
        task = self._task.options(name=group[0].folder.name).remote(
            self._folder, numbers, log, os.getcwd(), self._where.cores, process.code_of(group)
        )
        self._running[task] = group
        return True

    def ended(self) -> list[End]:
        """The workers that have ended since the last look."""
        if not self._running:
            return []
        tasks = list(self._running)
        ready, _ = self._ray.wait(tasks, num_returns=len(tasks), timeout=0)
        return [End(self._running.pop(task), *self._outcome(task)) for task in ready]

    def stop(self) -> None:
        """Ask all to save their runs, and wait until they have."""
        for task in self._running:
            self._ray.cancel(task)
        deadline = time.monotonic() + process.GRACE_SECONDS
        while self._running and time.monotonic() < deadline:
            self.ended()
            time.sleep(process.LOOK_SECONDS)

    def close(self) -> None:
        """End what is left at once: workers end with their tasks."""
        self._ray.shutdown()

    def _outcome(self, task: Any) -> tuple[int, str]:
        """A task's exit code and how it ended; where it was lost, as if it were killed."""
        try:
            code = self._ray.get(task)
        except self._ray.exceptions.RayTaskError as error:  # it could not begin
            return 1, f"Ray's task failed ({reason(error.cause)})"
        except self._ray.exceptions.RayError as error:
            return -1, f"Ray's task was lost ({type(error).__name__})"
        return code, process.how(code)


def work(folder: str, cells: list[int], log: str, place: str, count: int, code: list[str]) -> int:
    """The task: train cells on so many cores of this node, and return the exit code of its process."""
    if not Path(folder).is_dir():
        raise CharyError(f"{folder}: not on node {socket.gethostname()}; a cluster must share it")
    if Path(place).is_dir():
        os.chdir(place)  # where users' own simulators are imported from
    with _own_cores(count) as own:
        handle = process.spawn(folder, cells, log, own, code)
        try:
            while handle.poll() is None:
                time.sleep(process.LOOK_SECONDS)
        except KeyboardInterrupt:  # the task is cancelled: the sweep is stopping
            handle.terminate()
            handle.wait(process.GRACE_SECONDS)
        finally:
            process.end(handle)
        return handle.returncode


@contextmanager
def _own_cores(count: int) -> Iterator[list[int]]:
    """Cores of this node that no other worker has, or the first if all have some.

    Ray counts cores but does not say which ones a task may use. An address in Linux's abstract
    namespace belongs to one process and is free when that ends.
    """
    blocks = shares(max(1, cores() // count), count)
    with ExitStack() as held:
        for block in blocks if hasattr(os, "sched_setaffinity") else []:
            mark = held.enter_context(socket.socket(socket.AF_UNIX))
            try:
                mark.bind(f"\0chary-{'-'.join(map(str, block))}")
            except OSError:
                continue
            yield block
            return
        yield blocks[0]


def _connected(where: Where) -> ModuleType:
    """Ray, connected to a cluster."""
    if where.address is None:
        os.environ.update(OWN_CLUSTER)
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise CharyError(
            f"--on ray needs another package ({error.name}): pip install 'chary[ray]'"
        ) from error
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if where.address is None:
            ray.init(
                "local",  # and never a cluster that happens to run here
                num_cpus=cores(),
                include_dashboard=False,
                object_store_memory=STORE_BYTES,
                **quiet,
            )
        else:
            _reach(where.address)
            ray.init(where.address, **quiet)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        at = f" --address {where.address}" if where.address else ""
        raise CharyError(f"--on ray{at}: no cluster to work on ({reason(error)}).") from error
    sizes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    need = {"CPU": where.cores, "GPU": where.gpus_per_run}
    if not any(all(size.get(k, 0) >= n for k, n in need.items()) for size in sizes):
        say(f"no node has {where.cores} cores and {where.gpus_per_run} GPUs yet; runs wait for one")
    return ray


def _reach(address: str) -> None:
    """See whether a cluster listens there and takes our token, if it is HOST:PORT: Ray itself would try
    for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdecimal() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=REACH_SECONDS).close()
        with suppress(ImportError, AttributeError):  # it is not of Ray's public interface
            import_module("ray._raylet").GcsClient(address=address)
