"""Names of columns and places in the user's own files, which travel with a dataset."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chary.errors import one_line

DEEPEST = 20
"""Lists and objects in one another that JSON beside a dataset may have; chary writes two."""
NAMES = {"observations": "observation_names", "actions": "action_names"}
"""The attribute of a dataset file that names the dimensions of a column."""
FILES = "source_files"
"""The attribute that names the files whose rows `source_rows` counts, each with its first row."""
LONGEST = 60_000
"""Characters of all names together; HDF5 keeps no longer attribute."""


def parsed(text: str) -> Any:
    """What JSON in a dataset says; a ValueError where it is none, or nests for nothing."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError("JSON nested too deeply") from error
    _check_depth(value, DEEPEST)
    return value


def _check_depth(value: Any, left: int) -> None:
    if not left:
        raise ValueError("JSON nested too deeply")
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_depth(part, left - 1)


def attributes_of(observation_names: Sequence[str], action_names: Sequence[str]) -> dict[str, str]:
    """Names as text beside the arrays of a file; none where there are none, or far too many."""
    texts = {
        key: json.dumps(list(names))
        for key, names in zip(NAMES.values(), (observation_names, action_names), strict=True)
    }
    return {k: v for k, v in texts.items() if v != "[]" and len(v) <= LONGEST}


def names_in(
    attributes: Mapping[str, Any], widths: Mapping[str, int]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of observations and of actions in a file; none where they do not fit the columns."""
    found = []
    for column, key in NAMES.items():
        try:
            names = parsed(str(attributes.get(key, "[]")))
        except ValueError:
            names = []
        fits = isinstance(names, list) and all(isinstance(name, str) for name in names)
        found.append(tuple(names) if fits and len(names) == widths.get(column) else ())
    return found[0], found[1]


def files_text(files: Sequence[tuple[str, int]]) -> str:
    """Names of files with the number of their first row, counted through all."""
    return json.dumps([list(entry) for entry in files])


class Places:
    """Rows of a dataset as rows of the user's own files, where these are known."""

    def __init__(self, rows: np.ndarray | None = None, files: str = ""):
        self.rows = rows
        self.names, self.starts = _parse(files)

    def row(self, row: int) -> str:
        """A row in words: its number, and its file where there are several."""
        if self.rows is None:
            return str(int(row))
        number = int(self.rows[row])
        if len(self.names) < 2:
            return str(number)
        file = int(np.searchsorted(self.starts, number, side="right")) - 1
        return f"{number - self.starts[file]} of {self.names[file]}"

    @property
    def source(self) -> str:
        """Whose rows are counted; nothing where they are the dataset's own."""
        return ", ".join(self.names) if self.rows is not None else ""


def _parse(text: str) -> tuple[list[str], list[int]]:
    try:
        entries = [(one_line(str(name)), int(start)) for name, start in parsed(text or "[]")]
    except (ValueError, TypeError, OverflowError):  # the last where a number is infinite
        entries = []
    if not entries or entries[0][1] != 0:
        return [], []
    return [name for name, _ in entries], [start for _, start in entries]
