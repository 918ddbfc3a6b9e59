"""Files that are never seen half-written, and numbers as JSON has them."""

import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from chary.errors import CharyError


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
    """A name beside a file or folder to write to, which takes its place when all went well: nothing is
    ever seen half-written, and nothing is left behind. Missing folders are made, unless asked not to."""
    temporary = path.with_name(f".{path.stem}-{os.getpid()}{path.suffix}")
    try:
        if folders:
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            if path.is_dir() and temporary.is_dir():  # a folder gives way only to an empty name
                shutil.rmtree(path)
            os.replace(temporary, path)
        finally:
            if temporary.is_dir():
                shutil.rmtree(temporary)
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise CharyError(f"{path}: cannot be written ({error.strerror or error}).") from error


def write_whole(path: Path, text: str) -> None:
    """Write a text file in a folder that is there."""
    refuse_folder(path)
    with whole(path, folders=False) as temporary:
        temporary.write_text(text)


def write_result(path: Path, text: str) -> None:
    """The same for what a user asked for, in a folder that is made if need be."""
    refuse_folder(path)
    with whole(path) as temporary:
        temporary.write_text(text)
