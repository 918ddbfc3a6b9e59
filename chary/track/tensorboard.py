"""TensorBoard event files, written anew from the logs each time a run is followed."""

import json
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from chary.track import Point, RunInfo, Status


class EventFiles:
    """A run's event files."""

    def __init__(self, info: RunInfo):
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        # Made from protocol buffers at run time, so no type checker can see into them.
        self._event: Any = import_module("tensorboard.compat.proto.event_pb2")
        self._summary: Any = import_module("tensorboard.compat.proto.summary_pb2")
        own = info.folder / "tensorboard"
        path = info.where / f"{info.name}-{info.id}" if info.where else own
        self.look = f"tensorboard: `tensorboard --logdir {info.where or info.folder.parent}`"
        for old in path.glob("events.*"):
            old.unlink()
        self._writer = EventFileWriter(str(path))
        self._text("config", f"```\n{json.dumps(info.config, indent=2)}\n```")

    def _text(self, tag: str, text: str) -> None:
        """A text, for TensorBoard's page of texts."""
        tensor: Any = import_module("tensorboard.compat.proto.tensor_pb2")
        types: Any = import_module("tensorboard.compat.proto.types_pb2")
        plugin = self._summary.SummaryMetadata.PluginData(plugin_name="text")
        value = self._summary.Summary.Value(
            tag=tag,
            metadata=self._summary.SummaryMetadata(plugin_data=plugin),
            tensor=tensor.TensorProto(dtype=types.DT_STRING, string_val=[text.encode()]),
        )
        self._add(0, time.time(), [value])

    def _add(self, step: int, at: float, values: list[Any]) -> None:
        summary = self._summary.Summary(value=values)
        self._writer.add_event(self._event.Event(step=step, summary=summary, wall_time=at))

    def log(self, points: Sequence[Point]) -> None:
        value = self._summary.Summary.Value
        for step, at, numbers in points:
            self._add(step, at, [value(tag=k, simple_value=v) for k, v in numbers.items()])
        self._writer.flush()

    def end(self, status: Status, summary: Point) -> None:  # noqa: ARG002
        self.log([summary])
        self._writer.close()


begin = EventFiles
