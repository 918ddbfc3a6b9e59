"""The first data of a run that has none: what random actions lead to."""

from typing import Any

import numpy as np

from chary.data.dataset import Dataset
from chary.envs import Task
from chary.errors import CharyError
from chary.online.actors import Actors


def random_rows(task: Task, steps: int, seed: int, *, step_seconds: float) -> Dataset:
    """So many steps of uniform actions, one episode after the other."""
    environment = task.make()
    space: Any = environment.action_space
    environment.close()
    low, high = np.asarray(space.low, np.float32), np.asarray(space.high, np.float32)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise CharyError(f"--env {task.name}: its actions have no bounds, so none can be drawn.")
    random = np.random.default_rng([seed, steps])
    actors, episode, time_in = Actors(task, 1, seed, step_seconds=step_seconds), 0, 0
    columns: dict[str, list[Any]] = {}
    for _ in range(steps):
        observation = actors.observations[0].copy()
        action = random.uniform(low, high).astype(np.float32)
        outcome = actors.step(0, action, time_in)
        row = {
            "observations": observation,
            "actions": action,
            "rewards": np.float32(outcome.reward),
            "next_observations": outcome.observation,
            "terminals": outcome.terminated,
            "timeouts": outcome.truncated,
        }
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
        actors.observations[0], time_in = outcome.observation, time_in + 1
        if outcome.terminated or outcome.truncated:
            episode, time_in = episode + 1, 0
            actors.observations[0] = actors.reset(0, episode)
    actors.close()
    arrays = {name: np.stack(values) for name, values in columns.items()}
    words = {"source": f"{steps} random actions in {task.name}, seed {seed}"}
    return Dataset.from_columns(
        arrays, name=task.name, action_low=low, action_high=high, metadata=words
    )
