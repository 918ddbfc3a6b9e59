"""D4RL's HDF5 layout: one dataset a column, at the root of the file.

HDF5 can lead a reader out of its file: by links, by numbers that are stored in other files, and by
virtual datasets, which are views of others (a view of itself crashes the library). None is followed.
"""

import math
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chary.data.formats.guard import (
    TEXT,
    UNSTORED,
    check_memory,
    check_shared,
    check_stored,
    in_memory,
    regular,
)
from chary.errors import CharyError, reason

if TYPE_CHECKING:
    import h5py

HOPS = 8
"""Links from one name to another that are followed inside a file."""
SHUFFLE, FLETCHER = 2, 3
"""Filters that do not inflate what is stored; the second adds a checksum of four bytes."""
UNSAFE = {5: "n-bit", 6: "scale-offset"}
"""Filters that read past the end of damaged chunks."""
DEFLATE, INFLATES = 1, 1032
"""The filter gzip, and how many bytes one of its bytes can become."""
AT_ONCE = 2**29
"""Bytes that a piece of gzip may become before it is looked at."""


def names(path: Path) -> list[str]:
    """The root-level arrays of numbers, and what lies elsewhere: `read` refuses it by its name."""
    found = []
    with _file(path) as file:
        for key in file:
            try:
                found += _columns(path, file, [str(key)])
            except CharyError:
                found.append(str(key))
    return found


def read(
    path: Path, requested: Iterable[str] | None = None
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays of numbers and the file's text attributes.

    `requested` names the arrays, also deeper in the file ("infos/qpos"), and those that are there are
    read; by default all at the root.
    """
    with opened(path, requested) as (items, attributes):
        check_memory(path, sum(in_memory(item.size, item.dtype) for item in items.values()))
        return {key: np.asarray(item[()]) for key, item in items.items()}, attributes


@contextmanager
def opened(
    path: Path, requested: Iterable[str] | None = None
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The same, with arrays that stay in the file until they are sliced."""
    with _file(path) as file:
        items = _columns(path, file, file if requested is None else requested)
        check_sizes(path, items)
        yield items, _attributes(file)


class Tree:
    """Arrays of numbers anywhere in a file, read one by one, and no more of them than fit."""

    def __init__(self, path: Path, file: "h5py.File"):
        self.path, self.file = path, file
        self.taken, self.stored, self.looked_at = 0, 0, UNSTORED

    def __getitem__(self, key: str) -> np.ndarray:
        found = _columns(self.path, self.file, [key])
        if key not in found:
            raise ValueError(f"'{key}' is not there, or holds no numbers")
        check_sizes(self.path, found)
        self.taken += in_memory(found[key].size or 0, found[key].dtype)
        self.stored += found[key].id.get_storage_size()
        check_shared({key: self.taken}, [self.stored], self.path.stat().st_size)
        if self.taken > self.looked_at:
            check_memory(self.path, self.taken - self.looked_at)
            self.looked_at += UNSTORED
        return np.asarray(found[key][()])


@contextmanager
def tree(path: Path) -> Iterator[Tree]:
    """A file whose arrays are asked for by their place in it."""
    with _file(path) as file:
        yield Tree(path, file)


@contextmanager
def _file(path: Path) -> Iterator["h5py.File"]:
    """An open file; whatever is wrong with it is one message."""
    import h5py

    try:
        with h5py.File(regular(path), "r") as file:
            yield file
    except CharyError:
        raise
    # h5py raises whatever its C library's state suggests when a file is damaged.
    except Exception as error:
        raise CharyError(
            f"{path}: not a readable HDF5 file ({reason(error)}). "
            "It may be damaged or only partly downloaded."
        ) from error


def _columns(path: Path, file: "h5py.File", keys: Iterable[str]) -> dict[str, "h5py.Dataset"]:
    """Those of the names that are arrays of numbers in the file itself."""
    import h5py

    found = {key: resolve(path, file, key) for key in keys}
    return {
        key: item
        for key, item in found.items()
        if isinstance(item, h5py.Dataset) and item.dtype.kind in "biuf" and item.shape is not None
    }


def resolve(path: Path, file: "h5py.Group", key: str) -> Any:
    """What the name stands for, None where it is not there; what lies elsewhere is refused."""
    import h5py

    item: Any = file
    parts, hops = _parts(key), HOPS
    while parts:
        name, *parts = parts
        link = item.get(name, getlink=True) if isinstance(item, h5py.Group) else None
        if link is None:
            return None
        if isinstance(link, h5py.SoftLink):
            hops -= 1
            if hops < 0:
                raise ValueError(f"'{key}' is a chain of links")
            item = item.file if link.path.startswith("/") else item
            parts = _parts(link.path) + parts
        elif isinstance(link, h5py.HardLink):
            item = item[name]
        else:
            raise _elsewhere(path, key, "a link to another file")
    if isinstance(item, h5py.Dataset):
        settings = item.id.get_create_plist()
        if settings.get_layout() == h5py.h5d.VIRTUAL:
            raise _elsewhere(path, key, "a virtual dataset")
        if settings.get_external_count():
            raise _elsewhere(path, key, "stored in another file")
    return item


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _elsewhere(path: Path, key: str, what: str) -> CharyError:
    return CharyError(
        f"{path}: '{key}' is {what}; only numbers in the file itself are read. Copy them into it."
    )


def _attributes(file: "h5py.File") -> dict[str, str]:
    """Text of fixed length: in a damaged file, other text can hang or crash the library."""
    found = {}
    for key in file.attrs:
        kept = file.attrs.get_id(key)
        if kept.dtype.kind == "S" and kept.shape == () and kept.dtype.itemsize <= TEXT:
            text: Any = file.attrs[key]
            found[key] = bytes(text).decode(errors="replace")
    return found


def check_sizes(path: Path, items: "dict[str, h5py.Dataset]") -> None:
    """Refuse sizes that the file cannot hold, before anything is read."""
    sizes, stored = {}, []
    for key, item in items.items():
        sizes[key] = (item.size or 0) * item.dtype.itemsize
        stored.append(item.id.get_storage_size())
        check_stored(key, sizes[key], stored[-1])
        if item.chunks is not None:
            _check_chunks(key, item, sizes[key])
    check_shared(sizes, stored, path.stat().st_size)


def _check_chunks(key: str, item: "h5py.Dataset", size: int) -> None:
    """Refuse chunks that become more than the array: the library inflates whatever is in them."""
    chunk = math.prod(item.chunks or ()) * item.dtype.itemsize
    if chunk > size + UNSTORED:
        raise ValueError(f"{key} has {size:,} bytes in chunks of {chunk:,}")
    settings = item.id.get_create_plist()
    filters = [settings.get_filter(i)[0] for i in range(settings.get_nfilters())]
    inflating = [code for code in filters if code not in (SHUFFLE, FLETCHER)]
    if len(inflating) > 1:
        raise ValueError(f"{key} is compressed {len(inflating)} times over")
    for code in filters:
        if code in UNSAFE:
            raise ValueError(f"{key} is packed by {UNSAFE[code]}, which is not read; take gzip")
        if filters.count(code) > 1:
            raise ValueError(f"{key} is filtered twice in the same way")
    if not filters:
        return
    long: list[Any] = []
    least = 5 if inflating else chunk  # the library takes a checksum off whatever there is

    def look(info: Any) -> None:
        if not least <= info.size <= 1.1 * chunk + 4096:
            raise ValueError(f"{key} has a chunk of {chunk:,} bytes stored in {info.size:,}")
        if inflating == [DEFLATE] and info.size * INFLATES > AT_ONCE:
            long.append(info.chunk_offset)

    item.id.chunk_iter(look)
    for offset in long:
        _, packed = item.id.read_direct_chunk(offset)
        inflater = zlib.decompressobj()
        if len(inflater.decompress(packed, chunk + 64)) == chunk + 64:
            raise ValueError(f"{key} has a chunk that becomes more than its {chunk:,} bytes")


def write(path: Path, arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        for key, array in arrays.items():
            # The checksum makes a damaged file an error instead of other data.
            file.create_dataset(key, data=array, compression="gzip", fletcher32=True)
        file.attrs.update({key: np.bytes_(str(v).encode()) for key, v in attributes.items()})
