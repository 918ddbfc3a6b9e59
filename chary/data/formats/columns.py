"""A folder of NumPy files, one a column, that are mapped into memory and never read as a whole.

For data that is larger than memory: training reads only the rows of its batches.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from chary.data.columns import pieces
from chary.errors import CharyError, reason

ATTRIBUTES = "attributes.json"


def read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The columns, mapped, and the attributes that `write` put beside them."""
    try:
        if not path.is_dir():
            raise ValueError("not a folder of columns")
        arrays = {
            file.stem: np.load(file, mmap_mode="r", allow_pickle=False)
            for file in sorted(path.glob("*.npy"))
        }
        text = (path / ATTRIBUTES).read_text() if (path / ATTRIBUTES).exists() else "{}"
        attributes = json.loads(text)
        if not isinstance(attributes, dict):
            raise ValueError("attributes are not a JSON object")
    except (OSError, ValueError, EOFError, SyntaxError, TypeError, OverflowError) as error:
        raise CharyError(f"{path}: not a readable folder of columns ({reason(error)}).") from error
    return arrays, attributes


def write(path: Path, arrays: dict[str, Any], attributes: dict[str, Any]) -> None:
    """Copy the columns piece by piece, from wherever they are; floats become single precision."""
    path.mkdir()
    for key, array in arrays.items():
        # Times need more digits than single precision has.
        single = array.dtype.kind == "f" and key != "times"
        dtype = np.float32 if single else array.dtype
        mapped = np.lib.format.open_memmap(
            path / f"{key}.npy", mode="w+", dtype=dtype, shape=array.shape
        )
        for rows in pieces(len(array)) if array.ndim else ():
            mapped[rows] = array[rows]
        mapped.flush()
    (path / ATTRIBUTES).write_text(json.dumps(attributes))
