"""Run folders that nobody trained: as many and as long as a measurement or a test needs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from chary.runs.folder import RunFolder

DISCOUNT = 0.99
PROBES, EPISODES, GRID = 256, 20, 40

Ensemble = Callable[[np.random.Generator, np.ndarray, float, float], np.ndarray]
"""`ensemble(rng, truth, doubt, progress)`: (member, state) values around the truth, spread out by doubt,
at a share of training."""


def healthy(
    rng: np.random.Generator, truth: np.ndarray, doubt: float, progress: float
) -> np.ndarray:
    """Eight members that err by themselves, around the truth."""
    del progress
    return truth + doubt * rng.standard_normal((8, len(truth)))


def synthetic_run(
    path: Path,
    *,
    seed: int = 0,
    lines: int = 1_000,
    evaluations: int = 20,
    ensemble: Ensemble | None = healthy,
    maze: bool = True,
    dataset: str = "synthetic",
    algorithm: str = "msg",
    settings: dict[str, Any] | None = None,
) -> RunFolder:
    """Write a run whose rewards lie between 0 and 1, and returns around 50 of 100 possible."""
    rng = np.random.default_rng(seed)
    path.mkdir(parents=True, exist_ok=True)
    steps = 100 * lines
    folder = RunFolder.create(path, _config(path, steps, seed, dataset, algorithm, settings or {}))
    folder.write_data(_data())
    for line in range(1, lines + 1):
        losses = {f"critic/{i}": float(rng.normal(1.0 / line, 0.1)) for i in range(10)}
        folder.append("metrics", {"step": 100 * line, **losses})
        timing = {"step": 100 * line, "steps_per_s": 100.0, "time": 1.7e9 + line}
        folder.append("timing", timing)
    for number in range(1, evaluations + 1):
        step, progress = steps * number // evaluations, number / evaluations
        returns = 50.0 * progress + rng.standard_normal(EPISODES)
        folder.append("evals", _evaluation(step, returns))
        folder.save_diagnostics(step, _diagnostics(rng, ensemble, progress, maze))
    return folder


def acting_run(
    path: Path,
    *,
    episodes: int = 60,
    length: int = 50,
    files: int = 6,
    environments: int = 5,
    success: bool = True,
    guarded: tuple[int, int] = (20, 30),
    **settings: Any,
) -> RunFolder:
    """Write a run that learns in its task: a third of the way nothing succeeds, then all does. Episodes
    are as long as each other, and the guard is up in those between two numbers.

    It walks along the maze's diagonal, from one corner in its first row to the other in its last.
    """
    steps = episodes * length
    folder = synthetic_run(path, lines=1, evaluations=0, **settings)
    acting = {
        "explore": "ucb",
        "environments": environments,
        "guard": True,
        "parent": "runs/parent",
    }
    run = {**folder.config["run"], "steps": steps}
    folder.write_config({**folder.config, "run": run, "online": acting})
    for log in ("metrics", "timing"):
        (path / f"{log}.jsonl").unlink()
    rng = np.random.default_rng(0)
    for number in range(1, files + 1):
        step, share = steps * number // files, number / files
        line = {
            "online/beta": 5.0 * share - 4.0,
            "online/pessimism": 1.0 - share,
            "online/std": share,
        }
        learned = {"critic/td": 1.0 / number} if number > 1 else {}  # nothing in the warm-up
        folder.append("metrics", {"step": step, **learned, **line, "online/rows": float(step)})
        folder.append("timing", {"step": step, "steps_per_s": 100.0, "time": 1.7e9 + number})
        folder.save_diagnostics(step, _diagnostics(rng, healthy, share, True))
        rows = np.arange(steps * (number - 1) // files, step)
        ends = (rows // environments) % length == length - 1
        at = np.repeat(5.0 * rows[:, None] / (steps - 1), 4, axis=1).astype(np.float32)
        kept = {"observations": at, "rewards": ends.astype(np.float32), "terminals": ends & success}
        folder.save_rows(step, {**kept, "timeouts": ends & (not success)})
    for number in range(files + 1):
        share = max(0.0, 1.5 * number / files - 0.5)
        line = _evaluation(steps * number // files, np.full(EPISODES, share))
        folder.append("evals", {**line, "success": share if success else None})
    for number in range(episodes):
        turn, environment = divmod(number, environments)
        won = number >= episodes // 3
        folder.append(
            "episodes",
            {
                "step": (turn * length + length - 1) * environments + environment + 1,
                "environment": environment,
                "episode": turn,
                "return": float(won),
                "length": length,
                "success": won if success else None,
                "guard": guarded[0] <= number < guarded[1],
            },
        )
    return folder


def _config(
    path: Path, steps: int, seed: int, dataset: str, algorithm: str, settings: dict[str, Any]
) -> dict[str, Any]:
    own = {"members": 8, "beta": -4.0, "alpha": 0.1, "discount": DISCOUNT}
    described = {"transitions": 10_000, "observation_size": 4, "action_size": 2}
    return {
        "chary": "0",
        "algorithm": algorithm,
        "settings": own | settings,
        "run": {"dataset": dataset, "steps": steps, "seed": seed, "run": str(path)},
        "dataset": {"name": dataset, "fingerprint": "0" * 64, **described},
        "scaling": {"reward": {"scale": 1.0, "shift": 0.0}},
        "layout": {"cpu": "none", "threads": 0},
        "versions": {"python": "0"},
        "command": f"chary train {algorithm} --dataset {dataset} --seed {seed}",
    }


def _data() -> dict[str, Any]:
    counts = np.outer(np.arange(1, 49), np.arange(1, 49))
    histogram = {
        "mean": 50.0,
        "min": 0.0,
        "max": 100.0,
        "counts": [3, 5, 2],
        "edges": [0, 30, 60, 100],
    }
    return {
        "episodes": 10,
        "transitions": 10_000,
        "terminals": 0,
        "timeouts": 10,
        "returns": histogram,
        "lengths": histogram,
        "rewards": {**histogram, "going_on": [0.0, 1.0], "ending": None},
        "coverage": {"extent": [0.0, 5.0, 0.0, 5.0], "counts": counts.tolist()},
        "maze": {
            "extent": [0.0, 5.0, 0.0, 5.0],
            "cell": 1.0,
            "walls": [[0.5, 0.5], [2.5, 2.5]],
            "goal": [4.5, 4.5],
            "start": [1.5, 0.5],
        },
        "findings": [],
        "examined": 10_000,
    }


def _evaluation(step: int, returns: np.ndarray) -> dict[str, Any]:
    return {
        "step": step,
        "episodes": len(returns),
        "score": float(returns.mean()),
        "success": None,
        "return": float(returns.mean()),
        "length": 100.0,
        "returns": returns,
        "lengths": [100] * len(returns),
    }


def _diagnostics(
    rng: np.random.Generator, ensemble: Ensemble | None, progress: float, maze: bool
) -> dict[str, np.ndarray]:
    """What a run's evaluation leaves, around true values between 20 and 80."""
    lengths = np.full(8, 50)
    paths = rng.uniform(0, 5, (lengths.sum(), 4)).cumsum(axis=0) % 5
    arrays = {"paths": paths, "path_lengths": lengths}
    if ensemble is None:
        return arrays
    starts, states = rng.uniform(45, 55, EPISODES), rng.uniform(20, 80, PROBES)
    doubts = {"data": 1.0, "policy": 1.0, "perturbed": 2.0, "random": 6.0, "off": 6.0}
    for kind, doubt in doubts.items():
        arrays[f"values_{kind}"] = ensemble(rng, states, doubt, progress)
    arrays["probe_actions"] = rng.uniform(-0.5, 0.5, (PROBES, 2))
    arrays["policy_actions"] = 0.8 * arrays["probe_actions"]
    places = np.tile(np.linspace(-2.0, 2.0, 41), (4, 1))
    arrays |= {"column_values": places, "column_std": 1.0 + np.abs(places)}
    arrays["column_counts"] = np.where(np.abs(places) < 1.0, 50, 0)
    arrays["start_values"] = ensemble(rng, starts, 1.5, progress)
    arrays["discounted_returns"] = starts + rng.standard_normal(EPISODES)
    arrays["beta"] = np.float32(-4.0)
    if maze:
        places = np.linspace(0.0625, 4.9375, GRID)
        grid = np.add.outer(places, places)
        maps = {"mean": grid, "std": grid / 10 + rng.random(grid.shape), "lcb": grid - 4.0}
        arrays |= {"map_x": places, "map_y": places}
        arrays |= {f"map_{kind}": field.astype(np.float32) for kind, field in maps.items()}
    return {name: np.asarray(array) for name, array in arrays.items()}
