"""NumPy's npz archive: one array a column, never unpickled."""

import json
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from chary.data.formats.guard import TEXT, check_memory, check_shared, check_stored, regular
from chary.data.names import parsed
from chary.errors import CharyError, reason

ATTRIBUTES = "attributes"
NPY = ".npy"


def names(path: Path) -> list[str]:
    """The archive's arrays."""
    with _archive(path) as archive:
        return [name for name in archive.files if name != ATTRIBUTES]


def read(
    path: Path, requested: Iterable[str] | None = None
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The requested arrays that are there, and the attributes that `write` put beside them."""
    with _archive(path) as archive:
        chosen = (
            archive.files if requested is None else [k for k in requested if k in archive.files]
        )
        _check_sizes(path, archive, [name for name in chosen if name != ATTRIBUTES])
        # What is no array comes as bytes, which no check of the columns lets pass.
        arrays = {key: np.asarray(archive[key]) for key in chosen if key != ATTRIBUTES}
        return arrays, _attributes(archive)


@contextmanager
def _archive(path: Path) -> Iterator[Any]:
    """An open archive; whatever is wrong with it is one message."""
    try:
        # NumPy would leave the file open where the archive is damaged.
        with open(regular(path), "rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("a single array, not an archive")
            yield archive
    except CharyError:
        raise
    # A damaged archive makes NumPy, zipfile and its decompressors raise all kinds of exceptions.
    except Exception as error:
        raise CharyError(
            f"{path}: not a readable npz file ({reason(error)}). It may be damaged, or hold Python "
            "objects, which are never loaded."
        ) from error


def _members(archive: Any, names: Iterable[str]) -> dict[str, zipfile.ZipInfo]:
    stored = set(archive.zip.namelist())
    return {n: archive.zip.getinfo(f"{n}{NPY}" if f"{n}{NPY}" in stored else n) for n in names}


def _check_sizes(path: Path, archive: Any, names: list[str]) -> None:
    """Refuse sizes that the file cannot hold, before anything is read; zipfile reads no more."""
    members = _members(archive, names)
    for name, member in members.items():
        check_stored(name, member.file_size, member.compress_size)
    sizes = {name: member.file_size for name, member in members.items()}
    check_shared(sizes, (m.compress_size for m in members.values()), path.stat().st_size)
    check_memory(path, 2 * sum(sizes.values()))


def _attributes(archive: Any) -> dict[str, Any]:
    if ATTRIBUTES not in archive.files:
        return {}
    if _members(archive, [ATTRIBUTES])[ATTRIBUTES].file_size > TEXT:
        raise ValueError("attributes are too long")
    attributes = parsed(str(np.asarray(archive[ATTRIBUTES])))
    if not isinstance(attributes, dict):
        raise ValueError("attributes are not a JSON object")
    return attributes


def write(path: Path, arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> None:
    text = np.asarray(json.dumps(attributes))
    with open(path, "wb") as file:  # given a path, NumPy would add its own ending
        np.savez(file, allow_pickle=False, **{**arrays, ATTRIBUTES: text})
