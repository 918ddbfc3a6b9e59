"""What users hand to an agent: checked before a network sees it, refused with the row and the column.

A network answers anything, a NaN too, and a missing reading must never look like a sure one.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from chary.errors import CharyError

Invalid: TypeAlias = Literal["refuse", "outside"]
SLACK = 1e-5
"""Share of an action's range by which rounding may put it outside its bounds."""


class Names(NamedTuple):
    """What the columns of observations and actions are called; empty where nobody said."""

    observations: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()


UNNAMED = Names()


class Rows(NamedTuple):
    """Input as rows of numbers."""

    values: np.ndarray
    """(row, column), float32; 0 in rows that are not sound."""
    sound: np.ndarray
    """(row,), bool: whether all numbers of a row are finite."""


def rows_of(
    what: str, values: Any, size: int, names: Sequence[str] = (), *, invalid: Invalid = "refuse"
) -> Rows:
    """One row or a batch of them; what is NaN or infinite is refused, or marked where that is asked."""
    if invalid not in get_args(Invalid):
        raise CharyError(f"invalid is '{invalid}', but must be {' or '.join(get_args(Invalid))}.")
    try:
        if np.iscomplexobj(values):
            raise TypeError("complex ones have no order")
        with np.errstate(over="ignore"):  # too large for float32 becomes inf, reported below
            rows = np.array(values, np.float32)
    except (TypeError, ValueError) as error:
        raise CharyError(f"{what} are not real numbers ({error}).") from error
    if rows.shape[-1:] != (size,) or rows.ndim > 2:
        raise CharyError(
            f"{what} have shape {rows.shape}; this agent takes ({size},) or (batch, {size})."
        )
    rows = np.atleast_2d(rows)
    wrong = ~np.isfinite(rows)
    if invalid == "refuse" and wrong.any():
        row, column = (int(index) for index in np.argwhere(wrong)[0])
        number = np.atleast_2d(np.asarray(values))[row, column]
        raise CharyError(
            f"{what}: row {row}, column {column_name(column, names)} is {number}, and {wrong.sum()} "
            f"value(s) in {wrong.any(axis=1).sum()} row(s) are not finite. Leave these rows out, or "
            'use invalid="outside", which gives them an infinite standard deviation.'
        )
    return _marked(rows, wrong)


def actions_of(
    values: Any,
    low: np.ndarray,
    high: np.ndarray,
    names: Sequence[str] = (),
    *,
    invalid: Invalid = "refuse",
) -> Rows:
    """Actions in the environment's units, which must lie within their bounds but for rounding."""
    given = rows_of("actions", values, len(low), names, invalid=invalid)
    slack = SLACK * (high - low)
    wrong = (given.values < low - slack) | (given.values > high + slack)
    wrong &= given.sound[:, None]
    if invalid == "refuse" and wrong.any():
        row, column = (int(index) for index in np.argwhere(wrong)[0])
        raise CharyError(
            f"actions: row {row}, column {column_name(column, names)} is {given.values[row, column]:g}, "
            f"outside its bounds [{low[column]:g}, {high[column]:g}], and {wrong.sum()} value(s) in "
            f"{wrong.any(axis=1).sum()} row(s) are. The critics were not trained on such actions: "
            'stay within the bounds, or use invalid="outside".'
        )
    marked = _marked(given.values, wrong)
    return Rows(marked.values, marked.sound & given.sound)


def _marked(rows: np.ndarray, wrong: np.ndarray) -> Rows:
    sound = np.asarray(~wrong.any(axis=1))
    return Rows(np.where(sound[:, None], rows, np.float32(0.0)), sound)


def column_name(column: int, names: Sequence[str]) -> str:
    return f"{column} ({names[column]})" if column < len(names) else str(column)
