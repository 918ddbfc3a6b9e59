"""trackio: a local database, written anew each time a run is followed."""

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from contextvars import copy_context
from importlib import import_module
from typing import Any

from chary.track import Point, RunInfo, Status

REMOTE = ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL", "TRACKIO_BUCKET_ID", "TRACKIO_DATASET_ID")
"""Variables that make trackio send what it gets."""


class TrackioRun:
    """A run of trackio, found again by its name."""

    def __init__(self, info: RunInfo):
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        if info.where is not None:  # read as it is imported
            os.environ["TRACKIO_DIR"] = str(info.where.absolute())
        trackio: Any = import_module("trackio")
        name = f"{info.name}-{info.id}"
        options: dict[str, Any] = {"auto_log_gpu": False, "auto_log_cpu": False, "embed": False}
        with _quiet(), _unsent(info.online):
            with suppress(ValueError):  # no such project yet
                for run in trackio.Api().runs(info.project):
                    if run.name == name:
                        run.delete()
            # In a context of its own, or it would end the run that was begun before it.
            self._run = copy_context().run(
                trackio.init, project=info.project, name=name, config=info.config, **options
            )
        place = f"TRACKIO_DIR={info.where.absolute()} " if info.where else ""
        self.look = f"trackio: `{place}trackio show --project {info.project}`"

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
