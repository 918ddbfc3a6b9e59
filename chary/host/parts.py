"""Folders of finished parts: long work that resumes where it was, if its settings are the same."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chary.errors import CharyError
from chary.host.files import read_json, write_whole


@contextmanager
def locked(folder: Path, *, work: str) -> Iterator[None]:
    """The folder, made if need be, for one process at a time; `work` is what it is a folder of."""
    import filelock

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CharyError(f"{folder}: cannot be made ({error.strerror}).") from error
    try:
        with filelock.FileLock(folder / ".lock", timeout=0):
            yield
    except filelock.Timeout as error:
        raise CharyError(f"{folder}: another {work} is writing here. Wait for it.") from error


def check_settings(folder: Path, settings: Mapping[str, Any], *, work: str) -> None:
    """Write down the settings, or see that they are those of the parts that are already there."""
    path = folder / "settings.json"
    if not path.exists():
        write_whole(path, json.dumps(settings, indent=2))
        return
    try:
        before = read_json(path)
        keys = sorted({*before, *settings})
        other = [
            f"{key} {before.get(key)} instead of {settings.get(key)}"
            for key in keys
            if before.get(key) != settings.get(key)
        ]
    except (ValueError, TypeError, AttributeError, OSError) as error:
        raise CharyError(f"{path}: damaged. Delete {folder} to start again.") from error
    if other:
        raise CharyError(
            f"{folder}: holds parts of another {work}, with {', '.join(other)}. Repeat its settings "
            "to resume it, delete the folder to start again, or choose another --out."
        )
