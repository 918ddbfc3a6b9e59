"""Moments of a run at which something happens to its process."""

import os
import resource
import signal
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

CHECKPOINTS, FOLDER = "chary.runs.checkpoints", "chary.runs.folder"


class Moment(NamedTuple):
    """A function, and where in it: before, after, or so many milliseconds within."""

    module: str
    name: str
    when: str | float

    def reach(self, act: Callable[[], None], number: int) -> Callable[[], None]:
        """Act when it comes for the so manieth time; returns what undoes that."""
        owner: Any = import_module(self.module)
        *above, name = self.name.split(".")
        for part in above:
            owner = getattr(owner, part)
        original, left = getattr(owner, name), number

        def wrapped(*args: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left != 0:
                return original(*args, **options)
            if isinstance(self.when, float):
                threading.Timer(self.when / 1e3, act).start()
                return original(*args, **options)
            if self.when == "before":
                act()
            found = original(*args, **options)
            if self.when == "after":
                act()
            return found

        setattr(owner, name, wrapped)
        return lambda: setattr(owner, name, original)


MOMENTS = {
    "starting": Moment("chary.training.start", "resume_group", "before"),
    "making its folder": Moment("chary.training.groups", "create", "before"),
    "folder made": Moment("chary.training.groups", "create", "after"),
    "reading checkpoints": Moment("chary.training.groups", "restore", "before"),
    "cutting logs back": Moment(FOLDER, "RunFolder.cut_back", "before"),
    "logs cut back": Moment(FOLDER, "RunFolder.cut_back", "after"),
    "before a log line": Moment(FOLDER, "RunFolder.append", "before"),
    "after a log line": Moment(FOLDER, "RunFolder.append", "after"),
    "writing arrays": Moment(CHECKPOINTS, "_orbax_save", "before"),
    "within arrays": Moment(CHECKPOINTS, "_orbax_save", 4.0),
    "arrays written": Moment(CHECKPOINTS, "_orbax_save", "after"),
    "writing the manifest": Moment(CHECKPOINTS, "_sums", "after"),
    "manifest written": Moment(CHECKPOINTS, "_flush_to_disk", "before"),
    "before the rename": Moment(CHECKPOINTS, "_flush_to_disk", "after"),
    "checkpoint saved": Moment(CHECKPOINTS, "save", "after"),
    "noting the first save": Moment(FOLDER, "RunFolder.write_config", "before"),
    "before pruning": Moment(CHECKPOINTS, "prune", "before"),
    "within pruning": Moment(CHECKPOINTS, "_remove", "before"),
    "pruned": Moment(CHECKPOINTS, "prune", "after"),
    "evaluating": Moment("chary.training.loop", "diagnose", "before"),
    "evaluated": Moment("chary.training.loop", "diagnose", "after"),
    "keeping diagnostics": Moment(FOLDER, "RunFolder.save_diagnostics", "after"),
    "at the end": Moment("chary.training.records", "keep_limits", "before"),
}
IN_RESUME = {"reading checkpoints", "cutting logs back", "logs cut back"}
ONLINE = {
    "a round": Moment("chary.online.feed", "Rounds.advance", "before"),
    "acting": Moment("chary.online.actors", "Actors.step", "after"),
    "keeping rows": Moment(FOLDER, "RunFolder.save_rows", "before"),
    "rows kept": Moment(FOLDER, "RunFolder.save_rows", "after"),
    "an episode's end": Moment("chary.online.feed", "Rounds._finish", "after"),
    "replaying": Moment("chary.online.feed", "Rounds._replay", "before"),
}
"""Of a run that learns in its task."""


def signalled(name: str) -> Callable[[], None]:
    """What happens to this process: a signal, or a disk that is full from now on."""

    def act() -> None:
        if name == "FULL":
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, most))
        else:
            os.kill(os.getpid(), signal.Signals[f"SIG{name}"])

    return act
