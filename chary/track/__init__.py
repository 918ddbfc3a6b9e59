"""Experiment trackers as readers of a run folder's logs: TensorBoard, W&B, MLflow and trackio.

One module a tracker, each with `begin(info) -> Tracker`. `following` passes on what is new in the logs,
while a run trains and afterwards alike.
"""

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias

from chary.errors import CharyError
from chary.runs.schema import Record

TrackerName: TypeAlias = Literal["tensorboard", "wandb", "mlflow", "trackio"]
Status: TypeAlias = Literal["finished", "unfinished", "diverged"]

NEEDED = {"mlflow": ("mlflow", "sqlalchemy", "alembic")}
"""Packages of trackers that need others than the one of their name."""


class RunInfo(NamedTuple):
    """What a tracker is told of a run."""

    id: str
    """Eight hexadecimal digits, the run's own."""
    name: str
    project: str
    config: Record
    """Its settings, data and versions, as in config.json."""
    folder: Path
    where: Path | None
    """Folder that the user chose for the tracker's files."""
    online: bool
    """Whether the user asked to send it."""


class Point(NamedTuple):
    """Numbers at a step."""

    step: int
    time: float
    """Seconds since 1970."""
    numbers: dict[str, float]


class Tracker(Protocol):
    """A run as a tracker has it."""

    look: str
    """Where it is, and how to look at it."""

    def log(self, points: Sequence[Point]) -> None:
        """Take in points, in the order of their steps."""
        ...

    def end(self, status: Status, summary: Point) -> None:
        """No more points are to come for now; the summary has the last and the best scores."""
        ...


def require(names: Iterable[str]) -> None:
    """Refuse trackers whose packages are missing, before a run begins."""
    for name in names:
        for package in NEEDED.get(name, (name,)):
            found = find_spec(package)
            # A folder such as ./wandb looks like a package, but has no file of its own.
            if found is None or found.origin is None:
                raise CharyError(
                    f"--track {name} needs another package ({package}): pip install 'chary[{name}]'"
                )
