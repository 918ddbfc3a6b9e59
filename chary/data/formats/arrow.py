"""Parquet and CSV through pyarrow, which is imported when a table is touched."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from chary.data.columns import COLUMNS
from chary.data.formats.dialect import PLAIN, Dialect
from chary.data.formats.guard import check_memory, regular
from chary.data.names import names_in
from chary.errors import CharyError, reason

ENDINGS = (".csv", ".parquet")
RAGGED = 100
"""Lines with too few or too many cells after which a CSV file is given up."""


def names(path: Path, dialect: Dialect = PLAIN) -> list[str]:
    """The names of the columns, in the file's own order."""
    return list(_read(path, dialect, None).names)


def read(
    path: Path, chosen: Sequence[str], dialect: Dialect = PLAIN, missing: Sequence[str] = ()
) -> dict[str, Any]:
    """These columns, not converted yet; `missing` are cells of a CSV file that mean no value."""
    table = _read(path, dialect, chosen, missing)
    return dict(zip(table.column_names, table.columns, strict=True))


def _read(
    path: Path, dialect: Dialect, chosen: Sequence[str] | None, missing: Sequence[str] = ()
) -> Any:
    """The table with the chosen columns, or only the schema."""
    pyarrow = _pyarrow()
    suffix = path.suffix.lower()
    ragged: list[str] = []
    regular(path)
    try:
        if suffix == ".csv":
            found = _read_csv(path, dialect, chosen, missing, ragged)
        else:
            found = _read_parquet(path, chosen)
        if chosen is None:
            list(found.names)  # a damaged heading may be no text
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        why = ragged[0] if ragged else reason(error)
        raise CharyError(f"{path}: not a readable {suffix[1:]} file ({why}).") from error
    if ragged and chosen is not None:
        many = f", and {len(ragged) - 1} more such line(s)" if len(ragged) > 1 else ""
        raise CharyError(f"{path}: {ragged[0]}{many}. Every line needs a cell for each column.")
    return found


def _read_parquet(path: Path, chosen: Sequence[str] | None) -> Any:
    parquet, types = import_module("pyarrow.parquet"), import_module("pyarrow").types
    with parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
        if chosen is None:
            return schema
        check_memory(path, 16.0 * _values(file.metadata, set(chosen)))
        kinds = {field.name: field.type for field in schema}
    # A dictionary with one long word, for a million rows, stays one.
    text = [n for n in chosen if types.is_string(kinds[n]) or types.is_large_string(kinds[n])]
    with parquet.ParquetFile(path, read_dictionary=text) as file:
        return file.read(columns=list(chosen))


def _values(metadata: Any, chosen: set[str]) -> int:
    """Values in these columns, those in lists counted one by one."""
    total = 0
    for place in range(metadata.num_columns):
        parts = metadata.schema.column(place).path.split(".")
        if any(".".join(parts[:end]) in chosen for end in range(1, len(parts) + 1)):
            for group in range(metadata.num_row_groups):
                total += metadata.row_group(group).column(place).num_values
    return total


def _read_csv(
    path: Path,
    dialect: Dialect,
    chosen: Sequence[str] | None,
    missing: Sequence[str],
    ragged: list[str],
) -> Any:
    csv = import_module("pyarrow.csv")

    def odd(row: Any) -> str:
        line = f"line '{str(row.text)[:60]}' has {row.actual_columns} cells"
        ragged.append(f"{line}, but the heading has {row.expected_columns}")
        return "skip" if len(ragged) < RAGGED else "error"

    options = {
        "read_options": csv.ReadOptions(encoding=dialect.encoding or "utf-8"),
        "parse_options": csv.ParseOptions(
            delimiter=dialect.separator or ",", invalid_row_handler=odd
        ),
    }
    if chosen is None:
        with csv.open_csv(path, **options) as stream:
            return stream.schema
    convert = csv.ConvertOptions(
        include_columns=list(chosen),
        decimal_point=dialect.decimal or ".",
        strings_can_be_null=True,
        null_values=[*csv.ConvertOptions().null_values, *missing],
    )
    return csv.read_csv(path, convert_options=convert, **options)


def write(path: Path, arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> None:
    """One column a number: observations_0, observations_1, ..., rewards, terminals, timeouts.

    Columns that have names of their own keep them. Numbers are written as doubles, whose shortest
    text gives back the same float32 exactly. A table has rows only: the bounds of actions, and words,
    are left out.
    """
    pyarrow = _pyarrow()
    widths = {key: arrays[key].shape[1] for key in COLUMNS if arrays[key].ndim == 2}
    headings = headings_of(widths, *names_in(attributes, widths))
    columns: dict[str, np.ndarray] = {}
    for key in COLUMNS:
        array = arrays[key]
        if array.ndim == 1:
            columns[key] = array
        else:
            columns |= {heading: array[:, i] for i, heading in enumerate(headings[key])}
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


def headings_of(
    widths: dict[str, int], observation_names: Sequence[str], action_names: Sequence[str]
) -> dict[str, list[str]]:
    """What the columns of an exported table are called: by their own names, unless these clash."""
    plain = {key: [f"{key}_{i}" for i in range(width)] for key, width in widths.items()}
    own = {
        "observations": list(observation_names),
        "actions": list(action_names),
        "next_observations": [f"next {name}" for name in observation_names],
    }
    named = {key: own[key] or plain[key] for key in widths}
    every = [*(name for names in named.values() for name in names), *COLUMNS]
    return named if len(set(every)) == len(every) else plain


def _pyarrow() -> Any:
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise CharyError(
            "Parquet and CSV files need the package pyarrow, which comes with chary: "
            "pip install pyarrow"
        ) from error
