"""The user's own tables: npz, HDF5, Parquet and CSV files whose columns the user names.

Rows count from 0 in every message, a CSV file's heading not counted.
"""

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from chary.data.formats import arrow, hdf5, npz
from chary.errors import CharyError

Columns = dict[str, np.ndarray]
VECTORS = {
    "observations": "--observations",
    "actions": "--actions",
    "next_observations": "--next-observations",
}
SINGLES = {"rewards": "--reward", "terminals": "--terminal", "timeouts": "--timeout"}


@dataclass(frozen=True)
class Layout:
    """Which columns of a table mean what; vectors by patterns, single columns by name."""

    observations: tuple[str, ...]
    actions: tuple[str, ...]
    reward: str
    next_observations: tuple[str, ...] = ()
    episode: str | None = None
    time: str | None = None
    terminal: str | None = None
    timeout: str | None = None

    def options(self) -> dict[str, tuple[str, ...]]:
        """The patterns that are given, by the option that gives them."""
        given = {key: getattr(self, key) for key in self.__dataclass_fields__}
        return {
            f"--{key.replace('_', '-')}": (patterns,) if isinstance(patterns, str) else patterns
            for key, patterns in given.items()
            if patterns
        }


def read_tables(
    paths: Sequence[Path], layout: Layout, *, tell: Callable[[str], None] = lambda _: None
) -> Columns:
    """The files' rows in D4RL's columns; `tell` hears which of the files' columns were taken.

    Files follow each other, and no episode goes on from one to the next.
    """
    if not (layout.episode or layout.terminal or layout.timeout):
        raise CharyError(
            "where episodes end must be known: name the column of episode ids with --episode, or "
            "columns of flags: --terminal where the task itself ended, --timeout where it was cut."
        )
    if not (layout.observations and layout.actions and layout.reward):
        raise CharyError("--observations, --actions and --reward must each name a column.")
    if layout.time and not layout.episode:
        raise CharyError("--time puts the rows of an episode in order: it needs --episode.")
    parts = [_read_one(path, layout, tell) for path in paths]
    for path, part in zip(paths, parts, strict=True):
        for key, rows in part.items():
            if rows.shape[1:] != parts[0][key].shape[1:]:
                raise CharyError(
                    f"{path}: has {rows.shape[1]} columns of {key}, but {paths[0]} has "
                    f"{parts[0][key].shape[1]}."
                )
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def action_bounds(
    actions: np.ndarray, low: Sequence[str], high: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """The bounds as given (numbers, or the word `data`), or [-1, 1] where all actions are in it."""
    seen = {"low": actions.min(axis=0), "high": actions.max(axis=0)}
    if low and high:
        return _bound("low", low, seen["low"]), _bound("high", high, seen["high"])
    if not low and not high and np.abs(actions).max() <= 1.0:
        size = actions.shape[1]
        return np.full(size, -1.0), np.full(size, 1.0)
    lows, highs = (" ".join(f"{value:g}" for value in seen[end]) for end in ("low", "high"))
    raise CharyError(
        "the bounds of the actions must be known: give --action-low and --action-high, each one number "
        f"or one for every dimension. The data lies between {lows} and {highs}; `--action-low data "
        "--action-high data` takes just that."
    )


def _read_one(path: Path, layout: Layout, tell: Callable[[str], None]) -> Columns:
    """One file's rows, episodes in order and their ends marked."""
    raw = _read_columns(path)
    chosen = _choose(path, list(raw), layout)
    for option, names in chosen.items():
        tell(f"{path}: {option} takes {', '.join(names)}")
    columns = {name: _array(path, name, raw[name]) for names in chosen.values() for name in names}
    _check_rows(path, columns)
    rows: Columns = {}
    for key, option in VECTORS.items():
        if option in chosen:
            rows[key] = np.hstack([_numbers(path, name, columns[name]) for name in chosen[option]])
    for key, option in SINGLES.items():
        if option in chosen:
            (name,) = chosen[option]
            numbers = _numbers(path, name, columns[name])
            if numbers.shape[1] != 1:
                raise CharyError(
                    f"{path}: '{name}' is {numbers.shape}, but {option} is one column."
                )
            rows[key] = numbers[:, 0]
            odd = np.flatnonzero((rows[key] != 0) & (rows[key] != 1)) if key != "rewards" else []
            if len(odd):
                raise CharyError(
                    f"{path}: '{name}' must be true or false, but row {odd[0]} is {rows[key][odd[0]]}."
                )
    size = len(rows["rewards"])
    for key in ("terminals", "timeouts"):
        rows.setdefault(key, np.zeros(size, bool))
    last = np.arange(size) == size - 1
    if layout.episode:
        ids = columns[layout.episode]
        order = _order(path, layout, ids, columns[layout.time] if layout.time else None)
        rows, ids = {key: array[order] for key, array in rows.items()}, ids[order]
        last[:-1] = ids[1:] != ids[:-1]
        early = np.flatnonzero((rows["terminals"] == 1) & ~last)
        if early.size:
            raise CharyError(
                f"{path}: by '{layout.terminal}' the task ended in row {order[early[0]]}, but episode "
                f"{ids[early[0]]} goes on after it."
            )
    rows["timeouts"] = np.where(last & (rows["terminals"] != 1), 1, rows["timeouts"])
    return rows


def _read_columns(path: Path) -> dict[str, Any]:
    """The file's columns in its own order."""
    if not path.is_file():
        raise CharyError(f"{path}: no such file.")
    suffix = path.suffix.lower()
    if suffix in arrow.ENDINGS:
        return arrow.read(path)
    if suffix == ".npz":
        return dict(npz.read(path)[0])
    if suffix in (".hdf5", ".h5"):
        return dict(hdf5.read(path)[0])
    raise CharyError(
        f"{path}: cannot tell the format from '{path.suffix}'; tables end in .csv, .parquet, .npz, "
        ".hdf5 or .h5."
    )


def _choose(path: Path, names: list[str], layout: Layout) -> dict[str, list[str]]:
    """The columns that each option takes; none may be taken twice."""
    chosen: dict[str, list[str]] = {}
    taken: dict[str, str] = {}
    for option, patterns in layout.options().items():
        chosen[option] = []
        for pattern in patterns:
            # A name is itself, even one with brackets in it.
            matches = [pattern] if pattern in names else _matching(pattern, names)
            if not matches:
                close = difflib.get_close_matches(pattern, names, n=3, cutoff=0.3)
                raise CharyError(
                    f"{path}: no column matches {option} '{pattern}'. "
                    + (
                        f"The nearest are {', '.join(close)}."
                        if close
                        else f"It has {_list(names)}."
                    )
                )
            for name in matches:
                if name in taken:
                    raise CharyError(
                        f"{path}: column '{name}' is taken twice: by {taken[name]} and by {option} "
                        f"'{pattern}'."
                    )
                taken[name] = f"{option} '{pattern}'"
            chosen[option] += matches
        if option not in VECTORS.values() and len(chosen[option]) > 1:
            raise CharyError(
                f"{path}: {option} is one column, but '{patterns[0]}' matches {_list(chosen[option])}."
            )
    return chosen


def _matching(pattern: str, names: list[str]) -> list[str]:
    """Matches in the file's order, but those that differ in their numbers only in counting order."""
    matches = [name for name in names if fnmatchcase(name, pattern)]
    without_numbers = [re.sub(r"\d+", "#", name) for name in matches]

    def place(name: str) -> tuple[int, list[int]]:
        kind = without_numbers.index(re.sub(r"\d+", "#", name))
        return kind, [int(number) for number in re.findall(r"\d+", name)]

    return sorted(matches, key=place)


def _array(path: Path, name: str, column: Any) -> np.ndarray:
    where = f"{path}: column '{name}'"
    array = column if isinstance(column, np.ndarray) else arrow.to_numpy(column, where)
    if array.ndim not in (1, 2) or not all(array.shape[1:]):
        raise CharyError(f"{where} has shape {array.shape}; a column is a list or a matrix.")
    return array


def _check_rows(path: Path, columns: Columns) -> None:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        counts = _list([f"{name} {length}" for name, length in lengths.items()])
        raise CharyError(f"{path}: columns of unequal length ({counts}); every row needs all.")
    if not max(lengths.values()):
        raise CharyError(f"{path}: holds no rows.")


def _numbers(path: Path, name: str, column: np.ndarray) -> np.ndarray:
    """The column as a matrix of finite numbers."""
    matrix = column.reshape(len(column), -1)
    if column.dtype.kind not in "biuf":
        odd = next((i for i, value in enumerate(matrix[:, 0]) if not _is_number(value)), 0)
        raise CharyError(
            f"{path}: column '{name}' must hold numbers, but row {odd} is {str(matrix[odd, 0])[:40]!r}."
        )
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if bad.size:
        raise CharyError(
            f"{path}: column '{name}' has no finite number in row {bad[0]} ({bad.size} such rows). "
            "Fill them in, or drop these rows."
        )
    return matrix


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _order(path: Path, layout: Layout, ids: np.ndarray, times: np.ndarray | None) -> np.ndarray:
    """The rows, episode after episode as they first appear, each in order of time."""
    if ids.ndim != 1 or (ids.dtype.kind == "f" and not np.isfinite(ids).all()):
        raise CharyError(f"{path}: '{layout.episode}' must hold one id in every row.")
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    began = first[inverse]
    if times is None:
        back = np.flatnonzero((began[1:] != began[:-1]) & (began[1:] < np.arange(1, len(ids)))) + 1
        if back.size:
            raise CharyError(
                f"{path}: episode {ids[back[0]]} comes back in row {back[0]}, after another. An id is "
                "one episode, its rows together; where several were logged at once, give --time."
            )
        return np.arange(len(ids))
    if times.ndim != 1 or times.dtype.kind not in "biufM":
        raise CharyError(
            f"{path}: '{layout.time}' must hold numbers or times to put rows in order."
        )
    order = np.lexsort((times, began))
    same = (np.diff(began[order]) == 0) & (times[order][1:] == times[order][:-1])
    if same.any():
        row = order[1:][same][0]
        raise CharyError(
            f"{path}: episode {ids[row]} has two rows at time {times[row]}, one of them row {row}: "
            "their order is not known, or the id is of two episodes."
        )
    return order


def _bound(end: str, words: Sequence[str], seen: np.ndarray) -> np.ndarray:
    if list(words) == ["data"]:
        return seen
    try:
        numbers = np.array([float(word) for word in words])
    except ValueError as error:
        raise CharyError(f"--action-{end} is {' '.join(words)}: numbers, or `data`.") from error
    if len(numbers) not in (1, len(seen)):
        raise CharyError(
            f"--action-{end} has {len(numbers)} numbers for {len(seen)} action dimension(s)."
        )
    return np.broadcast_to(numbers, seen.shape)


def _list(names: Sequence[str]) -> str:
    """A few names in words."""
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
