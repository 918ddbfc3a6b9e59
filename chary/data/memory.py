"""Datasets from what is in memory: arrays, or a frame of pandas, polars or anything that speaks Arrow.

log = chary.dataset(observations=o, actions=a, rewards=r, episodes=day, action_low=0, action_high=4000)
log = chary.from_frame(frame, observations=["indoor", "outdoor"], actions="power", reward="reward",
                       episode="day", action_low=0, action_high=4000)
"""

import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from chary.data.dataset import Dataset
from chary.data.formats import frames
from chary.data.formats.layout import Layout, Reading
from chary.data.formats.timeline import Fill
from chary.errors import CharyError

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
    next_observations: str | Sequence[str] = (),
    episode: str | None = None,
    one_episode: bool = False,
    time: str | None = None,
    time_format: str | None = None,
    max_gap: str | int | float | None = None,
    terminal: str | None = None,
    timeout: str | None = None,
    missing: Sequence[str | int | float] = (),
    drop_missing: bool = False,
    fill: Fill | None = None,
    action_low: Bound = None,
    action_high: Bound = None,
    name: str = "frame",
) -> Dataset:
    """A dataset from a frame of pandas or polars, or from anything with Arrow's interface.

    `observations`, `actions` and `next_observations` are columns by name or pattern ("temp_*"), the
    others one column each. All is as in `chary data import`. `time` puts rows in order, and episodes are
    cut at gaps; without it rows are taken in the frame's order. Missing values are refused with the
    column and the row, unless `drop_missing` or `fill` says what to do with them. What was cut, filled
    and left out is printed. Columns keep their names. Rows count from 0, whatever the frame's index.
    """
    layout = Layout(
        _several(observations),
        _several(actions),
        reward,
        _several(next_observations),
        episode,
        time,
        terminal,
        timeout,
    )
    reading = Reading(
        one_episode=one_episode,
        max_gap=None if max_gap is None else str(max_gap),
        missing=tuple(map(str, missing)),
        drop_missing=drop_missing,
        fill=fill,
        time_format=time_format,
    )
    imported = frames.read_frame(frame, name, layout, reading)
    for line in imported.counts[0].lines:
        print(f"chary: {name}: {frames.in_python(line)}", file=sys.stderr)
    columns = imported.columns
    return Dataset.from_columns(
        columns,
        name=name,
        action_low=_bound(name, "action_low", action_low, columns["actions"], -1.0),
        action_high=_bound(name, "action_high", action_high, columns["actions"], 1.0),
        observation_names=imported.names["observations"],
        action_names=imported.names["actions"],
    )


def _several(asked: str | Sequence[str]) -> tuple[str, ...]:
    return (asked,) if isinstance(asked, str) else tuple(asked)


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
