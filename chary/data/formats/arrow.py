"""Parquet and CSV through pyarrow, which is imported when a table is touched."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from chary.data.columns import COLUMNS
from chary.errors import CharyError

ENDINGS = (".csv", ".parquet")


def read(path: Path) -> dict[str, Any]:
    """The columns in the file's own order, not converted yet: most tables hold more than is wanted."""
    pyarrow = _pyarrow()
    suffix = path.suffix.lower()
    try:
        if suffix == ".csv":
            table = import_module("pyarrow.csv").read_csv(path)
        else:
            table = import_module("pyarrow.parquet").ParquetFile(path).read()
        names = table.column_names  # a damaged heading may be no text
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise CharyError(f"{path}: not a readable {suffix[1:]} file ({reason}).") from error
    for name in names:
        if names.count(name) > 1:
            raise CharyError(f"{path}: two columns are called '{name}'.")
    return dict(zip(names, table.columns, strict=True))


def to_numpy(column: Any, where: str) -> np.ndarray:
    """A column as an array: numbers, times or text; lists of one length become a matrix."""
    pyarrow = _pyarrow()
    missing = np.flatnonzero(column.is_null().to_numpy())
    if missing.size:
        raise CharyError(
            f"{where}: no value in row {missing[0]} ({missing.size} missing in all). Fill them in, or "
            "drop these rows."
        )
    kind = column.type
    if pyarrow.types.is_dictionary(kind):
        column = column.combine_chunks().dictionary_decode()
        kind = column.type
    if pyarrow.types.is_list(kind) or pyarrow.types.is_fixed_size_list(kind):
        rows = [np.asarray(row) for row in column.to_pylist()]
        lengths = np.array([len(row) for row in rows])
        odd = np.flatnonzero(lengths != lengths[:1])
        if odd.size:
            raise CharyError(
                f"{where}: a list of {lengths[odd[0]]} in row {odd[0]}, but of {lengths[0]} in row 0."
            )
        return np.stack(rows) if rows else np.zeros((0, 0))
    if pyarrow.types.is_binary(kind):
        raise CharyError(f"{where}: holds bytes that are no text; save the file as UTF-8.")
    if pyarrow.types.is_decimal(kind):
        column = column.cast(pyarrow.float64())
    array = column.to_numpy()
    return array.astype(str) if array.dtype == object else array


def write(path: Path, arrays: dict[str, np.ndarray], _: dict[str, Any]) -> None:
    """One column a number: observations_0, observations_1, ..., rewards, terminals, timeouts.

    Numbers are written as doubles, whose shortest text gives back the same float32 exactly. A table
    has rows only: the bounds of actions, and words, are left out.
    """
    pyarrow = _pyarrow()
    columns: dict[str, np.ndarray] = {}
    for key in COLUMNS:
        array = arrays[key]
        if array.ndim == 1:
            columns[key] = array
        else:
            columns |= {f"{key}_{index}": array[:, index] for index in range(array.shape[1])}
    table = pyarrow.table(
        {
            name: array.astype(np.float64) if array.dtype.kind == "f" else array
            for name, array in columns.items()
        }
    )
    if path.suffix.lower() == ".csv":
        import_module("pyarrow.csv").write_csv(table, path)
    else:
        import_module("pyarrow.parquet").write_table(table, path)


def _pyarrow() -> Any:
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise CharyError(
            "Parquet and CSV files need another package: pip install 'chary[tables]'"
        ) from error
