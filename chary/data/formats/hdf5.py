"""D4RL's HDF5 layout: one dataset a column, at the root of the file."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chary.errors import CharyError, reason

if TYPE_CHECKING:
    import h5py

TIGHTEST = 2_000
"""Bytes that one stored byte may stand for; gzip reaches about 1,000."""
UNSTORED = 2**26
"""Bytes that may be left out of a file, as HDF5 does with what was never written."""


def read(path: Path, *, extra: Sequence[str] = ()) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Root-level arrays and the file's text attributes.

    `extra` names arrays deeper in the file ("infos/qpos") to be read too, where they are there.
    """
    with opened(path, extra=extra) as (items, attributes):
        return {key: np.asarray(item[()]) for key, item in items.items()}, attributes


@contextmanager
def opened(
    path: Path, *, extra: Sequence[str] = ()
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The same, with arrays that stay in the file until they are sliced."""
    import h5py

    items: dict[str, h5py.Dataset] = {}
    try:
        with h5py.File(path, "r") as file:
            nested = ((key, file.get(key)) for key in extra)
            for key, item in (*file.items(), *nested):
                if isinstance(item, h5py.Dataset) and item.dtype.kind in "biuf":
                    _check_size(key, item)
                    items[key] = item
            # Only text of fixed length: in a damaged file, other text can hang or crash the library.
            texts = [k for k in file.attrs if file.attrs.get_id(k).dtype.kind == "S"]
            values = {key: file.attrs[key] for key in texts}
            attributes = {k: v.decode() for k, v in values.items() if isinstance(v, bytes)}
            yield items, attributes
    except CharyError:
        raise
    # h5py raises whatever its C library's state suggests when a file is damaged.
    except Exception as error:
        raise CharyError(
            f"{path}: not a readable HDF5 file ({reason(error)}). "
            "It may be damaged or only partly downloaded."
        ) from error


def _check_size(key: str, item: "h5py.Dataset") -> None:
    """Refuse sizes that no compression reaches: a damaged file would fill the memory with nothing."""
    stored = item.id.get_storage_size()
    claimed = (item.size or 0) * item.dtype.itemsize
    if claimed > UNSTORED + TIGHTEST * stored:
        raise ValueError(f"{key} claims {claimed:,} bytes, but {stored:,} are stored")


def write(path: Path, arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        for key, array in arrays.items():
            # The checksum makes a damaged file an error instead of other data.
            file.create_dataset(key, data=array, compression="gzip", fletcher32=True)
        file.attrs.update({key: np.bytes_(str(v).encode()) for key, v in attributes.items()})
