"""Datasets from what is in memory: arrays, or a frame of pandas, polars or anything that speaks Arrow.

log = chary.dataset(observations=o, actions=a, rewards=r, episodes=day, action_low=0, action_high=4000)
log = chary.from_frame(frame, observations=["indoor", "outdoor"], actions="power", reward="reward",
                       episode="day", action_low=0, action_high=4000)
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

import numpy as np

from chary.data.dataset import Dataset
from chary.errors import CharyError, unknown_name

Bound: TypeAlias = Any  # numbers, or "data"


def dataset(
    *,
    observations: Any,
    actions: Any,
    rewards: Any,
    episodes: Any = None,
    terminals: Any = None,
    timeouts: Any = None,
    next_observations: Any = None,
    action_low: Bound = None,
    action_high: Bound = None,
    observation_names: Sequence[str] = (),
    action_names: Sequence[str] = (),
    name: str = "data",
) -> Dataset:
    """Make a dataset from arrays, with one row per step in logged order.

    Episode ends are required: `episodes` has an id for each row (consecutive rows with one id are one
    episode), `terminals` is true where the task itself ended, `timeouts` where an episode was only cut
    off. The last row of an id counts as cut off, unless `terminals` is true there. Without
    `next_observations` the next row's observation is used, and the last row of an episode that was cut
    off is left out.

    Action bounds are one number, one per column, or "data" for the logged minimum and maximum. They are
    optional if all actions lie in [-1, 1].
    """
    columns = {
        "observations": _matrix(name, "observations", observations),
        "actions": _matrix(name, "actions", actions),
        "rewards": np.asarray(rewards),
    }
    if next_observations is not None:
        columns["next_observations"] = _matrix(name, "next_observations", next_observations)
    rows = len(columns["rewards"])
    columns["terminals"] = np.zeros(rows, bool) if terminals is None else np.asarray(terminals)
    columns["timeouts"] = np.zeros(rows, bool) if timeouts is None else np.asarray(timeouts)
    if episodes is not None:
        columns["timeouts"] = columns["timeouts"] | _last_rows(name, np.asarray(episodes), rows)
    elif terminals is None and timeouts is None:
        raise CharyError(
            f"{name}: where episodes end cannot be guessed. Give episodes (an id for each row), or "
            "terminals, or timeouts; for one unbroken log, episodes=np.zeros(len(rewards))."
        )
    return Dataset.from_columns(
        columns,
        name=name,
        action_low=_bound(name, "action_low", action_low, columns["actions"], -1.0),
        action_high=_bound(name, "action_high", action_high, columns["actions"], 1.0),
        observation_names=tuple(observation_names),
        action_names=tuple(action_names),
    )


def from_frame(
    frame: Any,
    *,
    observations: str | Sequence[str],
    actions: str | Sequence[str],
    reward: str,
    episode: str | None = None,
    terminal: str | None = None,
    timeout: str | None = None,
    action_low: Bound = None,
    action_high: Bound = None,
    name: str = "frame",
) -> Dataset:
    """Make a dataset from a frame of pandas or polars, or from anything with Arrow's interface.

    `observations` and `actions` are column names or patterns ("temp_*"), the others one column each;
    everything else is as in `chary.dataset`. Columns keep their names. Rows keep the frame's order, so
    sort it by episode and time first. Missing values are an error that names the column and the row.
    """
    frame = _indexable(name, frame)
    known = [str(column) for column in getattr(frame, "columns", ()) if isinstance(column, str)]
    if hasattr(frame, "column_names"):  # Arrow's own tables
        known = list(frame.column_names)
    chosen = {
        "observations": _choose(name, "observations", observations, known),
        "actions": _choose(name, "actions", actions, known),
    }
    both = set(chosen["observations"]) & set(chosen["actions"])
    if both:
        raise CharyError(
            f"{name}: {sorted(both)[0]} is taken twice, in observations and in actions."
        )

    def column(kind: str, asked: str | None) -> np.ndarray | None:
        if asked is None:
            return None
        (found,) = _choose(name, kind, asked, known, several=False)
        return _numbers(name, found, frame[found])

    ids = None
    if episode is not None:
        (found,) = _choose(name, "episode", episode, known, several=False)
        ids = np.asarray(frame[found].to_numpy())
    matrices = {
        kind: np.stack([_numbers(name, column, frame[column]) for column in names], axis=1)
        for kind, names in chosen.items()
    }
    return dataset(
        **matrices,
        rewards=column("reward", reward),
        episodes=ids,
        terminals=column("terminal", terminal),
        timeouts=column("timeout", timeout),
        action_low=action_low,
        action_high=action_high,
        observation_names=chosen["observations"],
        action_names=chosen["actions"],
        name=name,
    )


def _matrix(name: str, kind: str, values: Any) -> np.ndarray:
    """(row, column); a single column may come without its axis."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise CharyError(f"{name}: {kind} are not one array of numbers ({error}).") from error
    return array[:, None] if array.ndim == 1 else array


def _last_rows(name: str, ids: np.ndarray, rows: int) -> np.ndarray:
    """Where the id of an episode stands for the last time."""
    if ids.shape != (rows,):
        raise CharyError(f"{name}: episodes have shape {ids.shape}, but there are {rows} rewards.")
    if not rows:
        return np.zeros(0, bool)
    last = np.append(ids[1:] != ids[:-1], True)
    starts = np.concatenate([[0], np.flatnonzero(last)[:-1] + 1])
    _, first = np.unique(ids[starts].astype(str), return_index=True)
    again = np.setdiff1d(np.arange(len(starts)), first)
    if again.size:
        row = int(starts[again[0]])
        raise CharyError(
            f"{name}: episode {ids[row]} comes back in row {row}: an episode must be consecutive rows. "
            "Sort the rows by episode and time."
        )
    return last


def _bound(
    name: str, option: str, given: Bound, actions: np.ndarray, default: float
) -> np.ndarray | float:
    if isinstance(given, str):
        if given != "data":
            raise CharyError(f"{name}: {option} is '{given}', but must be numbers or 'data'.")
        return np.asarray((np.min if option == "action_low" else np.max)(actions, axis=0))
    if given is not None:
        return np.asarray(given, np.float32)
    if actions.size and np.abs(actions.astype(np.float64)).max() > 1.0:
        seen = f"{actions.min():g} to {actions.max():g}"
        raise CharyError(
            f"{name}: actions lie in {seen}, outside [-1, 1]. Give their bounds as action_low and "
            "action_high: numbers, or 'data' for what was seen."
        )
    return default


def _indexable(name: str, frame: Any) -> Any:
    """A frame that gives columns by their names, through Arrow where it does not itself."""
    if hasattr(frame, "__getitem__") and hasattr(frame, "columns"):
        return frame
    if not hasattr(frame, "__arrow_c_stream__"):
        raise CharyError(
            f"{name}: of type {type(frame).__name__}, which is no frame: give one of pandas or polars, "
            "or anything with Arrow's interface; for arrays there is chary.dataset."
        )
    import pyarrow

    return pyarrow.table(frame)


def _choose(
    name: str, kind: str, asked: str | Sequence[str], known: list[str], *, several: bool = True
) -> list[str]:
    """The columns that are asked for by name or pattern, in the frame's order within a pattern."""
    chosen: list[str] = []
    for word in [asked] if isinstance(asked, str) else asked:
        found = [word] if word in known else [c for c in known if several and fnmatchcase(c, word)]
        if not found:
            raise unknown_name("column", word, known, f"(for {kind}, in {name})")
        chosen += found
    repeated = [column for column in chosen if chosen.count(column) > 1]
    if repeated or not chosen:
        problem = f"takes {repeated[0]} twice" if repeated else "names no column"
        raise CharyError(f"{name}: {kind} {problem}.")
    return chosen


def _numbers(name: str, column: str, values: Any) -> np.ndarray:
    """A column as float64; what is missing or no number is refused with its row."""
    array = np.asarray(values.to_numpy())
    if array.dtype.kind in "biuf":
        numbers = array.astype(np.float64)
    else:
        numbers = np.full(len(array), np.nan)
        for row, value in enumerate(array.tolist()):
            try:
                numbers[row] = np.nan if value is None else float(value)
            except (TypeError, ValueError):
                missing = str(value) in ("<NA>", "NaT", "")
                if not missing:
                    raise CharyError(
                        f"{name}: column {column}, row {row} is {value!r}, not a number."
                    ) from None
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        raise CharyError(
            f"{name}: column {column} has {bad.size} missing or infinite value(s), first in row "
            f"{bad[0]}. Leave these rows out and give the pieces before and after them episodes of "
            "their own: a transition must not span a gap."
        )
    return numbers
