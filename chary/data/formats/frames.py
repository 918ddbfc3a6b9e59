"""Frames of pandas and polars, Arrow's tables, and anything that speaks Arrow, read as files are."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from chary.data.formats.layout import Layout, Reading, check
from chary.data.formats.tables import Imported, Source, read_one, refusal
from chary.errors import CharyError


def read_frame(frame: Any, name: str, layout: Layout, reading: Reading) -> Imported:
    """The frame's rows in D4RL's columns; `name` is what messages call it."""
    problems: list[str] = []
    try:
        check(layout, reading)
        part = read_one(name, partial(_opened, name, frame), layout, reading, problems)
        if part is None:
            raise refusal(name, problems)
    except CharyError as error:
        raise CharyError(in_python(str(error))) from error
    return part


def in_python(message: str) -> str:
    """A message about options of the command line as one about arguments."""
    message = re.sub(r"--(drop-missing|one-episode)", r"--\1=True", message)
    message = re.sub(r"--(fill) (\w+)", r"--\1='\2'", message)
    return re.sub(r"--([a-z]+(?:-[a-z]+)*)", lambda found: found[1].replace("-", "_"), message)


def _opened(name: str, frame: Any) -> Source:
    """The frame's columns; an index without a name is none of them."""
    import pyarrow

    if hasattr(frame, "collect") and not hasattr(frame, "__arrow_c_stream__"):
        raise CharyError(f"{name}: is not computed yet. Give frame.collect().")
    if hasattr(frame, "columns") and hasattr(frame, "__getitem__") and not _is_arrow(frame):
        labels = {str(label): label for label in frame.columns}
        names = [str(label) for label in frame.columns]
        return Source(names, lambda asked: {each: _column(frame, labels[each]) for each in asked})
    if not (hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__arrow_c_array__")):
        raise CharyError(
            f"{name}: of type {type(frame).__name__}, which is not a frame. Give one of pandas or "
            "polars, or anything with Arrow's interface; for arrays there is chary.dataset."
        )
    table = pyarrow.table(frame)

    def read(asked: Sequence[str]) -> dict[str, Any]:
        return {each: table.column(each) for each in asked}

    return Source(list(table.column_names), read)


def _is_arrow(frame: Any) -> bool:
    return hasattr(frame, "column_names") and hasattr(frame, "schema")


def _column(frame: Any, label: Any) -> Any:
    """One column by itself: others that Arrow does not take are nobody's concern."""
    import pyarrow

    try:
        return pyarrow.table(frame[[label]]).column(0)
    except (pyarrow.ArrowException, TypeError, ValueError):  # objects of several kinds
        return np.asarray(frame[label])
