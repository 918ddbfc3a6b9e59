"""RL Unplugged's control suite by name, from its shards of whole episodes."""

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from glob import glob
from pathlib import Path

import numpy as np

from chary.data import formats
from chary.data.dataset import Dataset
from chary.data.formats import tfrecord
from chary.data.formats.guard import regular
from chary.data.formats.layout import listed
from chary.data.sources import NamedDataset
from chary.data.sources.collected import cache_folder
from chary.envs.control import TASKS, ControlTask
from chary.errors import CharyError

BUCKET = "gs://rl_unplugged/dm_control_suite_episodes"
SHARD = re.compile(r"-\d{5}-of-(\d{5})$")
FIRST, LAST = 0, 2
"""The step types of the first and the last row of an episode (`dm_env.StepType`)."""


def entries() -> Iterator[NamedDataset]:
    """The nine tasks."""
    for name in TASKS:
        yield NamedDataset(
            name,
            source="rlu",
            description="control suite, logged while an agent learned; rewards from 0 to 1",
            fetch=partial(fetch, name),
            read=partial(read, name),
            present=lambda name=name: bool(shards(folder(name))),
            preset="paper",
            domain="rlu",
        )


def folder(name: str) -> Path:
    """Where the shards of a task are looked for."""
    return cache_folder() / "rlu" / TASKS[name].published


def fetch(name: str) -> Dataset:
    where = folder(name)
    if not shards(where):
        raise CharyError(
            f"{name}: not on this machine. Say where its shards are with --data-file (one file, a "
            f"folder, or a pattern like 'shards/train-*'), or copy {BUCKET}/{where.name} to {where}."
        )
    return read(name, where)


def shards(path: Path) -> list[Path]:
    """The shards that a file, a folder or a pattern stands for, in order."""
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if SHARD.search(file.name))
        return [regular(file, inside=True) for file in found]
    return [path] if path.is_file() else sorted(map(Path, glob(str(path))))


def read(name: str, path: Path) -> Dataset:
    """The named dataset in one shard or several, or in a file of chary's own."""
    if path.suffix.lower() in formats.FORMATS:
        return replace(formats.read(path), name=name)
    files = shards(path)
    if not files:
        raise CharyError(f"{path}: no shards there; their names end like train-00000-of-00100.")
    counted = SHARD.search(files[0].name)
    if counted and len(files) < int(counted[1]):
        warnings.warn(f"{path}: {len(files)} of {int(counted[1])} shards.", stacklevel=2)
    task = TASKS[name]
    episodes = [
        transitions(features, task, f"{file}, record {index}")
        for file in files
        for index, features in enumerate(tfrecord.read(file))
    ]
    if not episodes:
        raise CharyError(f"{path}: holds no episodes.")
    columns = {key: np.concatenate([e[key] for e in episodes]) for key in episodes[0]}
    return Dataset.from_columns(columns, name=name, source=str(path))


def transitions(
    features: Mapping[str, np.ndarray], task: ControlTask, source: str
) -> dict[str, np.ndarray]:
    """The columns of one episode.

    A row holds what the environment returned and the action taken on it, so the reward and the
    discount of an action stand in the row after it; those of the first row mean nothing.
    """
    step_types = _matrix(features, "step_type", 1, source)[:, 0]
    if len(step_types) < 2 or step_types[0] != FIRST or step_types[-1] != LAST:
        raise CharyError(
            f"{source}: not a whole episode, from its first step to its last. The shards of whole "
            f"episodes are those of {BUCKET}."
        )
    parts = [
        # One of the two layouts writes a colon.
        _matrix(features, f"observation:{key}", size, source)
        if f"observation:{key}" in features
        else _matrix(features, f"observation/{key}", size, source)
        for key, size in task.observations.items()
    ]
    actions = _matrix(features, "action", task.actions, source)
    rewards = _matrix(features, "reward", 1, source)[:, 0]
    discounts = _matrix(features, "discount", 1, source)[:, 0]
    lengths = {len(array) for array in (*parts, actions, rewards, discounts, step_types)}
    if len(lengths) != 1:
        raise CharyError(f"{source}: features of unequal length ({sorted(lengths)} rows).")
    observations = np.concatenate(parts, axis=1)
    terminals = discounts[1:] == 0
    return {
        "observations": observations[:-1],
        # MuJoCo clamps controls to their range: beyond it an action is the one at the bound.
        "actions": np.clip(actions[:-1], -1.0, 1.0),
        "rewards": rewards[1:],
        "next_observations": observations[1:],
        "terminals": terminals,
        "timeouts": np.append(np.zeros(len(terminals) - 1, bool), not terminals[-1]),
    }


def _matrix(features: Mapping[str, np.ndarray], key: str, size: int, source: str) -> np.ndarray:
    """A feature as (row, dimension)."""
    if key not in features:
        raise CharyError(
            f"{source}: no feature '{key}'; it has {listed(sorted(features)) or 'nothing'}."
        )
    values = features[key]
    if len(values) % size:
        raise CharyError(f"{source}: '{key}' has {len(values)} numbers, not {size} in every row.")
    return values.reshape(-1, size)
