"""Files that are never seen half-written, and JSON that may come from anybody."""

import errno
import json
import math
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from chary.errors import CharyError

DEEPEST = 32
"""Lists and objects within each other in any JSON of ours: far fewer."""
LARGEST = 64 * 2**20
"""Bytes of a JSON file of ours: far fewer."""


def parse_json(text: str | bytes) -> Any:
    """A value of JSON; ValueError for what is none, or is nested so deeply that using it would fail."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    written = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    if written.count(b"[") + written.count(b"{") <= DEEPEST:
        return value
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        parts = (each.values() if isinstance(each, dict) else each for each in level)
        level = [item for part in parts for item in part if isinstance(item, dict | list)]
        if not level:
            return value
    raise ValueError("nested too deeply")


def read_json(path: Path) -> Any:
    """What a JSON file holds; ValueError or OSError for what is none, too large, or no plain file."""
    with open_plain(path) as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"larger than {LARGEST // 2**20} MB")
    return parse_json(content)


def open_plain(path: Path) -> BinaryIO:
    """A file to be read, which must be a plain one: a pipe would be waited for, for ever."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a plain file", str(path))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def jsonable(value: Any) -> Any:
    """Plain JSON: NumPy numbers become Python's, NaN and infinities become null."""
    if isinstance(value, dict):
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, np.ndarray):
        return jsonable(value.tolist())
    if isinstance(value, np.generic):
        return jsonable(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def refuse_folder(path: Path) -> None:
    """A file cannot be written where a folder is; `.` has not even a name to write under."""
    if path.is_dir():
        raise CharyError(f"{path}: is a folder. Name a file in it to write to.")


@contextmanager
def whole(path: Path, *, folders: bool = True) -> Iterator[Path]:
    """A name to write a file or folder to, which takes its place when all went well: nothing is ever
    seen half-written, and nothing is left behind. Missing folders are made, unless asked not to.

    The name is in a new folder of its own, so nothing that somebody has put there is written through.
    """
    try:
        if folders:
            path.parent.mkdir(parents=True, exist_ok=True)
        beside = tempfile.mkdtemp(prefix=f".{path.stem[:32]}-", dir=path.parent)
        try:
            temporary = Path(beside) / path.name
            yield temporary
            if path.is_dir() and temporary.is_dir():  # a folder gives way only to an empty name
                shutil.rmtree(path)
            os.replace(temporary, path)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except OSError as error:
        raise CharyError(f"{path}: cannot be written ({error.strerror or error}).") from error


def write_whole(path: Path, text: str) -> None:
    """Write a text file in a folder that is there."""
    refuse_folder(path)
    with whole(path, folders=False) as temporary:
        _write(temporary, text)


def write_result(path: Path, text: str) -> None:
    """The same for what a user asked for, in a folder that is made if need be."""
    refuse_folder(path)
    with whole(path) as temporary:
        _write(temporary, text)


def _write(path: Path, text: str) -> None:
    """In UTF-8, whatever the terminal's language; a file's name need not be text in any."""
    path.write_text(text, encoding="utf-8", errors="backslashreplace")
