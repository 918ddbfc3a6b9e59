"""What the critics believed over a maze, and where policies went: small enough for a page."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from chary.report.story import RunStory, thin

KINDS = ("mean", "std", "lcb")
READ = (*(f"map_{kind}" for kind in KINDS), "map_x", "map_y", "paths", "path_lengths")
FRAMES = 160
"""Maps that a page holds altogether; each run has as many of its evaluations as fit."""
MOST_FRAMES = 24
MOST_RUNS = 80
PATH_POINTS = 120
WALL = 255
"""The byte that says: nothing here."""


def maze_maps(stories: Sequence[RunStory]) -> tuple[list[dict[str, Any]], str]:
    """The maps of all runs that have any, and what was left out of them, in words."""
    with_maps = [story for story in stories if _has_maps(story)]
    shown = [with_maps[index] for index in thin(len(with_maps), MOST_RUNS)]
    each = min(MOST_FRAMES, max(2, FRAMES // max(1, len(shown))))
    maps = [found for story in shown if (found := _maps(story, each))]
    left_out: list[str] = []
    if len(shown) < len(with_maps):
        left_out.append(f"{len(shown)} of {len(with_maps)} runs have maps here")
    if any(found["evaluations"] > len(found["frames"]) for found in maps):
        left_out.append(f"of each run's evaluations at most {each} are shown, evenly spread")
    return maps, "; ".join(left_out)


def _has_maps(story: RunStory) -> bool:
    return any("map_mean" in arrays for _, arrays in story.snapshots(("map_mean",), most=3))


def _maps(story: RunStory, most: int) -> dict[str, Any] | None:
    frames = [
        (step, arrays)
        for step, arrays in story.snapshots(READ, most=most)
        if all(name in arrays for name in READ)
    ]
    if not frames:
        return None
    # One scale for all of training, so that colours can be compared along the slider.
    limits = {kind: _limits([arrays[f"map_{kind}"] for _, arrays in frames]) for kind in KINDS}
    _, last = frames[-1]
    return {
        "run": story.name,
        "x": last["map_x"],
        "y": last["map_y"],
        "limits": limits,
        "evaluations": len(story.snapshot_steps),
        "frames": [
            {
                "step": step,
                **{kind: _bytes(arrays[f"map_{kind}"], *limits[kind]) for kind in KINDS},
                "paths": _thinned(arrays),
            }
            for step, arrays in frames
        ],
    }


def _limits(maps: Sequence[np.ndarray]) -> tuple[float, float]:
    numbers = np.concatenate([grid[np.isfinite(grid)] for grid in maps])
    return (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 1.0)


def _bytes(grid: np.ndarray, low: float, high: float) -> str:
    """A byte a point, 0 to 254 between the limits: finer than eyes can tell."""
    with np.errstate(invalid="ignore"):
        level = np.round(254.0 * (grid.astype(np.float64) - low) / max(high - low, 1e-12))
    level = np.where(np.isfinite(grid), np.clip(level, 0, 254), WALL)
    return base64.b64encode(level.astype(np.uint8).tobytes()).decode()


def paths_in(arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The positions along every path of an evaluation's diagnostics."""
    ends = np.cumsum(arrays["path_lengths"].astype(int))
    pieces = np.split(arrays["paths"][:, :2].astype(np.float64), ends[:-1]) if len(ends) else []
    return [piece for piece in pieces if len(piece)]


def _thinned(arrays: dict[str, np.ndarray]) -> list[list[list[float]]]:
    """x and y of every path, with fewer points where it is long."""
    return [path[thin(len(path), PATH_POINTS)].round(3).T.tolist() for path in paths_in(arrays)]
