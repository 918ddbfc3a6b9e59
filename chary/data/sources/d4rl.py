"""D4RL's datasets by name: antmaze, maze2d and Gym's locomotion, from the files as published.

Names and addresses are those of D4RL's own list (`d4rl/infos.py`). What its files leave open, and how it
is settled here, is in `docs/d4rl.md`; the measure of it all is that no transition crosses a reset.
"""

import os
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from chary.data.columns import COLUMNS
from chary.data.dataset import Dataset
from chary.data.download import download_file
from chary.data.formats import format_of
from chary.data.sources import SPARSE, UNCHANGED, NamedDataset
from chary.data.sources.collected import cache_folder
from chary.errors import CharyError

ADDRESS = "http://rail.eecs.berkeley.edu/datasets/offline_rl"
SIGNATURE = b"\x89HDF\r\n\x1a\n"
"""The first bytes of every HDF5 file."""
INFOS = ("infos/qpos", "infos/qvel")

# Which files the antmaze datasets are, by D4RL's own words for mazes, starts and goals.
_ANTMAZE = {
    "umaze": "u-maze_noisy_multistart_False_multigoal_False",
    "umaze-diverse": "u-maze_noisy_multistart_True_multigoal_True",
    "medium-play": "big-maze_noisy_multistart_True_multigoal_False",
    "medium-diverse": "big-maze_noisy_multistart_True_multigoal_True",
    "large-play": "hardest-maze_noisy_multistart_True_multigoal_False",
    "large-diverse": "hardest-maze_noisy_multistart_True_multigoal_True",
}
_ROBOTS = ("hopper", "halfcheetah", "walker2d", "ant")
_KINDS = ("random", "medium", "expert", "medium-replay", "medium-expert", "full-replay")


def _published() -> Iterator[tuple[str, str]]:
    """Every name with the file that holds it, as a path below the address."""
    for kind, maze in _ANTMAZE.items():
        yield f"antmaze-{kind}-v0", f"ant_maze_new/Ant_maze_{maze}_sparse.hdf5"
        yield f"antmaze-{kind}-v2", f"ant_maze_v2/Ant_maze_{maze}_sparse_fixed.hdf5"
    for size in ("umaze", "medium", "large"):
        yield f"maze2d-{size}-v1", f"maze2d/maze2d-{size}-sparse-v1.hdf5"
        yield f"maze2d-{size}-dense-v1", f"maze2d/maze2d-{size}-dense-v1.hdf5"
    for robot in _ROBOTS:
        for kind in _KINDS:
            words = kind.replace("-", "_")
            for version in ("v1", "v2"):
                yield (
                    f"{robot}-{kind}-{version}",
                    f"gym_mujoco_{version}/{robot}_{words}-{version}.hdf5",
                )
            if kind != "full-replay":  # which v0 did not have
                old = "walker" if (robot, kind) == ("walker2d", "medium-replay") else robot
                old_words = "mixed" if kind == "medium-replay" else words
                yield f"{robot}-{kind}-v0", f"gym_mujoco/{old}_{old_words}.hdf5"


PUBLISHED = dict(_published())
"""Path below the address by name."""
NAMES = {path.rsplit("/")[-1]: name for name, path in PUBLISHED.items()} | {
    f"{name}.hdf5": name for name in PUBLISHED
}
"""Name by file name, as published or simply the dataset's own."""

SAME = 1e-4
"""Difference up to which two logged states are one."""
JUMP = 1.0
"""Distance that no ant goes in a step (in D4RL's files about 0.3 at most), so that it was put there."""
TIME_LIMIT = 1000
"""Steps of a Gym episode, for files that do not mark where episodes were cut."""


def entries() -> Iterator[NamedDataset]:
    """Everything that D4RL publishes of these families."""
    for name in PUBLISHED:
        family = _family(name)
        yield NamedDataset(
            name,
            source="d4rl",
            description={
                "antmaze": "an ant walks between goals; reward 1 at the evaluation's goal",
                "maze2d": "a ball runs between waypoints; paid near the evaluation's goal",
                "gym": "a Gym robot under the policies that the name tells of",
            }[family],
            fetch=partial(fetch, name),
            read=partial(read, name),
            present=lambda name=name: find_file(name) is not None,
            reward=SPARSE if family == "antmaze" else UNCHANGED,
            preset="paper",
            domain=family,
            download=partial(download, name),
        )


def folders() -> tuple[Path, Path]:
    """Where files are looked for: D4RL's own folder first, then chary's cache."""
    own = os.environ.get("D4RL_DATASET_DIR") or "~/.d4rl/datasets"
    return Path(own).expanduser(), cache_folder() / "d4rl"


def find_file(name: str) -> Path | None:
    """The file of a dataset on this machine."""
    published = PUBLISHED[name].rsplit("/")[-1]
    candidates = (folder / file for folder in folders() for file in (published, f"{name}.hdf5"))
    return next((path for path in candidates if path.is_file()), None)


def fetch(name: str) -> Dataset:
    path = find_file(name)
    if path is None:
        published = PUBLISHED[name].rsplit("/")[-1]
        raise CharyError(
            f"{name}: not on this machine. Say where it is with --data-file FILE, put {published} into "
            f"{folders()[0]}, or get it with `chary data download {name}`."
        )
    return read(name, path)


def download(name: str, folder: Path | None = None) -> Path:
    """Get the published file, into chary's cache unless a folder is given."""
    target = (folder or folders()[1]) / PUBLISHED[name].rsplit("/")[-1]
    return download_file(f"{ADDRESS}/{PUBLISHED[name]}", target, signature=SIGNATURE)


def read(name: str, path: Path) -> Dataset:
    """The named dataset in a file, with its episodes as they really were."""
    arrays, attributes = format_of(path).read(path, (*COLUMNS, *INFOS))
    columns = _without_ends(name, path, mend(_family(name), arrays))
    metadata = {key: str(value) for key, value in attributes.items() if key != "name"}
    return Dataset.from_columns(columns, name=name, source=str(path), metadata=metadata)


def is_endless(name: str) -> bool:
    """Whether the task of that name has no end of its own: halfcheetah runs, whatever happens."""
    return name.lower().startswith("halfcheetah")


def _without_ends(name: str, path: Path, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """True ends of a task that never ends as cuts, with a warning: v0 of halfcheetah-medium has one."""
    if not is_endless(name) or not _can_be_mended(columns) or "timeouts" not in columns:
        return columns
    rows = np.flatnonzero(columns["terminals"])
    if not rows.size:
        return columns
    listed = ", ".join(map(str, rows[:5])) + (" ..." if rows.size > 5 else "")
    warnings.warn(
        f"{path}: terminals are set in {rows.size} row(s) ({listed}), but {name.split('-')[0]} never "
        "ends. They are taken for cuts, not for ends of the task.",
        stacklevel=2,
    )
    ends = np.asarray(columns["terminals"]).reshape(-1).astype(bool)
    cuts = np.asarray(columns["timeouts"]).reshape(-1).astype(bool) | ends
    return columns | {"terminals": np.zeros_like(ends), "timeouts": cuts}


def mend(family: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The columns of a D4RL file, with ends where the runs really ended.

    A file that the checks of `Dataset` will refuse is left as it is for them.
    """
    columns = {key: array for key, array in arrays.items() if key in COLUMNS}
    if not _can_be_mended(columns):
        return columns
    observations, following = columns["observations"], columns.get("next_observations")
    terminals = columns["terminals"].reshape(-1).astype(bool)
    if "timeouts" in columns:
        timeouts = columns["timeouts"].reshape(-1).astype(bool)
    else:
        timeouts = _time_limits(terminals) if family == "gym" else np.zeros_like(terminals)
    if family == "maze2d":
        # The task never ends: a flag only says that the controller chose its next target.
        timeouts, terminals = timeouts | terminals, np.zeros_like(terminals)
        timeouts[-1] = True
    if following is not None:
        timeouts |= _resets(observations, following)
    elif family == "maze2d":
        # D4RL's generator logged an observation again after each new target, though time went on.
        timeouts[:-1] |= (observations[1:] == observations[:-1]).all(axis=1)
    elif family == "antmaze":
        following = _states_after(arrays)
        if following is None:
            timeouts[:-1] |= _distances(observations[:-1, :2], observations[1:, :2]) > JUMP
        else:
            # The flags of v0 drift away from the resets; the states do not.
            timeouts = _resets(observations, following)
            columns["next_observations"] = following
    return columns | {"terminals": terminals, "timeouts": timeouts}


def _can_be_mended(columns: dict[str, np.ndarray]) -> bool:
    """Whether the columns that matter here are there, of one length, and hold what they should."""
    observations = columns.get("observations")
    if observations is None or observations.ndim != 2 or observations.dtype.kind != "f":
        return False
    following = columns.get("next_observations", observations)
    flags = [columns[key] for key in ("terminals", "timeouts") if key in columns]
    return (
        "terminals" in columns
        and len(observations) > 0
        and following.shape == observations.shape
        and following.dtype.kind == "f"
        and all(
            array.dtype.kind in "biuf"
            and array.size == len(observations)
            and np.isin(array, (0, 1)).all()
            for array in flags
        )
    )


def _family(name: str) -> Literal["antmaze", "maze2d", "gym"]:
    match name.split("-")[0]:
        case "antmaze" | "maze2d" as maze:
            return maze
        case _:
            return "gym"


def _states_after(arrays: dict[str, np.ndarray]) -> np.ndarray | None:
    """The state after every row, where the file holds the simulator's own."""
    observations, parts = arrays["observations"], [arrays[key] for key in INFOS if key in arrays]
    if len(parts) != 2 or any(part.ndim != 2 or len(part) != len(observations) for part in parts):
        return None
    states = np.concatenate(parts, axis=1)
    # A collector may as well log the state before the step, which is not what is meant here.
    if states.shape != observations.shape or _resets(observations, states).mean() > 0.1:
        return None
    return states


def _resets(observations: np.ndarray, following: np.ndarray) -> np.ndarray:
    """Rows that the next row does not follow from; the last of all is one."""
    return np.append(_distances(following[:-1], observations[1:]) > SAME, True)


def _distances(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Largest difference in each row."""
    with np.errstate(all="ignore"):  # what is infinite or no number is refused later
        return np.abs(first - second).max(axis=1, initial=0.0)


def _time_limits(terminals: np.ndarray) -> np.ndarray:
    """Rows at which the time limit must have cut an episode."""
    rows = np.arange(len(terminals))
    begins = np.where(np.append(False, terminals[:-1]), rows, 0)
    elapsed = rows - np.maximum.accumulate(begins) + 1
    return (elapsed % TIME_LIMIT == 0) & ~terminals
