"""Several processes that train one run together, each with devices of its own, on one host or many.

All go through the same programs in step. Process 0 leads: it decides, evaluates, writes and speaks; the
others follow (`training/follower.py`). Before every turn all meet: the leader says what comes next,
and everyone whether it was asked to stop or has failed, so that all end together. A process that dies
breaks its connections, which the others notice in their next turn.
"""

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from chary.errors import CharyError, reason

Tree = TypeVar("Tree")

START_SECONDS = 300
"""How long processes wait for each other at the start."""
END_SECONDS = 30
"""And at the end."""
SILENT_SECONDS = 100
"""After so long without a sign of life, a process is taken for dead, and all others end."""


class Order(IntEnum):
    """What comes next, with a number."""

    BEGIN = 0
    """Take over runs, described in so many bytes."""
    STATE = 1
    """Take over their state."""
    ADVANCE = 2
    """Train to that step."""
    GATHER = 3
    """Give the leader all of the state."""
    DONE = 4
    STOPPED = 5
    FAILED = 6


class Meeting(NamedTuple):
    """What all have heard."""

    order: Order
    number: int
    stop_asked: bool
    """Whether anybody was asked to stop."""


class CrewError(CharyError):
    """Not all processes continue, and all know."""


class BrokenCrewError(CrewError):
    """Processes have lost each other."""


def meet(
    order: Order = Order.DONE, number: int = 0, *, stop_asked: bool = False, failed: bool = False
) -> Meeting:
    """Wait for all; what the leader orders is what counts."""
    from jax.experimental.multihost_utils import process_allgather

    mine = np.array([order, number, stop_asked, failed], np.int32)
    try:
        rows = np.asarray(process_allgather(mine))
    except (ValueError, RuntimeError) as error:
        raise _broken(error) from error
    fallen = np.flatnonzero(rows[:, 3])
    if len(fallen) and not failed:
        raise CrewError(f"process {fallen[0]} has failed and says why; all others end with it.")
    return Meeting(Order(rows[0, 0]), int(rows[0, 1]), bool(rows[:, 2].any()))


@contextmanager
def together(order: Order, number: int = 0) -> Iterator[Meeting]:
    """A turn that the leader takes with all others; alone it is just done."""
    if jax.process_count() == 1:
        yield Meeting(order, number, stop_asked=False)
        return
    meeting = meet(order, number)
    with in_step():
        yield meeting


@contextmanager
def in_step() -> Iterator[None]:
    """Where the others are in the same turn, a failure can be announced only by leaving."""
    try:
        yield
    except BaseException as error:
        raise _broken(error) from error


def broadcast(tree: Tree) -> Tree:
    """The leader's arrays, in all processes; the others give arrays of the same shapes."""
    from jax.experimental.multihost_utils import broadcast_one_to_all

    return tree if jax.process_count() == 1 else broadcast_one_to_all(tree)


@contextmanager
def joined(coordinator: str | None, processes: int | None, process: int | None) -> Iterator[bool]:
    """Be one of several processes, if that is asked for; yields whether this one leads."""
    given = [coordinator, processes, process]
    if given == [None] * 3:
        yield True
        return
    if coordinator is None or processes is None or process is None:
        raise CharyError(
            "several processes need all of --coordinator HOST:PORT (where process 0 runs), --processes "
            "(how many) and --process (which of them this is, from 0)."
        )
    try:
        with _output_as_messages():
            _connect(coordinator, processes, process)
            if process > 0:
                yield False
                return
            with _leading():
                yield True
    except BrokenCrewError:
        # JAX would wait for the others at the end, in vain, and complain at length.
        atexit.register(_leave)
        raise


def _connect(coordinator: str, processes: int, process: int) -> None:
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdecimal():
        raise CharyError(
            f"--coordinator is {coordinator}, but must be a host and a port: HOST:PORT."
        )
    if not 0 <= process < processes:
        raise CharyError(f"--process is {process}, but must be from 0 to {processes - 1}.")
    config: Any = jax.config  # whose settings no type checker can see
    config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            initialization_timeout=START_SECONDS,
            heartbeat_timeout_seconds=SILENT_SECONDS,
            shutdown_timeout_seconds=END_SECONDS,
            cluster_detection_method="deactivate",
        )
    except (RuntimeError, ValueError) as error:
        raise CharyError(
            f"--coordinator {coordinator}: the {processes} processes have not found each other "
            f"({reason(error)})."
        ) from error
    # Gloo connects in the first meeting, for which it waits half a minute only: before anything slow.
    meet()


@contextmanager
def _leading() -> Iterator[None]:
    """Tell the others how it ended."""
    try:
        yield
    except CrewError:
        raise
    except BaseException as error:
        meet(Order.STOPPED if isinstance(error, KeyboardInterrupt) else Order.FAILED)
        raise
    meet(Order.DONE)


@contextmanager
def _output_as_messages() -> Iterator[None]:
    """What libraries print goes to standard error: standard output is for results."""
    sys.stdout.flush()
    before = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(before, 1)
        os.close(before)


def _broken(error: BaseException) -> BrokenCrewError:
    if isinstance(error, CharyError | OSError | KeyboardInterrupt):
        return BrokenCrewError(str(error) or "interrupted")
    return BrokenCrewError(
        "another process has ended, or the connection to it is lost "
        f"({reason(error)}). Start all of them again with `chary resume`."
    )


def _leave() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(2)
