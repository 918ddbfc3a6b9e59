"""Files of arrays in a run folder: read within limits, written whole."""

import tokenize
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path

import numpy as np

from chary.host.files import open_plain, whole

LARGEST_ARRAYS = 2**30
"""Bytes of the arrays in one file, unpacked."""
UNREADABLE = (
    OSError, ValueError, KeyError, EOFError, RuntimeError, MemoryError, tokenize.TokenError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What NumPy raises on files that are not whole or not its own."""


def read_arrays(path: Path, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """The arrays of these names that are in a file, or all; raises what is in UNREADABLE."""
    # NumPy leaves a torn file open; what is opened here is closed here.
    with open_plain(path) as raw, zipfile.ZipFile(raw) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
        chosen = [n for n in sizes if names is None or n.removesuffix(".npy") in names]
        if sum(sizes[n] for n in chosen) > LARGEST_ARRAYS:
            raise ValueError(f"larger than {LARGEST_ARRAYS // 2**20} MB")
        raw.seek(0)
        with np.load(raw, allow_pickle=False) as file:
            return {name.removesuffix(".npy"): file[name] for name in chosen}


def save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with whole(path) as temporary:
        np.savez_compressed(temporary, allow_pickle=False, **arrays)
