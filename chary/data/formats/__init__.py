"""Reading and writing dataset files: one module a format, all in D4RL's column names.

A writer never leaves a half-written file: it writes beside the destination and moves it into place.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chary.data.columns import COLUMNS, EXTRAS
from chary.data.dataset import Dataset
from chary.data.formats import arrow, columns, hdf5, npz
from chary.data.names import NAMES, attributes_of, names_in
from chary.errors import CharyError
from chary.host.files import whole

Writer = Callable[[Path, dict[str, np.ndarray], dict[str, Any]], None]


class Format(NamedTuple):
    """Functions between a file and its arrays and text attributes."""

    names: Callable[[Path], list[str]]
    """Of the arrays."""
    read: Callable[[Path, Iterable[str] | None], tuple[dict[str, np.ndarray], dict[str, Any]]]
    """Of these names, or of all, those that are there; nothing else is read."""
    write: Writer


FORMATS = {
    ".hdf5": Format(hdf5.names, hdf5.read, hdf5.write),
    ".h5": Format(hdf5.names, hdf5.read, hdf5.write),
    ".npz": Format(npz.names, npz.read, npz.write),
    ".columns": Format(columns.names, columns.read, columns.write),
}
# Kept in the file beside the columns, so that what is read back is what was written.
BOUNDS = ("action_low", "action_high")


def format_of(path: Path) -> Format:
    if path.suffix.lower() not in FORMATS:
        raise CharyError(
            f"{path}: cannot tell the format from '{path.suffix}'; known endings are "
            f"{', '.join(FORMATS)}. Files of named datasets, such as RL Unplugged's shards, are given "
            "with --data-file, together with the name."
        )
    return FORMATS[path.suffix.lower()]


def writer_of(path: Path) -> Writer:
    """How to write a file of that ending; also tables, which `chary data import` reads."""
    if path.suffix.lower() in arrow.ENDINGS:
        return arrow.write
    if path.suffix.lower() not in FORMATS:
        endings = ", ".join((*FORMATS, *arrow.ENDINGS))
        raise CharyError(f"{path}: cannot write '{path.suffix}'; known endings are {endings}.")
    return FORMATS[path.suffix.lower()].write


def read(path: Path) -> Dataset:
    """The dataset in a file."""
    if not path.exists():
        raise CharyError(
            f"{path}: no such file. Check the path, or see `chary data list` for names."
        )
    if path.is_dir() and path.suffix.lower() != ".columns":
        raise CharyError(f"{path}: is a folder, not a dataset file.")
    if path.suffix.lower() in arrow.ENDINGS:
        raise CharyError(
            f"{path}: a table does not say which columns are observations, actions and rewards. Name "
            f"them once with `chary data import {path} --out data.npz ...`, and use that file."
        )
    arrays, attributes = format_of(path).read(path, (*COLUMNS, *BOUNDS, *EXTRAS))
    name = str(attributes.pop("name", path.stem))
    known = {key: array for key, array in arrays.items() if key in COLUMNS}
    bounds = {key: arrays[key] for key in BOUNDS if key in arrays}
    for key, bound in bounds.items():
        expected = known["actions"].shape[1:] if "actions" in known else ()
        if bound.dtype.kind not in "biuf" or bound.shape not in ((), expected):
            raise CharyError(f"{path}: {key} must be one number for each action dimension.")
    widths = {key: array.shape[1] for key, array in known.items() if array.ndim == 2}
    observation_names, action_names = names_in(attributes, widths)
    metadata = {k: str(value) for k, value in attributes.items() if k not in NAMES.values()}
    return Dataset.from_columns(
        known | {key: array for key, array in arrays.items() if key in EXTRAS},
        name=name,
        source=str(path),
        metadata=metadata,
        observation_names=observation_names,
        action_names=action_names,
        **bounds,
    )


def write(dataset: Dataset, path: Path, *, others: dict[str, np.ndarray] | None = None) -> None:
    """Write the dataset, and other arrays beside it, to a file, whole or not at all."""
    write_arrays = writer_of(path)
    keys = (*COLUMNS, *BOUNDS, *EXTRAS)
    arrays = {key: getattr(dataset, key) for key in keys if getattr(dataset, key) is not None}
    arrays |= others or {}
    names = attributes_of(dataset.observation_names, dataset.action_names)
    attributes = {**dataset.metadata, **names, "name": dataset.name}
    with whole(path) as temporary:
        write_arrays(temporary, arrays, attributes)


def spread_out(source: Path, folder: Path) -> Dataset | None:
    """Copy an HDF5 file into a folder of columns piece by piece, though neither may fit into memory.

    None where the file leaves next observations to be worked out, which takes the whole of it.
    """
    with hdf5.opened(source, (*COLUMNS, *BOUNDS, *EXTRAS)) as (kept, attributes):
        if not set(COLUMNS) <= set(kept):
            return None
        with whole(folder) as temporary:
            columns.write(temporary, kept, {"name": source.stem, **attributes})
            read(temporary)  # refuses bad data before it takes the name
    return read(folder)
