"""NumPy's npz archive: one array a column, never unpickled."""

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from chary.errors import CharyError

ATTRIBUTES = "attributes"


def read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The archive's arrays, and the attributes that `write` put beside them."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("a single array, not an archive")
            arrays = {key: archive[key] for key in archive.files}
        attributes = json.loads(str(arrays.pop(ATTRIBUTES, "{}")))
        if not isinstance(attributes, dict):
            raise ValueError("attributes are not a JSON object")
    except (
        OSError,
        ValueError,
        KeyError,
        EOFError,
        MemoryError,
        NotImplementedError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise CharyError(
            f"{path}: not a readable npz file ({reason}). It may be damaged, or hold Python objects, "
            "which are never loaded."
        ) from error
    return arrays, attributes


def write(path: Path, arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> None:
    text = np.asarray(json.dumps(attributes))
    np.savez(path, allow_pickle=False, **{**arrays, ATTRIBUTES: text})
