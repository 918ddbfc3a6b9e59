"""Runs while they train: what has changed in their folders since one last looked.

A folder is read again only when one of its files has changed, whatever happened to it: lines appended,
logs cut back by a resumed run, files gone or torn.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from chary.errors import CharyError
from chary.host.files import jsonable
from chary.report.health import Health, examine
from chary.report.page_data import curve_points, datasets, overview, run_data
from chary.report.story import RunStory, read_run
from chary.runs.folder import NAMES, find_runs
from chary.runs.schema import Record

SHARE = 0.1
"""Of one processor, at most, goes into looking at runs that are known, however many there are."""
OFTEN = 0.5
"""Seconds between two looks at the disk, at least: several pages may be open."""
LOOK = 2.0
"""Seconds after which a look reads no other folder: with hundreds, a page shows those that were read."""
RECENT = 20
"""Log lines by which the time left is judged."""
PATIENCE = 60.0
"""Seconds without a word for which a run is taken to be at work, at least: it may be compiling."""
WATCHED = sorted(NAMES - {"checkpoints", "tensorboard"})
"""What is read of a run."""
EXAMINED = {"config.json", "data.json", "diagnostics", "online"}
"""What its ensemble's health is read from."""

Signature = dict[str, tuple[int, int, int] | None]
"""Time, size and number of each file that is watched; None where there is none."""


class Progress(NamedTuple):
    """Where a run stands."""

    state: str
    """training, silent (killed, stopped, or busy for unusually long), done or diverged."""
    left: float | None
    """Seconds, while it trains."""
    written: float
    """When its folder last changed, by the clock."""


class Known(NamedTuple):
    """A run as it was read."""

    story: RunStory
    health: Health | None
    damaged: list[str]
    """What was noticed while its health was read."""


@dataclass
class Followed:
    """A folder as it was when last looked at."""

    signature: Signature
    known: Known | None
    """None where what looked like a run cannot be read."""
    problem: str
    progress: Progress | None
    version: int
    part: Record | None = None
    """Its part of the page, once it is made."""


class Follower:
    """The runs below a folder, and which of them are not as they were."""

    def __init__(self, root: Path, *, clock: Callable[[], float] = time.time):
        self._root = root
        self._clock = clock
        self._folders: dict[str, Followed] = {}
        self._points = 0
        self._overview: Record = {}
        self._version = 0
        self._next_look = 0.0
        self._unread = 0

    def changes(self, since: int) -> Record | None:
        """What a page that knows another version needs: the runs that have changed, and what is to be
        said of all. None where nothing is new."""
        if time.monotonic() >= self._next_look:
            began = time.monotonic()
            self._look()
            now = time.monotonic()
            rest = 0.0 if self._unread else (now - began) * (1.0 / SHARE - 1.0)
            self._next_look = now + max(OFTEN, rest)
        if since == self._version:
            return None
        since = since if since < self._version else 0  # greater ones are of another server
        changed = [run.part for run in self._folders.values() if run.part and run.version > since]
        return {**self._overview, "news": self._version, "changed": changed}

    def _look(self) -> None:
        """Bring what is known up to date."""
        version, before = self._version + 1, self._folders
        paths = {self._name(path): path for path in find_runs(self._root)}
        until, seen = time.monotonic() + LOOK, dict[str, Followed]()
        # The longest unread first, so that every one has its turn.
        for name in sorted(paths, key=lambda name: before[name].version if name in before else 0):
            run = self._looked_at(paths[name], name, before.get(name), version)
            seen[name] = run
            if run.version == version and time.monotonic() > until:
                break
        kept = before | seen
        self._folders = {name: kept[name] for name in paths if name in kept}
        self._unread = len(paths) - len(self._folders)
        found = [run for run in self._folders.values() if run.known]
        stories = [run.known.story for run in found if run.known]
        points = curve_points(stories)
        if points != self._points:  # there are more runs or fewer: all curves are thinned anew
            self._points = points
            for run in found:
                run.part, run.version = None, version
        changed = any(run.version == version for run in self._folders.values())
        if changed or self._folders.keys() != before.keys() or version == 1:
            parts = [self._part(run) for run in found]
            problems = [run.problem for run in self._folders.values() if run.problem]
            names = [story.name for story in stories]
            self._overview = {
                **overview(stories, parts, points, problems),
                "datasets": datasets([story for story in stories if story.is_online]),
                "names": names,
                "unread": self._unread,
            }
            self._version = version  # last: who has a version has all of it

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix() if path != self._root else path.name

    def _looked_at(self, path: Path, name: str, before: Followed | None, version: int) -> Followed:
        """A folder as it is now; the same object as before where nothing has changed."""
        signature = sign(path)
        if before is not None and before.signature == signature:
            known, problem = before.known, before.problem
        else:
            try:
                known, problem = _read(path, name, before, signature), ""
            except (CharyError, OSError) as error:  # among them: gone while we looked
                known, problem = None, f"{str(error).rstrip('.')}; skipped."
        written = max((found[0] for found in signature.values() if found), default=0) / 1e9
        progress = judge(known.story, written, self._clock()) if known else None
        if before and before.signature == signature and before.progress == progress:
            return before
        return Followed(signature, known, problem, progress, version)

    def _part(self, run: Followed) -> Record:
        assert run.known is not None and run.progress is not None
        if run.part is None:
            data = run_data(run.known.story, run.known.health, self._points)
            run.part = {**data, "progress": jsonable(run.progress._asdict())}
        return run.part


def sign(path: Path) -> Signature:
    """What is another one as soon as any file of a run has changed."""

    def of(name: str) -> tuple[int, int, int] | None:
        try:
            found = os.stat(path / name)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    return {name: of(name) for name in WATCHED}


def _read(path: Path, name: str, before: Followed | None, signature: Signature) -> Known:
    """A run, read anew; its ensemble's health only where that may have changed, as it has many files."""
    story = read_run(path, name=name)
    if before and before.known and all(before.signature[n] == signature[n] for n in EXAMINED):
        for message in before.known.damaged:
            story.warn(message)
        return before.known._replace(story=story)
    of_logs = list(story.warnings)
    health = examine(story)
    return Known(story, health, [each for each in story.warnings if each not in of_logs])


def judge(story: RunStory, written: float, now: float) -> Progress:
    """Where a run stands, from its logs and the time of its last sign of life."""
    lines = list(pairwise([{"step": 0}, *story.timing]))[-RECENT:]
    steps = [line["step"] - before["step"] for before, line in lines]
    seconds = [n / line["steps_per_s"] for n, (_, line) in zip(steps, lines, strict=True)]
    if story.diverged:
        return Progress("diverged", None, written)
    if story.step >= story.goal:
        return Progress("done", None, written)
    if now - written > max(PATIENCE, 3.0 * max(seconds, default=0.0)):
        return Progress("silent", None, written)
    left = (story.goal - story.step) * sum(seconds) / sum(steps) if sum(steps) else None
    return Progress("training", left, written)
