"""Datasets that are collected on first use, and the cache they live in from then on."""

import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from chary.data import formats
from chary.data.collect.mazes import collect_maze
from chary.data.dataset import Dataset
from chary.data.sources import SPARSE, UNCHANGED, NamedDataset
from chary.errors import CharyError
from chary.host import machine

# Part of the cached file's name: raise it when a recipe changes what it collects.
RECIPE = 2


_REACH = "waypoint controller between random cells; reward 1 and end at the far corner"
_STAY = "waypoint controller that never stops; reward 1 for every step at the goal"


TRANSITIONS = {
    "pointmaze-umaze": 100_000,
    "pointmaze-medium": 200_000,
    "pointmaze-large": 400_000,
    "maze2d-umaze": 1_000_000,
    "maze2d-medium": 2_000_000,
    "maze2d-large": 4_000_000,
}


def entries() -> Iterator[NamedDataset]:
    """Everything that is collected on first use."""
    for name, transitions in TRANSITIONS.items():
        reach = name.startswith("pointmaze")
        yield NamedDataset(
            name,
            source="collected",
            description=_REACH if reach else _STAY,
            fetch=partial(load_collected, name),
            read=formats.read,
            present=lambda name=name: cached_path(name).exists(),
            transitions=transitions,
            reward=SPARSE if reach else UNCHANGED,
            preset="small" if reach else "paper-maze2d",
            domain=None if reach else "maze2d",
        )


def cache_folder() -> Path:
    """Where collected datasets are kept."""
    return machine.cache_folder() / "datasets"


def cached_path(name: str) -> Path:
    return cache_folder() / f"{name}-r{RECIPE}.npz"


def load_collected(name: str) -> Dataset:
    """From the cache, or collected now; a damaged cache file is collected again."""
    import filelock

    path = cached_path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CharyError(
            f"{path.parent}: the cache folder cannot be made ({error.strerror}). "
            "Set CHARY_CACHE to a folder you can write to."
        ) from error
    with filelock.FileLock(path.with_suffix(".lock")):  # two runs collect once
        if path.exists():
            try:
                dataset = formats.read(path)
                if dataset.metadata.get("fingerprint") == dataset.fingerprint:
                    return dataset
                problem = "its content does not match its fingerprint"
            except CharyError as error:
                problem = str(error)
            warnings.warn(f"{path}: damaged ({problem}); collecting it again.", stacklevel=2)
        return collect(name, out=path)


def collect(
    name: str, *, transitions: int | None = None, seed: int = 0, out: Path | None = None
) -> Dataset:
    """Collect now, with every core; the result does not depend on how many there are."""
    return collect_maze(name, transitions or TRANSITIONS[name], seed=seed, out=out)
