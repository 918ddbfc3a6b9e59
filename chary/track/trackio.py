"""trackio: a local database, written anew each time a run is followed."""

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from contextvars import copy_context
from importlib import import_module
from typing import Any

from chary.track import Point, Status, Told

REMOTE = ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL", "TRACKIO_BUCKET_ID", "TRACKIO_DATASET_ID")
"""Variables that make trackio send what it is told."""


class TrackioRun:
    """A run of trackio, found again by its name."""

    def __init__(self, told: Told):
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        if told.where is not None:  # read as it is imported
            os.environ["TRACKIO_DIR"] = str(told.where.absolute())
        trackio: Any = import_module("trackio")
        name = f"{told.name}-{told.id}"
        options: dict[str, Any] = {"auto_log_gpu": False, "auto_log_cpu": False, "embed": False}
        with _quiet(), _unsent(told.online):
            with suppress(ValueError):  # no such project yet
                for run in trackio.Api().runs(told.project):
                    if run.name == name:
                        run.delete()
            # In a context of its own, or it would end the run that was begun before it.
            self._run = copy_context().run(
                trackio.init, project=told.project, name=name, config=told.config, **options
            )
        place = f"TRACKIO_DIR={told.where.absolute()} " if told.where else ""
        self.look = f"trackio: `{place}trackio show --project {told.project}`"

    def log(self, points: Sequence[Point]) -> None:
        for step, _, numbers in points:
            self._run.log(numbers, step=step)

    def end(self, status: Status, summary: Point) -> None:  # noqa: ARG002
        self.log([summary])
        with _quiet():
            self._run.finish()


@contextmanager
def _quiet() -> Iterator[None]:
    """trackio prints to standard output, which is for results."""
    with redirect_stdout(io.StringIO()):
        yield


@contextmanager
def _unsent(online: bool) -> Iterator[None]:
    """Hide what would make trackio send the run, unless that is asked for."""
    hidden = {} if online else {k: os.environ.pop(k) for k in REMOTE if k in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)


begin = TrackioRun
