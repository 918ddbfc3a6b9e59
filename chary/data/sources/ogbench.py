"""OGBench's state-based single-task datasets, by the name `ogbench-<dataset>`.

A file holds goal-conditioned data; its rewards and true ends are those of one task, computed by
OGBench's own relabelling. Reading never downloads.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from chary.data.dataset import Dataset
from chary.data.formats import npz
from chary.data.formats.layout import listed
from chary.data.sources import NamedDataset
from chary.envs.ogbench import PREFIX, OwnRandomness, environment_id, make_original, parse
from chary.errors import CharyError

# Where OGBench itself keeps its files, and where it gets them (`ogbench.utils`).
FOLDER = Path("~/.ogbench/data")
ADDRESS = "https://rail.eecs.berkeley.edu/datasets/ogbench"
FILE_COLUMNS = ("observations", "actions", "terminals", "qpos")
RELABELLED = "button_states"
"""What OGBench's relabelling looks at beside them, in some environments."""


def find(name: str) -> NamedDataset | None:
    """The dataset of a name that starts with `ogbench-`."""
    if not name.startswith(PREFIX):
        return None
    path = path_of(name)
    return NamedDataset(
        name,
        source="OGBench",
        description=f"OGBench's {path.stem}, rewards of one of its tasks",
        fetch=partial(_fetch, name),
        read=partial(read, name),
        present=path.is_file,
        download=partial(download, name),
    )


def path_of(name: str) -> Path:
    """The file of the dataset in OGBench's folder; all tasks of an environment share it."""
    parts = parse(name)
    return FOLDER.expanduser() / f"{parts['environment']}-{parts['kind']}-v0.npz"


def read(name: str, path: Path) -> Dataset:
    """The transitions in a file of OGBench's layout, with the rewards of the named task.

    A row is a state. The last of each trajectory only says where the one before it led. Trajectories go
    on after success, but the task ends there: the discount of such a row is 0.
    """
    arrays, _ = npz.read(path, (*FILE_COLUMNS, RELABELLED))
    missing = [column for column in FILE_COLUMNS if column not in arrays]
    if missing:
        raise CharyError(
            f"{path}: not a file of OGBench: missing {', '.join(missing)}; it has "
            f"{listed(sorted(npz.names(path)))}."
        )
    lengths = {column: len(np.atleast_1d(array)) for column, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{column} {count}" for column, count in lengths.items())
        raise CharyError(f"{path}: columns of unequal length ({counts}).")
    last = arrays["terminals"].astype(bool).ravel()
    last[-1] = True
    if last.all():
        raise CharyError(f"{path}: holds no transitions: every row is the end of a trajectory.")
    # The same rows as OGBench's own loader keeps, which stops one short in each trajectory.
    kept = np.flatnonzero(~last)
    rows = {column: array[kept] for column, array in arrays.items()}
    rewards, ends = _relabel(name, path, rows)
    columns = {
        "observations": rows["observations"],
        "actions": rows["actions"],
        "rewards": rewards,
        "next_observations": arrays["observations"][kept + 1],
        "terminals": ends,
        "timeouts": last[kept + 1],
    }
    return Dataset.from_columns(
        columns, name=name, source=str(path), metadata={"source": f"OGBench {path.stem}"}
    )


def download(name: str, folder: Path | None = None) -> Path:
    """Download the dataset's file into that folder or OGBench's own, and say where it is."""
    from chary.data.download import download_file

    path = path_of(name)
    target = path if folder is None else folder / path.name
    return download_file(f"{ADDRESS}/{path.name}", target, signature=b"PK")


def _fetch(name: str) -> Dataset:
    path = path_of(name)
    if not path.is_file():
        raise CharyError(
            f"{name}: not on this machine: there is no {path}. Get it with `chary data download "
            f"{name}`, or give the file with --data-file."
        )
    return read(name, path)


def _relabel(name: str, path: Path, rows: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Rewards and true ends of the named task, as OGBench defines them."""
    environment = OwnRandomness(make_original(name))
    from ogbench.relabel_utils import relabel_dataset

    expected, found = environment.observation_space.shape, rows["observations"].shape[1:]
    if found != expected:
        raise CharyError(
            f"{path}: observations of shape {found}, but {name} has {expected}: this file is of "
            "another environment."
        )
    labelled: dict[str, Any] = dict(rows)
    try:
        relabel_dataset(environment_id(name), environment, labelled)
    except (KeyError, IndexError, ValueError) as error:
        raise CharyError(f"{path}: cannot be given the rewards of {name} ({error}).") from error
    finally:
        environment.close()
    return labelled["rewards"], labelled["masks"] == 0
