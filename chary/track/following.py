"""What is new in a run's logs, passed on to trackers.

Nothing leaves the training loop for a tracker but what the logs say: the loop writes a line, then calls
`catch_up`. A run that is resumed, or uploaded long afterwards, goes the same way from its first line.
"""

import re
import secrets
import time
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType

from chary.errors import CharyError, reason
from chary.runs.folder import RunFolder
from chary.runs.schema import Record, is_number
from chary.track import Point, RunInfo, Status, Tracker

LOGS = ("timing", "metrics", "evals")
"""In the order in which lines of one step are passed on."""
SHOWN = (
    "chary", "algorithm", "preset", "settings", "run", "execution", "online", "dataset", "versions",
)  # fmt: skip
"""Parts of config.json that trackers get."""
SCORES = ("score", "success", "return", "validation")


class Following:
    """Passes on a run's logs, to every tracker that is named.

    A tracker that fails is left out with a warning, because no run is to end with it; if `strict`, its
    failure is an error.
    """

    def __init__(
        self,
        folder: RunFolder,
        trackers: Sequence[str],
        *,
        project: str | None = None,
        where: Path | None = None,
        online: bool = False,
        strict: bool = False,
    ):
        self._folder, self._names, self._strict = folder, trackers, strict
        self._options = project, where, online
        self._trackers: dict[str, Tracker] = {}
        self._read = dict.fromkeys(LOGS, 0)
        self._timing: Record = {}

    def __enter__(self) -> "Following":
        for name in self._names:
            self._try(name, lambda name=name: self._begin(name))
        self.catch_up()
        return self

    def _begin(self, name: str) -> None:
        begin = import_module(f"chary.track.{name}").begin
        self._trackers[name] = begin(_info(self._folder, *self._options))

    @property
    def look(self) -> list[str]:
        """Where each tracker has the run, and how to look at it."""
        return [tracker.look for tracker in self._trackers.values()]

    def catch_up(self) -> None:
        """Pass on what was logged since the last call."""
        if not self._trackers:
            return
        points = self._new_points()
        for name, tracker in [*self._trackers.items()] if points else ():
            self._try(name, lambda tracker=tracker: tracker.log(points))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._trackers:
            return
        status, summary = status_of(self._folder), _summary(self._folder)
        for name, tracker in [*self._trackers.items()]:
            self._try(name, lambda tracker=tracker: tracker.end(status, summary))

    def _try(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # whatever a tracker raises: a full disk, no network, a bug
            self._trackers.pop(name, None)
            path = self._folder.path
            if self._strict:
                raise CharyError(f"{path}: {name} failed ({reason(error)}).") from error
            warnings.warn(
                f"{path}: {name} failed and is left out from now on ({reason(error)}). The run's own "
                f"logs are complete; `chary track {path} --to {name}` passes them on later.",
                stacklevel=2,
            )

    def _new_points(self) -> list[Point]:
        """New lines of all logs, in the order of their steps."""
        lines: list[tuple[str, Record]] = []
        for log in LOGS:
            records, self._read[log] = self._folder.log(log).lines_from(self._read[log])
            lines += [(log, record) for record in records]
        lines.sort(key=lambda line: line[1]["step"])
        return [point for log, record in lines if (point := self._point(log, record)).numbers]

    def _point(self, log: str, record: Record) -> Point:
        if log == "timing":
            self._timing = record
        known = self._timing.get("time")
        return Point(record["step"], time.time() if known is None else known, numbers(log, record))


def numbers(log: str, record: Record) -> dict[str, float]:
    """The numbers of a log's line, by the names that trackers show."""
    if log == "timing":
        return {"speed/steps_per_s": record["steps_per_s"]}
    if log == "metrics":
        return {k: float(v) for k, v in record.items() if is_number(v) and k != "step"}
    own = {f"eval/{k}": v for k, v in record.items() if k not in ("step", "episodes")}
    sampled = {f"eval/sampled/{k}": v for k, v in (record.get("sampled") or {}).items()}
    return {k: float(v) for k, v in (own | sampled).items() if is_number(v)}


def status_of(folder: RunFolder) -> Status:
    """How far a run has got."""
    if folder.diverged():
        return "diverged"
    run = folder.config.get("run", {})
    reached = max(folder.checkpoint_steps(), default=0)
    # With patience a run may end before its last step.
    done = reached >= run.get("steps", 0) or bool(run.get("patience"))
    return "finished" if done else "unfinished"


def _summary(folder: RunFolder) -> Point:
    """The last and the best scores, at the newest step."""
    newest = folder.log("metrics").last_line() or folder.last() or {"step": 0}
    found: dict[str, float] = {}
    for which, record in (("last", folder.last()), ("best", folder.best())):
        if record is not None:
            scores = {k: record.get(k) for k in SCORES} | {"step": record["step"]}
            found |= {f"{which}/{k}": float(v) for k, v in scores.items() if is_number(v)}
    return Point(newest["step"], time.time(), found)


def _info(folder: RunFolder, project: str | None, where: Path | None, online: bool) -> RunInfo:
    """A run in a tracker's terms. Its project is the folder that it is in, such as a sweep's."""
    path = folder.path.resolve()
    project = re.sub(r"[^\w.-]", "-", project or path.parent.name)[:100] or "chary"
    config = {part: folder.config[part] for part in SHOWN if part in folder.config}
    return RunInfo(_id(folder), path.name, project, config, path, where, online)


def _id(folder: RunFolder) -> str:
    """The name by which trackers find a run again: made once, and kept in config.json."""
    known = folder.config.get("tracked_as")
    # It becomes part of paths that are removed, and the folder may come from anybody.
    if not isinstance(known, str) or not re.fullmatch("[0-9a-f]{8}", known):
        known = secrets.token_hex(4)
        folder.write_config({**folder.config, "tracked_as": known})
    return known
