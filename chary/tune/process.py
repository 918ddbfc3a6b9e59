"""A worker's process: `chary sweep FOLDER --cell K --attached`.

It ends when its input closes, so it cannot outlive what started it. Nothing here imports JAX: Ray's
workers start it too.
"""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from chary.errors import CharyError

if TYPE_CHECKING:
    from chary.tune.sweep import Group

LOOK_SECONDS = 0.2
"""Time between looks at the workers."""
GRACE_SECONDS = 30.0
"""How long a run may take to save itself; it loses only what came after its last checkpoint."""


class End(NamedTuple):
    """How a worker ended."""

    group: "Group"
    code: int
    """Its exit code; negative where a signal killed it, or what it ran on was lost."""
    how: str
    """In words, for those who say nothing themselves."""


def spawn(
    folder: str, cells: Sequence[int], log: str, cores: Sequence[int], code: Sequence[str]
) -> subprocess.Popen[bytes]:
    """Start the process that trains cells on these cores, with the user's own code that they need; what
    it says goes to its log."""
    words = ["sweep", folder, "--cell", *cells, "--cores", *cores, "--attached"]
    words += ["--trust-code", *code] if code else []
    try:
        Path(log).parent.mkdir(parents=True, exist_ok=True)
        with open(log, "a") as file:
            # A session of its own: Ctrl-C in the terminal is the sweep's to pass on. Its input is open
            # as long as this process lives.
            return subprocess.Popen(
                [sys.executable, "-m", "chary", *map(str, words)],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
    except OSError as error:
        raise CharyError(f"{log}: cannot be written ({error.strerror or error}).") from error


def end(handle: subprocess.Popen[bytes]) -> None:
    """End a worker's process at once, if it has not ended by itself."""
    handle.kill()
    handle.wait()
    assert handle.stdin is not None
    with suppress(BrokenPipeError):
        handle.stdin.close()


def how(code: int) -> str:
    """An exit code in words."""
    ended = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"the process {ended}"


def code_of(group: "Group") -> list[str]:
    """The user's own code that its cells need."""
    return sorted({name for cell in group for name in cell.spec.own_code})


def log_of(group: "Group") -> Path:
    """What its workers say, beside the folder of its first run."""
    first = group[0].folder
    return first.with_name(f"{first.name}.log")
