"""NumPy's npz archive: one array a column, never unpickled."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from chary.errors import CharyError, reason

ATTRIBUTES = "attributes"


def read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The archive's arrays, and the attributes that `write` put beside them."""
    try:
        with open(path, "rb") as file:  # NumPy would leave it open where the archive is damaged
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("a single array, not an archive")
            # What is no array comes as bytes, which no check of the columns lets pass.
            arrays = {key: np.asarray(archive[key]) for key in archive.files}
        attributes = json.loads(str(arrays.pop(ATTRIBUTES, "{}")))
        if not isinstance(attributes, dict):
            raise ValueError("attributes are not a JSON object")
    # A damaged archive makes NumPy, zipfile and its decompressors raise all kinds of exceptions.
    except Exception as error:
        raise CharyError(
            f"{path}: not a readable npz file ({reason(error)}). It may be damaged, or hold Python "
            "objects, which are never loaded."
        ) from error
    return arrays, attributes


def write(path: Path, arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> None:
    text = np.asarray(json.dumps(attributes))
    with open(path, "wb") as file:  # given a path, NumPy would add its own ending
        np.savez(file, allow_pickle=False, **{**arrays, ATTRIBUTES: text})
