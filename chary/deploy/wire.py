"""Requests' JSON as arrays, and arrays as answers' JSON. What is wrong is named, with its place."""

import json
from typing import Any

import numpy as np

from chary.deploy.source import Rows, Source
from chary.evaluation.inputs import column_name

NUMBERS = {int, float, type(None)}
"""Types of readings: True and "1" are none."""


class RefusedError(Exception):
    """A request that is not answered: an HTTP status, and one sentence why."""

    def __init__(self, status: int, sentence: str):
        super().__init__(sentence)
        self.status = status


def parsed(body: bytes, source: Source, max_rows: int) -> tuple[Rows, Rows | None]:
    """Observations and, if there are any, actions."""

    def constant(name: str) -> None:
        raise ValueError(f"{name} is no JSON; null is a missing reading")

    try:
        given = json.loads(body, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise RefusedError(400, f"the request is not JSON ({error})") from None
    known = ("observations", "actions")
    if not isinstance(given, dict) or "observations" not in given:
        raise RefusedError(422, 'the request must be an object: {"observations": [[...], ...]}')
    if unknown := sorted(given.keys() - known):
        raise RefusedError(422, f"{unknown[0][:40]!r} is unknown; there are {' and '.join(known)}")
    rows = rows_in("observations", given["observations"], source, max_rows)
    if given.get("actions") is None:
        return rows, None
    if not source.judges:
        raise RefusedError(422, "actions: this policy is served without critics to judge them by")
    actions = rows_in("actions", given["actions"], source, max_rows)
    if len(actions) != len(rows):
        raise RefusedError(422, f"{len(rows)} observation(s) but {len(actions)} action(s)")
    return rows, actions


def rows_in(what: str, given: Any, source: Source, max_rows: int) -> Rows:
    """A list of rows, or one row, as an array; null is NaN."""
    size, names = source.size(what), source.metadata["columns"][what]
    if not isinstance(given, list) or not given:
        raise RefusedError(422, f"{what} must be a list of rows of {size} numbers")
    rows = given if isinstance(given[0], list) else [given]
    if len(rows) > max_rows:
        raise RefusedError(422, f"{what}: {len(rows)} rows, but at most {max_rows} are taken")
    for i, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != size:
            found = f"{len(row)} value(s)" if isinstance(row, list) else "no list"
            raise RefusedError(422, f"{what}: row {i} has {found}, not {size} numbers")
        if not {*map(type, row)} <= NUMBERS:
            j = next(j for j, x in enumerate(row) if type(x) not in NUMBERS)
            raise RefusedError(422, f"{what}: row {i}, column {column_name(j, names)} is no number")
    try:
        with np.errstate(over="ignore"):  # infinite, and flagged
            return np.array(rows, np.float32)
    except OverflowError:
        raise RefusedError(422, f"{what}: a whole number is too large") from None


def plain(values: np.ndarray) -> list[Any]:
    """Lists for JSON, which knows neither NaN nor infinities: they are null."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        known = np.isfinite(values)
        values = values.astype(object)
        values[~known] = None
    return values.tolist()
