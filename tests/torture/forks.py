"""Programs in processes that are forked from this one, which has imported all that they need.

So the start of Python and JAX, three seconds, is paid once. This process itself never uses JAX, and has
no threads."""

import atexit
import os
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

PATIENCE = 240.0
"""Seconds for which a process may take to end."""
ASLEEP = 0.3
"""Seconds for which a stopped process sleeps."""
NEEDED = (
    "jax", "orbax.checkpoint", "mujoco", "gymnasium", "h5py", "filelock", "chary.cli.train",
    "chary.cli.resume", "chary.cli.sweep", "chary.cli.finetune", "chary.training.loop",
    "chary.online.feed", "chary.algos.bc", "chary.algos.msg", "chary.algos.td3_bc",
)  # fmt: skip


Work = Callable[[Callable[[], object]], int]
"""What a child does, given what to call when its moment is reached; its exit code."""


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    """Its exit code, or minus the signal that ended it; 99 where it did not end."""
    said: str
    reached: bool
    """Whether what was to happen to it did."""
    slept: bool
    """Whether it was seen stopped."""


def warm() -> None:
    """Import all that children need."""
    warnings.filterwarnings("ignore", message=".*os.fork", category=RuntimeWarning)
    for name in NEEDED:
        import_module(name)


def forked(
    work: Work,
    place: Path,
    *,
    after: tuple[float, str] | None = None,
) -> Ended:
    """Do work in a folder, in a child that says when its moment is reached.

    Or a signal comes after so many seconds."""
    words, ours = os.pipe()
    notice, theirs = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if not child:
        os.close(words)
        os.close(notice)
        _child(work, place, ours, theirs)
    os.close(ours)
    os.close(theirs)
    said: list[bytes] = []
    began, asleep, sent, slept = time.monotonic(), 0.0, False, False
    while True:
        if select.select([words], [], [], 0.02)[0]:
            said.append(os.read(words, 2**16))  # read while it runs: a full pipe would stop it
            if not said[-1]:
                time.sleep(0.02)
        ended, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
        now = time.monotonic()
        if ended and not os.WIFSTOPPED(status):
            break
        if ended:
            asleep, slept = now, True
        if asleep and now - asleep > ASLEEP:
            os.kill(child, signal.SIGCONT)
            asleep = 0.0
        if after is not None and not sent and now - began > after[0]:
            os.kill(child, signal.Signals[f"SIG{after[1]}"])
            sent = True
        if now - began > PATIENCE:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            status = 99 << 8
            break
    # Workers of a sweep may hold the pipe a moment longer than it.
    while select.select([words], [], [], 0.0)[0] and (more := os.read(words, 2**16)):
        said.append(more)
    reached = sent or bool(select.select([notice], [], [], 0.0)[0] and os.read(notice, 1))
    os.close(words)
    os.close(notice)
    text = b"".join(said).decode(errors="replace")
    return Ended(os.waitstatus_to_exitcode(status), text, reached, slept)


def _child(work: Work, place: Path, words: int, notice: int) -> None:
    """The child's life; it never returns into the program that it is a copy of."""
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(words, 1)
        os.dup2(words, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        os.chdir(place)
        code = work(lambda: bool(os.write(notice, b"!")))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            atexit._run_exitfuncs()  # as at any program's end
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
