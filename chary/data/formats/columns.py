"""A folder of NumPy files, one a column, that are mapped into memory and never read as a whole.

For data that is larger than memory: training reads only the rows of its batches.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from chary.data.columns import pieces
from chary.data.formats.guard import TEXT, check_memory, check_stored, in_memory, regular
from chary.data.names import parsed
from chary.errors import CharyError, reason

ATTRIBUTES = "attributes.json"


def names(path: Path) -> list[str]:
    """The columns in the folder."""
    return sorted(file.stem for file in path.glob("*.npy"))


def read(
    path: Path, requested: Iterable[str] | None = None
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The requested columns that are there, mapped, and the attributes that `write` put beside them."""
    try:
        if not path.is_dir():
            raise ValueError("not a folder of columns")
        there = names(path)
        chosen = there if requested is None else [key for key in requested if key in there]
        arrays = {key: _mapped(path / f"{key}.npy") for key in chosen}
        # What is not in single precision is copied into memory, and so are the flags.
        copied = [array for array in arrays.values() if array.dtype != np.float32]
        check_memory(path, sum(in_memory(array.size, array.dtype) for array in copied))
        attributes = _attributes(path / ATTRIBUTES)
    except CharyError:
        raise
    except Exception as error:  # what NumPy makes of a damaged heading, and RecursionError
        raise CharyError(f"{path}: not a readable folder of columns ({reason(error)}).") from error
    return arrays, attributes


def _mapped(file: Path) -> np.ndarray:
    """The array in a file, whose bytes must be on the disk: a file may claim far more."""
    array = np.load(regular(file, inside=True), mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.memmap):
        raise ValueError(f"{file.name} is an archive")
    check_stored(file.stem, array.nbytes, 512 * file.stat().st_blocks)
    return array


def _attributes(file: Path) -> dict[str, Any]:
    if not os.path.lexists(file):
        return {}
    with open(regular(file, inside=True), "rb") as stream:
        text = stream.read(TEXT + 1)
    if len(text) > TEXT:
        raise ValueError("attributes are too long")
    attributes = parsed(text.decode())
    if not isinstance(attributes, dict):
        raise ValueError("attributes are not a JSON object")
    return attributes


def write(path: Path, arrays: dict[str, Any], attributes: dict[str, Any]) -> None:
    """Copy the columns piece by piece, from wherever they are; floats become single precision."""
    path.mkdir()
    for key, array in arrays.items():
        # Times need more digits than single precision has.
        single = array.dtype.kind == "f" and key != "times"
        dtype = np.float32 if single else array.dtype
        mapped = np.lib.format.open_memmap(
            path / f"{key}.npy", mode="w+", dtype=dtype, shape=array.shape
        )
        for rows in pieces(len(array)) if array.ndim else ():
            mapped[rows] = array[rows]
        mapped.flush()
    (path / ATTRIBUTES).write_text(json.dumps(attributes))
