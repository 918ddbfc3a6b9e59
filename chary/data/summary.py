"""A dataset in a few numbers, kept with every run, so that a reader needs no data to judge it."""

from typing import TYPE_CHECKING, Any

import numpy as np

from chary.data import formats, sources
from chary.data.dataset import Dataset
from chary.data.doctor import columns_of, examine, facts_of
from chary.data.names import FILES, Places

if TYPE_CHECKING:
    from chary.envs.mazes import Maze

BINS = 40
CELLS = 48
"""Of coverage, along each axis."""
LOOKED_AT = 50_000
"""Rows that the doctor examines and coverage is counted from: it must not keep training waiting."""


def summarise(
    dataset: Dataset, maze: "Maze | None" = None, *, normalised: bool | None = None
) -> dict[str, Any]:
    """Returns, lengths, rewards and coverage as counts, the doctor's findings, and the maze if any.

    `normalised` is whether learning normalises observations.
    """
    return {
        "episodes": len(dataset.episode_ends),
        "transitions": dataset.size,
        "terminals": int(dataset.terminals.sum()),
        "timeouts": int(dataset.timeouts.sum()),
        "returns": _histogram(dataset.episode_returns),
        "lengths": _histogram(dataset.episode_lengths),
        "rewards": {
            **_histogram(dataset.rewards),
            # A bound on returns differs where the task goes on from where it ends.
            "going_on": _range(dataset.rewards[~dataset.terminals]),
            "ending": _range(dataset.rewards[dataset.terminals]),
        },
        "coverage": _coverage(dataset, maze),
        "maze": maze and _geometry(maze),
        "observation_names": list(dataset.observation_names),
        "action_names": list(dataset.action_names),
        "source_files": Places(dataset.source_rows, dataset.metadata.get(FILES, "")).names,
        **_examined(dataset, normalised),
    }


def _histogram(values: np.ndarray) -> dict[str, Any]:
    values = np.nan_to_num(values.astype(np.float64))  # sums of the largest numbers are infinite
    low, high = values.min(), values.max()
    # Edges of bins that are narrower than this are one number.
    narrowest = 1e-9 * max(abs(low), abs(high))
    if high - low <= BINS * narrowest:
        half = max(0.5, BINS * narrowest)
        low, high = low - half, high + half
    counts, edges = np.histogram(values, bins=BINS, range=(low, high))
    return {
        "mean": float(values.mean(dtype=np.float64)),
        "min": float(values.min()),
        "max": float(values.max()),
        "counts": counts.tolist(),
        "edges": edges.tolist(),
    }


def _range(values: np.ndarray) -> list[float] | None:
    return [float(values.min()), float(values.max())] if len(values) else None


def _coverage(dataset: Dataset, maze: "Maze | None") -> dict[str, Any] | None:
    """How many transitions there are at each place: the first two observations."""
    if dataset.observation_size < 2:
        return None
    x, y = dataset.observations[:: max(1, dataset.size // LOOKED_AT), :2].T.astype(np.float64)
    span = maze.extent if maze else (x.min(), x.max(), y.min(), y.max())
    if not (span[1] > span[0] and span[3] > span[2]):
        return None
    counts, _, _ = np.histogram2d(x, y, bins=CELLS, range=[span[:2], span[2:]])
    return {"extent": [float(edge) for edge in span], "counts": counts.T.astype(int).tolist()}


def _geometry(maze: "Maze") -> dict[str, Any]:
    """Where the walls are, the goal and the start, in the world's coordinates."""
    return {
        "extent": list(maze.extent),
        "cell": maze.size,
        "walls": [maze.centre(cell).tolist() for cell in maze.wall_cells],
        "goal": maze.point(maze.goal).tolist(),
        "start": maze.point(maze.start).tolist() if maze.start else None,
    }


def _examined(dataset: Dataset, normalised: bool | None) -> dict[str, Any]:
    """What the doctor says of the first rows, up to the end of an episode if one ends among them."""
    ends = dataset.episode_ends
    whole = int(np.searchsorted(ends, LOOKED_AT))
    rows = int(ends[whole - 1]) + 1 if whole else LOOKED_AT
    columns = {k: a[:rows] for k, a in columns_of(dataset).items() if k not in formats.BOUNDS}
    if not whole:  # a first episode that is longer is cut here
        columns["timeouts"] = np.arange(rows) == rows - 1
    bounds = {key: getattr(dataset, key) for key in formats.BOUNDS}
    named = sources.recognise(dataset.name) is not None
    findings = [
        {"severity": f.severity, "rule": f.rule, "message": f.message, "fix": f.fix}
        for f in examine({**columns, **bounds}, facts_of(dataset, normalised))
        # What a name stands for comes with its own reward transform.
        if not (named and f.rule == "reward-transform")
    ]
    return {"findings": findings, "examined": rows}
