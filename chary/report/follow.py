"""Runs while they train: what has changed in their folders since one last looked.

A folder is read again only when one of its files has changed, whatever happened to it: lines appended, logs
cut back by a resumed run, files gone or torn.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from chary.errors import CharyError
from chary.files import jsonable
from chary.report.story import RunStory, read_run, thin
from chary.runs import NAMES, find_runs, headline

SHARE = 0.1
"""Of one processor, at most, goes into looking, however many runs there are."""
OFTEN = 0.5
"""Seconds between two looks at the disk, at least: several pages may be open."""
RECENT = 20
"""Log lines by which the time left is judged."""
POINTS = 400
"""Of a curve that are drawn, at most, evenly spread."""
PATIENCE = 60.0
"""Seconds without a word for which a run is taken to be at work, at least: it may be compiling."""

WATCHED = sorted(NAMES - {"checkpoints", "tensorboard"})
"""What is read of a run."""

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
    """A folder as it was when last looked at."""

    signature: Signature
    story: RunStory | None
    """None where what looked like a run could not be read."""
    problem: str
    progress: Progress | None
    version: int

    def news(self) -> dict[str, Any]:
        """What the page shows of the run."""
        story = self.story
        assert story is not None and self.progress is not None
        points = thin(len(story.metrics["step"]), POINTS)
        return jsonable(
            {
                "progress": self.progress._asdict(),
                "speed": story.speed,
                "last": story.last and headline(story.last),
                "best": story.best and headline(story.best),
                "evaluations": {
                    "step": [record["step"] for record in story.evaluations],
                    "score": [headline(record) for record in story.evaluations],
                },
                "metrics": {name: column[points] for name, column in story.metrics.items()},
                "warnings": story.warnings,
            }
        )


class Follower:
    """The runs below a folder, and which of them are not as they were."""

    def __init__(self, root: Path, *, clock: Callable[[], float] = time.time):
        self._root = root
        self._clock = clock
        self._runs: dict[str, _Followed] = {}
        self._version = 0
        self._next_look = 0.0

    def changes(self, since: int) -> dict[str, Any] | None:
        """The version there is now, the names of all runs, and those that changed after another version;
        None where nothing did."""
        if time.monotonic() >= self._next_look:
            began = time.monotonic()
            self._look()
            now = time.monotonic()
            self._next_look = now + max(OFTEN, (now - began) * (1.0 / SHARE - 1.0))
        if since == self._version:
            return None
        since = since if since < self._version else 0  # greater ones are of another server
        runs = {name: run for name, run in self._runs.items() if run.story is not None}
        return {
            "version": self._version,
            "runs": list(runs),
            "changed": {name: run.news() for name, run in runs.items() if run.version > since},
            "problems": [run.problem for run in self._runs.values() if run.problem],
        }

    def _look(self) -> None:
        """Bring what is known up to date."""
        version, known = self._version + 1, self._runs
        self._runs = {}
        for path in find_runs(self._root):
            name = path.relative_to(self._root).as_posix() if path != self._root else path.name
            self._runs[name] = self._looked_at(path, name, known.get(name), version)
        changed = any(run.version == version for run in self._runs.values())
        if changed or self._runs.keys() != known.keys() or version == 1:
            self._version = version

    def _looked_at(
        self, path: Path, name: str, before: _Followed | None, version: int
    ) -> _Followed:
        """A folder as it is now; the same as before where nothing has changed."""
        signature = sign(path)
        same = before is not None and before.signature == signature
        if same:
            story, problem = before.story, before.problem
        else:
            try:
                story, problem = read_run(path, name=name), ""
            except CharyError as error:
                story, problem = None, f"{str(error).rstrip('.')}; passed over."
        written = max((found[0] for found in signature if found), default=0) / 1e9
        progress = story and judge(story, written, self._clock())
        if same and before.progress == progress:
            return before
        return _Followed(signature, story, problem, progress, version)


def sign(path: Path) -> Signature:
    """Time, size and number of every file of a run: another one, if any has changed."""

    def of(name: str) -> tuple[int, int, int] | None:
        try:
            found = os.stat(path / name)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    return tuple(of(name) for name in WATCHED)


def judge(story: RunStory, written: float, now: float) -> Progress:
    """Where a run stands, from its logs and the time of its last sign of life."""
    lines = [
        (line["step"] - before["step"], (line["step"] - before["step"]) / line["steps_per_s"])
        for before, line in pairwise([{"step": 0}, *story.timing])
    ][-RECENT:]
    steps, seconds = (sum(column) for column in zip(*lines, strict=True)) if lines else (0, 0.0)
    left = (story.goal - story.step) * seconds / steps if steps else None
    longest = max((line_seconds for _, line_seconds in lines), default=0.0)
    if story.diverged:
        state = "diverged"
    elif story.step >= story.goal:
        state = "done"
    else:
        state = "training" if now - written <= max(PATIENCE, 3.0 * longest) else "silent"
    return Progress(state, story.step, story.goal, left if state == "training" else None, written)
