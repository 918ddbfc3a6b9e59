"""Runs that learn in their task: how it went, what they tried, and where that led them.

Steps are environment steps. Files of rows may be many and large: they are read one at a time, and what
is kept of one is remembered for as long as the file stays the same.
"""

import os
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from math import gcd
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chary.report.story import RunStory, thin
from chary.runs.arrays import UNREADABLE, read_arrays
from chary.runs.schema import Record, is_number, require_shapes

WIDTH = 20
"""Acted episodes that a moving mean is taken over; the guard looks at as many."""
LINE, DOTS = 5, 10
"""Points of a line and dots of the maps here, for each point that a logged curve may have."""
PANELS = 4
"""Maps that a run is divided into."""

Points = list[tuple[int, float]]
"""Numbers by the step that they are of."""


class Rows(NamedTuple):
    """What is kept of one file of rows."""

    first: int
    """Step of its first row."""
    ended: int
    """Episodes that ended in it."""
    going_on: tuple[float, ...]
    """The smallest and largest reward of steps that did not end the task."""
    ending: tuple[float, ...]
    """Of those that did."""
    steps: np.ndarray
    """Of the rows whose place is shown."""
    places: np.ndarray
    """(place, 2): their first two observations."""


def online_data(story: RunStory, points: int) -> Record | None:
    """A run's part of the page; None where it does not learn in its task."""
    if not story.is_online:
        return None
    measure = _measure(story)
    evaluated = [(e["step"], e[measure]) for e in story.evaluations if is_number(e.get(measure))]
    acted = [
        (e["step"], value) for e in story.episodes if (value := _value(e, measure)) is not None
    ]
    maps, ended = _maps(story, DOTS * points)
    if ended and not story.episodes:
        story.warn("episodes.jsonl: missing or without a line, but episodes were acted.")
    found = _result(story, measure, evaluated)
    return {
        **found,
        "sentence": _sentence(found, story),
        "evaluations": _columns(evaluated, LINE * points),
        "acted": _columns(_moving_mean(acted), LINE * points),
        "guarded": _guarded(story, LINE * points),
        "maps": maps,
    }


def rewards_seen(story: RunStory) -> dict[str, tuple[float, ...]]:
    """The smallest and largest reward in the task, as `rewards` in data.json has them of the data."""
    seen = list(_files(story, 0)) if story.is_online else []
    return {
        kind: tuple(reward for rows in seen for reward in getattr(rows, kind))
        for kind in ("going_on", "ending")
    }


def _measure(story: RunStory) -> str:
    """What a task is judged by: success where it knows that, else the return."""
    lines = story.evaluations or story.episodes
    return "success" if any(_value(line, "success") is not None for line in lines) else "return"


def _value(line: Record, measure: str) -> float | None:
    """A number of an evaluation or an episode, whose success is yes or no."""
    value = line.get(measure)
    return float(value) if isinstance(value, bool) or is_number(value) else None


def _result(story: RunStory, measure: str, evaluated: Points) -> Record:
    """What came of it, in numbers; None where one is not known."""
    successes = [s for e in story.episodes if (s := _value(e, "success")) is not None]
    later = [value for _, value in evaluated[1:]]
    online, at_start = story.part("online"), bool(evaluated) and evaluated[0][0] == 0
    # The guard compares with the policy that the run started from.
    watches = bool(at_start and online.get("parent") and online.get("guard"))
    up = float(np.mean([_is_up(e) for e in story.episodes])) if story.episodes else 0.0
    lowest = min(evaluated, key=lambda point: point[1], default=None)
    return {
        "measure": measure,
        "before": evaluated[0][1] if later or at_start else None,
        "after": evaluated[-1][1] if later or (evaluated and not at_start) else None,
        "regret": 1.0 - float(np.mean(later)) if later and measure == "success" else None,
        "lowest": lowest and {"step": lowest[0], "value": lowest[1]},
        "episodes": len(story.episodes),
        "succeeded": float(np.mean(successes)) if successes else None,
        "guard": up if up or (watches and story.episodes) else None,
    }


def _sentence(found: Record, story: RunStory) -> str:
    """The result in words."""

    def shown(value: float) -> str:
        return _percent(value) if found["measure"] == "success" else f"{value:.4g}"

    measure, lowest = found["measure"], found["lowest"]
    if found["before"] is not None and found["after"] is not None:
        regret = "" if found["regret"] is None else f"regret {found['regret']:.2f}, "
        low = f"lowest evaluation {shown(lowest['value'])} at step {lowest['step']:,}"
        change = f"from {shown(found['before'])} to {shown(found['after'])}"
        parts = [f"{measure.capitalize()} went {change} ({regret}{low})"]
    elif lowest:
        parts = [f"{measure.capitalize()} was {shown(lowest['value'])} at step {lowest['step']:,}"]
    else:
        parts = ["The policy was not evaluated"]
    if not found["episodes"]:
        parts.append("no acted episode has ended")
    else:
        count, share = _several(found["episodes"], "acted episode"), found["succeeded"]
        parts.append(count if share is None else f"{_percent(share)} of {count} succeeded")
    if found["guard"]:
        parts.append(f"the guard brought pessimism back in {_percent(found['guard'])} of them")
    elif found["guard"] is not None:
        parts.append("the guard never brought pessimism back")
    elif story.part("online").get("guard") is False:
        parts.append("the guard was off")
    if story.diverged:
        parts.append("then training diverged")
    return "; ".join(parts) + "."


def _several(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _percent(share: float) -> str:
    return f"{100.0 * share:.3g}%"


def _moving_mean(points: Points) -> Points:
    """Of the last episodes at each; at first, of all so far."""
    sums = np.cumsum([0.0, *(value for _, value in points)])
    ends = np.arange(1, len(points) + 1)
    starts = np.maximum(ends - WIDTH, 0)
    means = (sums[ends] - sums[starts]) / (ends - starts)
    return [(step, mean) for (step, _), mean in zip(points, means.tolist(), strict=True)]


def _columns(points: Points, most: int) -> Record:
    kept = [points[index] for index in thin(len(points), most)]
    return {"step": [step for step, _ in kept], "value": [value for _, value in kept]}


def _is_up(episode: Record) -> bool:
    return episode.get("guard") is True


def _guarded(story: RunStory, most: int) -> list[list[int]]:
    """From which step to which the guard was up; what lies too close to be told apart is one."""
    spans: list[list[int]] = []
    since: int | None = None
    for episode in story.episodes:
        if _is_up(episode) == (since is not None):
            continue
        if since is None:
            since = episode["step"]
        else:
            spans.append([since, episode["step"]])
            since = None
    if since is not None:
        spans.append([since, max(since, story.step)])
    joined: list[list[int]] = []
    for first, last in spans:
        if joined and first - joined[-1][1] < 2 * story.step / most:
            joined[-1][1] = last
        else:
            joined.append([first, last])
    return joined


def _maps(story: RunStory, most: int) -> tuple[list[Record] | None, int]:
    """Where a run was in its maze, in each part of it, and how many episodes ended in its rows."""
    in_maze = bool(story.data.get("maze"))
    files = list(_files(story, _stride(story, most) if in_maze else 0))
    ended = sum(rows.ended for rows in files)
    if not in_maze or not files:
        return None, ended
    steps, places = (
        np.concatenate([getattr(f, name) for f in files]) for name in ("steps", "places")
    )
    goal = max(story.goal, _rows_until(story))
    edges = [goal * panel // PANELS for panel in range(PANELS + 1)]
    panels: list[Record] = []
    for start, stop in pairwise(edges):
        x, y = places[(steps > start) & (steps <= stop)].astype(np.float64).round(3).T
        panels.append({"from": start + 1, "to": stop, "x": x, "y": y})
    return panels, ended


def _rows_until(story: RunStory) -> int:
    files = story.folder.row_files()
    return int(files[-1].stem) if files else 0


def _stride(story: RunStory, most: int) -> int:
    """Every how many steps a place is shown: it is seldom another one, so that files are seldom read
    again, and has no factor in common with the environments, which are stepped in turn."""
    stride = 1
    while _rows_until(story) > most * stride:
        stride *= 2
    environments = story.part("online").get("environments")
    if type(environments) is int and environments > 0:
        while gcd(stride, environments) > 1:
            stride += 1
    return stride


def _files(story: RunStory, stride: int) -> Iterator[Rows]:
    """What happened in the task, file by file; one that is damaged or missing costs a warning."""
    saved = max(story.folder.checkpoint_steps(), default=0)  # before the rows, which come first
    reached = 0
    for path in story.folder.row_files():
        step = int(path.stem)
        try:
            state = os.stat(path)
            rows = _rows(path, state.st_mtime_ns, state.st_size, stride)
        except UNREADABLE:
            story.warn(f"online/{path.name}: damaged or not from a run; skipped.")
        else:
            if rows.first > reached + 1:
                _warn_of_missing(story, reached, rows.first - 1)
            yield rows
        reached = step
    if reached < saved:
        _warn_of_missing(story, reached, saved)


def _warn_of_missing(story: RunStory, after: int, until: int) -> None:
    story.warn(f"online: the rows of steps {after + 1:,} to {until:,} are missing.")


@lru_cache(maxsize=8192)
def _rows(path: Path, changed: int, size: int, stride: int) -> Rows:
    """A file of rows as it is at a time; with a stride of 0 without places."""
    del changed, size  # only what is remembered depends on them
    names = ("rewards", "terminals", "timeouts", *(["observations"] if stride else []))
    arrays = read_arrays(path, names)
    if missing := [name for name in names if name not in arrays]:
        raise ValueError(f"{missing[0]} is missing")
    for name in ("terminals", "timeouts"):
        if arrays[name].dtype != bool:
            raise ValueError(f"{name} does not say yes or no")
        arrays[name] = arrays[name].astype(np.uint8)
    require_shapes(arrays)
    rewards, terminals = arrays["rewards"].astype(np.float64), arrays["terminals"]
    first = int(path.stem) - len(rewards) + 1
    if first < 1 or not np.isfinite(rewards).all():
        raise ValueError("not the rows of a run up to this step")
    steps, places = np.zeros(0, np.int64), np.zeros((0, 2), np.float32)
    if stride:
        kept = np.arange(-first % stride, len(rewards), stride)
        steps, places = first + kept, arrays["observations"][kept, :2].astype(np.float32)
        if places.shape[1] != 2 or not np.isfinite(places).all():
            raise ValueError("observations are no places")
    return Rows(
        first,
        int((terminals | arrays["timeouts"]).sum()),
        _extremes(rewards[terminals == 0]),
        _extremes(rewards[terminals == 1]),
        steps,
        places,
    )


def _extremes(values: np.ndarray) -> tuple[float, ...]:
    return (float(values.min()), float(values.max())) if len(values) else ()
