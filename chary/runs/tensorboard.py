"""TensorBoard event files, made from the same numbers as the run folder's own logs."""

import time
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import TracebackType
from typing import Any

from chary.errors import CharyError
from chary.runs.folder import RunFolder


def require_tensorboard() -> None:
    """Refuse before a run begins where the package is missing."""
    if find_spec("tensorboard") is None:
        raise CharyError(
            "--tensorboard needs the tensorboard package: pip install 'chary[tensorboard]'."
        )


class EventFiles:
    """Writes scalars beside the logs; started anew from the logs each time a run is resumed."""

    def __init__(self, folder: RunFolder, *, enabled: bool):
        self.folder = folder
        self.enabled = enabled
        self._writer: Any = None

    def __enter__(self) -> "EventFiles":
        if not self.enabled:
            return self
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        # Made from protocol buffers at run time, so no type checker can see into them.
        self._event: Any = import_module("tensorboard.compat.proto.event_pb2")
        self._summary: Any = import_module("tensorboard.compat.proto.summary_pb2")
        path = self.folder.path / "tensorboard"
        for old in path.glob("events.*"):
            old.unlink()
        self._writer = EventFileWriter(str(path))
        for record in self.folder.read("metrics"):
            self.metrics(record["step"], record)
        for record in self.folder.read("evals"):
            self.evaluation(record)
        return self

    def evaluation(self, record: Mapping[str, Any]) -> None:
        """One point for every number that sums up an evaluation."""
        numbers = {f"eval/{k}": v for k, v in record.items() if k not in ("step", "episodes")}
        sampled = {f"eval/sampled/{k}": v for k, v in (record.get("sampled") or {}).items()}
        self.metrics(record["step"], numbers | sampled)

    def metrics(self, step: int, record: Mapping[str, Any]) -> None:
        """One point for every number in the record."""
        if self._writer is None:
            return
        values = [
            self._summary.Summary.Value(tag=name, simple_value=float(value))
            for name, value in record.items()
            if isinstance(value, int | float) and name != "step"
        ]
        summary = self._summary.Summary(value=values)
        event = self._event.Event(step=step, summary=summary, wall_time=time.time())
        self._writer.add_event(event)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._writer.close()
