"""Runs while they train: what has changed in their folders since one last looked.

A folder is read again only when one of its files has changed, whatever happened to it: lines appended, logs
cut back by a resumed run, files gone or torn.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from chary.errors import CharyError
from chary.report.story import RunStory, read_run
from chary.runs import NAMES, find_runs

SHARE = 0.1
"""Of one processor, at most, goes into looking, however many runs there are."""
OFTEN = 0.5
"""Seconds between two looks at the disk, at least: several pages may be open."""
RECENT = 20
"""Log lines by which the time left is judged."""
PATIENCE = 60.0
"""Seconds without a word for which a run is taken to be at work, at least: it may be compiling."""

Signature = tuple[tuple[int, int, int] | None, ...]


class Progress(NamedTuple):
    """Where a run stands."""

    state: str
    """training, silent (killed, stopped, or busy for unusually long), done or diverged."""
    step: int
    steps: int
    seconds_left: float | None
    written: float
    """When its folder last changed, by the clock."""


@dataclass
class _Followed:
    """A run as it was when last looked at."""

    signature: Signature
    story: RunStory
    news: dict[str, Any]
    progress: Progress
    version: int


class Follower:
    """The runs below a folder, and which of them are not as they were."""

    def __init__(self, root: Path, *, clock: Callable[[], float] = time.time):
        self._root = root
        self._clock = clock
        self._runs: dict[str, _Followed] = {}
        self._problems: dict[str, tuple[Signature, str]] = {}
        self._version = 0
        self._next_look = 0.0

    def changes(self, since: int) -> dict[str, Any]:
        """The version there is now, the names of all runs, and those that changed after a version."""
        if time.monotonic() >= self._next_look:
            began = time.monotonic()
            self._look()
            now = time.monotonic()
            self._next_look = now + max(OFTEN, (now - began) * (1.0 / SHARE - 1.0))
        if since > self._version:  # a page of another server
            since = 0
        return {
            "version": self._version,
            "runs": list(self._runs),
            "changed": {
                name: {**run.news, "progress": run.progress._asdict()}
                for name, run in self._runs.items()
                if run.version > since
            },
            "problems": [problem for _, problem in self._problems.values()],
        }
