"""The columns of a dataset: what they must be, and what to say where they are not."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from chary.errors import CharyError

COLUMNS = (
    "observations",
    "actions",
    "rewards",
    "next_observations",
    "terminals",
    "timeouts",
)
EXTRAS = ("source_rows", "times")
"""Columns that learning does not need: the row of the user's file, and when it was logged."""
PIECE = 2**16
"""Rows looked at or copied at a time where the whole may not fit into memory."""


def checked_columns(columns: dict[str, np.ndarray], source: str) -> dict[str, np.ndarray]:
    """The known columns with their right types, or an error that names the first thing wrong."""
    missing = [c for c in COLUMNS if c not in columns and c != "next_observations"]
    if missing:
        hint = ""
        if set(missing) & {"terminals", "timeouts"}:
            hint = (
                " Episode ends must be known: terminals is True where the task itself ended, "
                "timeouts where an episode was only cut; write a column of False if there were none."
            )
        raise CharyError(
            f"{source}: missing {', '.join(missing)}; it has {', '.join(sorted(columns)) or 'nothing'}."
            + hint
        )
    arrays: dict[str, np.ndarray] = {}
    for column in COLUMNS:
        if column not in columns:
            continue
        array = columns[column]
        if not isinstance(array, np.memmap):  # a mapped file stays one
            array = np.asarray(array)
        if array.dtype.kind not in "biuf":
            raise CharyError(f"{source}: {column} holds {array.dtype}, not numbers.")
        width = 2 if column in ("observations", "actions", "next_observations") else 1
        if width == 1 and array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != width:
            expected = "(transition, dimension)" if width == 2 else "(transition,)"
            raise CharyError(
                f"{source}: {column} has shape {array.shape}, but must be {expected}. "
                "Observations and actions are vectors; images and discrete actions are not supported."
            )
        arrays[column] = array
    rows = {column: len(array) for column, array in arrays.items()}
    if len(set(rows.values())) > 1:
        counts = ", ".join(f"{column} {count}" for column, count in rows.items())
        raise CharyError(f"{source}: columns of unequal length ({counts}); every row needs all.")
    if not rows["rewards"]:
        raise CharyError(f"{source}: holds no transitions.")
    for column in ("observations", "actions"):
        if not arrays[column].shape[1]:
            raise CharyError(
                f"{source}: {column} has no dimensions (shape {arrays[column].shape})."
            )
    if "next_observations" in arrays:
        here, after = arrays["observations"].shape, arrays["next_observations"].shape
        if here != after:
            raise CharyError(f"{source}: observations are {here} but next_observations {after}.")
    for column in ("terminals", "timeouts"):
        odd = np.flatnonzero((arrays[column] != 0) & (arrays[column] != 1))
        if odd.size:
            raise CharyError(
                f"{source}: {column} must be True/False or 0/1, but row {odd[0]} is "
                f"{arrays[column][odd[0]]}."
            )
        arrays[column] = arrays[column].astype(bool)
    for column in set(arrays) - {"terminals", "timeouts"}:
        if not (is_mapped(arrays[column]) and arrays[column].dtype == np.float32):
            with np.errstate(over="ignore"):  # too large for float32 becomes inf, reported below
                arrays[column] = np.array(arrays[column], np.float32, order="C")
        bad = rows_where(arrays[column], lambda values: ~np.isfinite(values))
        if bad.size:
            raise CharyError(
                f"{source}: {column} has NaN or infinite values in {bad.size} row(s), first in row "
                f"{bad[0]}. Drop or repair these rows before loading."
            )
    if not (arrays["terminals"].any() or arrays["timeouts"].any()):
        raise CharyError(
            f"{source}: no episode ever ends: terminals and timeouts are False in every row. Mark "
            "where episodes end; if this really is one uninterrupted run, set timeouts in the last row."
        )
    return arrays


def extra_columns(columns: dict[str, np.ndarray], size: int) -> dict[str, np.ndarray]:
    """The extras that fit the rows; a file may hold other things under these names."""
    kinds = {"source_rows": "iu", "times": "iuf"}
    return {
        key: columns[key]
        for key in EXTRAS
        if key in columns
        and columns[key].shape == (size,)
        and columns[key].dtype.kind in kinds[key]
        and bool(np.isfinite(columns[key]).all())
    }


def is_mapped(array: np.ndarray) -> bool:
    """Whether an array stays in a file that nobody writes to through it."""
    return isinstance(array, np.memmap) and not array.flags.writeable


def rows_where(array: np.ndarray, wrong: Callable[[np.ndarray], Any]) -> np.ndarray:
    """Numbers of the rows with a wrong value, piece by piece: the data may not fit into memory."""
    found = []
    for rows in pieces(len(array)):
        marked = wrong(array[rows]).reshape(rows.stop - rows.start, -1)
        found.append(np.flatnonzero(marked.any(axis=1)) + rows.start)
    return np.concatenate(found)


def pieces(size: int) -> Iterator[slice]:
    """Slices that cover so many rows, none of them too long for memory."""
    return (slice(start, min(start + PIECE, size)) for start in range(0, size, PIECE))


def with_next_observations(arrays: dict[str, np.ndarray], source: str) -> dict[str, np.ndarray]:
    """Take each next observation from the next row, and leave out rows that have none."""
    following = np.roll(arrays["observations"], -1, axis=0)
    cut = arrays["timeouts"].copy()
    cut[-1] = True
    # After a true end nothing follows, so its row stays; its own observation stands in.
    following[arrays["terminals"]] = arrays["observations"][arrays["terminals"]]
    dropped = cut & ~arrays["terminals"]
    if dropped.all():
        raise CharyError(
            f"{source}: without next_observations, and with an end in every row, no transition is "
            "left. Add next_observations."
        )
    # The row before a dropped one becomes the last of its episode.
    arrays["timeouts"] = np.roll(dropped, -1)
    arrays["timeouts"][-1] = False
    kept = {column: array[~dropped] for column, array in arrays.items()}
    arrays.clear()
    return kept | {"next_observations": following[~dropped]}


def bound_of(bound: np.ndarray | float, size: int, source: str) -> np.ndarray:
    bound = np.array(bound, np.float32)
    if bound.shape not in ((), (size,)):
        raise CharyError(
            f"{source}: action bounds must be one number, or one for each of {size} action "
            f"dimension(s), but have shape {bound.shape}."
        )
    return np.broadcast_to(bound, (size,)).copy()


def check_actions(actions: np.ndarray, low: np.ndarray, high: np.ndarray, source: str) -> None:
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise CharyError(f"{source}: action bounds must be finite and low < high: {low}, {high}.")
    slack = 1e-5 * (high - low)  # rounding in the logging program
    outside = rows_where(actions, lambda a: (a < low - slack) | (a > high + slack))
    if outside.size:
        row = outside[0]
        raise CharyError(
            f"{source}: {outside.size} action(s) outside [{low.min():g}, {high.max():g}], first in "
            f"row {row}: {actions[row].tolist()}. Scale actions into their bounds, or give the true "
            "bounds as action_low and action_high."
        )
