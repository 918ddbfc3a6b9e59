"""Files that are never seen half-written, and numbers as JSON has them."""

import math
import os
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


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is never seen half-written."""
    refuse_folder(path)
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.write_text(text)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise CharyError(f"{path}: cannot be written ({error.strerror or error}).") from error


def write_result(path: Path, text: str) -> None:
    """The same for what a user asked for, in a folder that is made if need be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CharyError(f"{path}: cannot be written ({error.strerror or error}).") from error
    write_whole(path, text)
