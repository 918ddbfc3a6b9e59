"""Minari's datasets, by the name `minari:<dataset id>`: read from and written to its own folder.

Reading never downloads; `chary data download` does, through Minari.
"""

import math
import os
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chary.data.dataset import Dataset
from chary.data.formats import hdf5
from chary.data.formats.guard import TEXT, regular, regular_folder
from chary.data.names import parsed
from chary.data.sources import NamedDataset
from chary.errors import CharyError, reason

if TYPE_CHECKING:
    from chary.envs import Task

PREFIX = "minari:"
# (namespace/)name-v0, as Minari has it; nothing that could lead out of its folder.
DATASET_ID = re.compile(r"(?:[-\w]+/)*[-\w]+-v\d+")
INSTALL = "Install Minari with: pip install 'chary[minari]'"
METADATA, NUMBERS = "metadata.json", "main_data.hdf5"
TRUST = "CHARY_TRUST_ENVIRONMENT"
"""Set by --trust-environment: what a dataset's metadata names may be imported and called."""
WIDEST = 2**20
"""Numbers in an observation or an action."""


def find(name: str) -> NamedDataset | None:
    """The dataset of a name that starts with `minari:`."""
    if not name.startswith(PREFIX):
        return None
    folder = folder_of(name)
    return NamedDataset(
        name,
        source="Minari",
        description=f"Minari's dataset {name.removeprefix(PREFIX)}",
        fetch=partial(_fetch, name),
        read=partial(read, name),
        present=(folder / "data").is_dir,
        download=partial(download, name),
    )


def folder_of(name: str) -> Path:
    """Where Minari keeps the dataset: below MINARI_DATASETS_PATH, or in the home folder."""
    dataset_id = name.removeprefix(PREFIX)
    if not DATASET_ID.fullmatch(dataset_id):
        raise CharyError(
            f"{name}: '{dataset_id}' is not a Minari dataset id. They look like "
            "D4RL/pointmaze/umaze-v2: perhaps namespaces, then a name, then a version."
        )
    root = os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets"
    return Path(root).absolute() / dataset_id  # Minari itself cannot write to a relative one


def open_dataset(name: str, folder: Path) -> Any:
    """Minari's own view of a dataset in a folder."""
    package = _minari()
    data = folder / "data" if (folder / "data").is_dir() else folder
    with _explained(f"{name}: cannot be read from {folder}"):
        _check(data)
        return package.MinariDataset(data)


def trusted() -> bool:
    """Whether the user trusts those who made the datasets."""
    return bool(os.environ.get(TRUST))


def metadata_in(data: Path) -> dict[str, Any]:
    """What a dataset says of itself, as it stands in its file."""
    with open(regular(data / METADATA, inside=True), "rb") as file:
        text = file.read(TEXT + 1)
    if len(text) > TEXT:
        raise ValueError(f"{METADATA} is too long")
    metadata = parsed(text.decode())
    if not isinstance(metadata, dict):
        raise ValueError(f"{METADATA} is not a JSON object")
    return metadata


def _check(data: Path) -> None:
    """Refuse what Minari would believe: links out of the folder, sizes, and missing spaces."""
    if data.name == "data" and data.is_symlink():
        raise ValueError("its folder is a link, which may lead anywhere")
    regular_folder(data)
    metadata = metadata_in(data)
    for key in ("observation_space", "action_space"):
        if key in metadata:
            _check_space(parsed(metadata[key]))
        elif not trusted():  # Minari asks the environment then, and makes whatever is named
            raise ValueError(f"{METADATA} has no {key}")
    episodes, size = metadata.get("total_episodes"), sum(p.stat().st_size for p in data.rglob("*"))
    if not isinstance(episodes, int) or not 0 <= episodes <= size:
        raise ValueError(f"{METADATA} says that there are {str(episodes)[:20]} episodes")


def _check_space(space: Any) -> None:
    """Refuse a space that is no object, or too large to be made."""
    inner = space.get("subspaces", ())
    for part in inner.values() if isinstance(inner, dict) else inner:
        _check_space(part)
    if math.prod(space.get("shape", ())) > WIDEST:
        raise ValueError(f"a space of shape {space['shape']}")


def read(name: str, folder: Path) -> Dataset:
    """Every episode in the folder; the observation after the last action is kept by Minari too."""
    from gymnasium import spaces

    from chary.envs.flatten import flatten, vector_space

    opened = open_dataset(name, folder)
    actions, observations = opened.action_space, opened.observation_space
    vector_space(observations, name)
    if not isinstance(actions, spaces.Box) or len(actions.shape) != 1:
        raise CharyError(f"{name}: its actions are {actions}; only vectors in a box are supported.")
    parts: dict[str, list[np.ndarray]] = {}
    with _explained(f"{name}: cannot be read from {folder}"):
        for episode in _episodes(opened):
            steps = len(episode["rewards"])
            seen = flatten(observations, episode["observations"], rows=steps + 1)
            truncations = np.array(episode["truncations"], bool)
            # The episode ends here in any case.
            truncations[-1] |= not episode["terminations"][-1]
            columns = {
                "observations": seen[:-1],
                "actions": np.asarray(episode["actions"], np.float32),
                "rewards": episode["rewards"],
                "next_observations": seen[1:],
                "terminals": episode["terminations"],
                "timeouts": truncations,
            }
            for key, rows in columns.items():
                parts.setdefault(key, []).append(np.asarray(rows))
    if not parts:
        raise CharyError(f"{name}: holds no episodes.")
    with _explained(f"{name}: its episodes do not fit each other"):
        columns = {key: np.concatenate(rows) for key, rows in parts.items()}
        columns["actions"] = _within(columns["actions"], actions, name)
    return Dataset.from_columns(
        columns,
        name=name,
        action_low=actions.low,
        action_high=actions.high,
        metadata={"source": f"Minari {opened.minari_version}"},
    )


def _episodes(opened: Any) -> Iterator[dict[str, Any]]:
    """The columns of each episode, without the infos, which may be many times as large."""
    path = opened.storage.data_path / NUMBERS
    if opened.storage.FORMAT != "hdf5":
        yield from opened.storage.get_episodes(opened.episode_indices)
        return
    spaces = {"observations": opened.observation_space, "actions": opened.action_space}
    singles = dict.fromkeys(("rewards", "terminations", "truncations"))
    with hdf5.tree(path) as arrays:
        for number in opened.episode_indices:
            yield {
                key: _decoded(arrays, f"episode_{number}/{key}", space)
                for key, space in (spaces | singles).items()
            }


def _decoded(arrays: "hdf5.Tree", key: str, space: Any) -> Any:
    """An array, or a dict of them where the space is one."""
    inner = getattr(space, "spaces", None)
    if isinstance(inner, dict):
        return {part: _decoded(arrays, f"{key}/{part}", inner[part]) for part in inner}
    return arrays[key]


def write(dataset: Dataset, dataset_id: str) -> Path:
    """Make a local Minari dataset, whole or not at all, and say where it is."""
    _minari()
    from gymnasium import spaces
    from minari.dataset.minari_storage import MinariStorage
    from minari.namespace import create_namespace, list_local_namespaces
    from minari.utils import __version__ as version

    from chary.data.tasks import find_task

    _check_chained(dataset)
    folder = folder_of(dataset_id)
    if folder.exists():
        raise CharyError(f"{folder}: already there. Choose another id, or raise its version.")
    task = find_task(dataset.name)
    metadata: dict[str, Any] = {
        "dataset_id": dataset_id,
        "minari_version": version,
        "algorithm_name": dataset.metadata.get("collected_by", "unknown"),
        "description": f"{dataset.name}, written by chary",
    }
    if task and task.reference_scores:
        metadata["ref_min_score"], metadata["ref_max_score"] = task.reference_scores
    beside = folder.with_name(f".{folder.name}-{os.getpid()}")  # a name that Minari passes over
    try:
        with _explained(f"{folder}: cannot be written"):
            namespace = dataset_id.rpartition("/")[0]
            if namespace and namespace not in list_local_namespaces():
                create_namespace(namespace)
            (beside / "data").mkdir(parents=True)
            storage = MinariStorage.new(
                beside / "data",
                observation_space=spaces.Box(-np.inf, np.inf, (dataset.observation_size,)),
                action_space=spaces.Box(dataset.action_low, dataset.action_high),
                env_spec=_environment_spec(task) if task else None,
            )
            storage.update_metadata(metadata)
            storage.update_episodes(_buffers(dataset))
            os.replace(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder


def download(name: str, to: Path | None = None) -> Path:
    """Have Minari download the dataset into its folder, and say where it is."""
    if to is not None:
        raise CharyError(f"{name}: goes to Minari's folder; set MINARI_DATASETS_PATH, not --to.")
    package, folder = _minari(), folder_of(name)
    if (folder / "data").is_dir():
        return folder
    try:
        with _explained(f"{name}: Minari could not download it"):
            package.download_dataset(name.removeprefix(PREFIX))
    except ImportError as error:  # Minari's hosts need packages of their own
        raise CharyError(f"{name}: downloading needs more: pip install 'minari[hf]'") from error
    return folder


def _fetch(name: str) -> Dataset:
    folder = folder_of(name)
    if not (folder / "data").is_dir():
        raise CharyError(
            f"{name}: not on this machine: there is no {folder}. Get it with `chary data download "
            f"{name}`, or set MINARI_DATASETS_PATH to the folder of Minari's datasets."
        )
    return read(name, folder)


def _within(actions: np.ndarray, space: Any, name: str) -> np.ndarray:
    """The actions as their environment took them, which cuts them at the bounds."""
    inside = np.clip(actions, space.low, space.high).astype(np.float32)
    outside = int((inside != actions).any(axis=1).sum())
    if outside:
        warnings.warn(
            f"{name}: {outside} action(s) lie outside the action space and are cut at its bounds.",
            stacklevel=4,
        )
    return inside


def _check_chained(dataset: Dataset) -> None:
    """Minari has one observation between two steps: what follows a row must begin the next."""
    going_on = ~(dataset.terminals | dataset.timeouts)[:-1]
    differs = (dataset.next_observations[:-1] != dataset.observations[1:]).any(axis=1)
    broken = np.flatnonzero(going_on & differs)
    if broken.size:
        raise CharyError(
            f"{dataset.name}: the next observation of row {broken[0]} is not the observation of row "
            f"{broken[0] + 1}, though the episode continues ({broken.size} such rows). Minari cannot "
            "hold that; export to a file instead."
        )


def _environment_spec(task: "Task") -> Any:
    """How Gymnasium makes the task's environment, where it can."""
    import gymnasium

    import chary.envs.registration  # noqa: F401  # after which Gymnasium knows our own

    registered = gymnasium.registry.get(f"chary/{task.name}")
    if registered is not None:
        return registered
    environment = task.make()
    environment.close()
    return environment.spec


def _buffers(dataset: Dataset) -> Iterator[Any]:
    from minari.data_collector import EpisodeBuffer

    for rows in dataset.episodes():
        last = dataset.next_observations[rows.stop - 1]
        yield EpisodeBuffer(
            observations=[*dataset.observations[rows], last],
            actions=list(dataset.actions[rows]),
            rewards=dataset.rewards[rows].tolist(),
            terminations=dataset.terminals[rows].tolist(),
            truncations=dataset.timeouts[rows].tolist(),
        )


@contextmanager
def _explained(problem: str) -> Iterator[None]:
    """Whatever Minari raises, over damaged files or a lost connection, as one message."""
    try:
        yield
    except (CharyError, ImportError):
        raise
    except Exception as error:
        raise CharyError(f"{problem} ({reason(error)}).") from error


def _minari() -> Any:
    try:
        import minari
    except ImportError as error:
        raise CharyError(f"Minari's datasets need another package. {INSTALL}") from error
    return minari
