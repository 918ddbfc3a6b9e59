"""What is looked at before a file is opened or an array made: anybody may have written it.

Only regular files are read, and nothing that a file points to elsewhere. Sizes that a file claims are
compared with what it stores and with the memory there is.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from chary.errors import CharyError
from chary.host.machine import host_memory

TIGHTEST = 2_000
"""Bytes that one stored byte may stand for; gzip reaches about 1,000."""
UNSTORED = 2**26
"""Bytes that need no such proof: they fit anywhere."""
TEXT = 2**22
"""Bytes of the JSON beside a dataset's arrays."""

KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe, which may never end"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISLNK, "a link, which may lead anywhere"),
)


def regular(path: Path, *, inside: bool = False) -> Path:
    """The path, if a regular file is there; `inside` a dataset's folder a link is none.

    Opening a pipe would wait for ever, and reading a device may never end.
    """
    try:
        mode = os.stat(path, follow_symlinks=not inside).st_mode
    except FileNotFoundError as error:
        raise CharyError(f"{path}: no such file.") from error
    except (OSError, ValueError) as error:  # a loop of links, no permission, a name with a NUL
        raise CharyError(f"{path}: cannot be looked at ({error}).") from error
    if not stat.S_ISREG(mode):
        what = next((words for test, words in KINDS if test(mode)), "no regular file")
        raise CharyError(f"{path}: is {what}; only regular files are read. Copy the data into one.")
    return path


def regular_folder(folder: Path, *, deepest: int = 3) -> None:
    """Refuse a folder that holds, anywhere in it, something else than folders and regular files."""
    for entry in folder.iterdir():
        if stat.S_ISDIR(entry.lstat().st_mode) and deepest:
            regular_folder(entry, deepest=deepest - 1)
        else:
            regular(entry, inside=True)


def check_stored(key: str, claimed: int, stored: int) -> None:
    """Refuse sizes that no compression reaches: a damaged file would fill the memory with nothing."""
    if claimed > UNSTORED + TIGHTEST * stored:
        raise ValueError(f"{key} claims {claimed:,} bytes, but {stored:,} are stored")


def check_shared(sizes: dict[str, int], stored: Iterable[int], whole: int) -> None:
    """Refuse arrays that together store more than their file has, or hardly anything: they are one under
    many names, or small ones that become large."""
    total = sum(stored)
    check_stored(f"the sum of {len(sizes)} columns", sum(sizes.values()), total)
    if sum(sizes.values()) > UNSTORED and total > whole:
        raise ValueError(
            f"{len(sizes)} columns store {total:,} bytes, but the file has {whole:,}: several are "
            "the same bytes"
        )


def in_memory(count: int, dtype: np.dtype) -> int:
    """Bytes that so many numbers take at once: as they are stored, and in single precision."""
    return count * (dtype.itemsize + 4)


@contextmanager
def fits(path: object) -> Iterator[None]:
    """Memory that ran out all the same, as one message."""
    try:
        yield
    except MemoryError as error:
        raise CharyError(f"{path}: does not fit into memory.") from error


def check_memory(path: object, needed: float) -> None:
    """Refuse what does not fit into memory, before any of it is read."""
    if needed <= UNSTORED:
        return
    free = host_memory()
    if needed > free:
        raise CharyError(
            f"{path}: needs {needed / 1e9:,.1f} GB of memory, but {free / 1e9:,.1f} GB are free. An "
            "HDF5 file of that size can be trained from a folder of columns: `chary data export FILE "
            "--out FILE.columns`."
        )
