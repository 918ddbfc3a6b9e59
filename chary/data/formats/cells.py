"""One column of a table as numbers, as ids or as times, with the rows that hold no value.

A column is a NumPy array, or pyarrow's. What is wrong with it is raised as `OddError`; the caller
adds the file and looks at the next column, so that all problems of a file are reported at once.
"""

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np


class OddError(Exception):
    """What is wrong with a column, as a sentence."""


class Cells(NamedTuple):
    """The numbers of a column."""

    values: np.ndarray
    """(row, number), float32; 0 where there is none."""
    missing: np.ndarray | None
    """(row,), whether the row lacks a value; None where every row has all."""


class Keys(NamedTuple):
    """The ids of a column, as numbers in the order of their first appearance."""

    codes: np.ndarray
    labels: Sequence[Any]
    """By code; nothing where the whole file is one episode."""
    missing: np.ndarray | None

    def label(self, row: int) -> str:
        """The row's episode in words."""
        return f"episode {self.labels[self.codes[row]]}" if self.labels else "the log"


class Times(NamedTuple):
    """The times of a column, as numbers that order them."""

    values: np.ndarray
    seconds: float | None
    """Seconds that a step of 1 lasts; None for plain numbers, whose unit only the user knows."""
    missing: np.ndarray | None


def numbers(name: str, column: Any, missing: Sequence[str] = (), decimal: str = ".") -> Cells:
    """The column as numbers; `missing` are values, as text, that mean that there is none."""
    array, absent = _matrix(name, column, missing, decimal)
    for word in missing:
        number = _number(word)
        if number is not None:
            absent |= array == number
    if array.dtype.kind == "f":
        absent |= np.isnan(array)
    with np.errstate(over="ignore"):  # too large for float32 is infinite too
        values = array.astype(np.float32)
    bad = np.flatnonzero((~np.isfinite(values) & ~absent).any(axis=1))
    if bad.size:
        raise OddError(
            f"column '{name}' has no finite number in row {bad[0]}{such(bad.size)}. Fill them "
            "in, or drop these rows"
        )
    if not absent.any():
        return Cells(values, None)
    values[absent] = 0.0
    return Cells(values, np.asarray(absent.any(axis=1)))


def keys(name: str, column: Any, missing: Sequence[str] = ()) -> Keys:
    """The column as ids: numbers or words."""
    if not isinstance(column, np.ndarray):
        pyarrow = import_module("pyarrow")
        encoded = _decoded(column).combine_chunks().dictionary_encode()
        if isinstance(encoded, pyarrow.ChunkedArray):
            encoded = encoded.unify_dictionaries().combine_chunks()
        if pyarrow.types.is_nested(encoded.type.value_type):
            raise OddError(f"'{name}' must hold one id in every row")
        labels = encoded.dictionary.to_pylist()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    else:
        if column.ndim != 1:
            raise OddError(f"'{name}' must hold one id in every row")
        try:
            unique, first, inverse = np.unique(column, return_index=True, return_inverse=True)
        except TypeError as error:  # objects that cannot be compared
            raise OddError(
                f"'{name}' holds ids of several kinds. Make all of them text, or all numbers"
            ) from error
        place = np.argsort(first)
        codes = np.argsort(place)[inverse]
        labels = unique[place].tolist()
    void = [i for i, label in enumerate(labels) if _is_void(label, missing)]
    absent = (codes < 0) | np.isin(codes, void)
    return Keys(codes, labels, absent if absent.any() else None)


def times(name: str, column: Any, layout: str | None = None, missing: Sequence[str] = ()) -> Times:
    """The column as times; `layout` is how text is to be read, such as '%d.%m.%Y %H:%M'."""
    if not isinstance(column, np.ndarray):
        column = _clock(name, _decoded(column), layout)
    if isinstance(column, np.ndarray) and column.dtype.kind in "mM" and column.ndim == 1:
        absent = np.isnat(column)
        unit = np.datetime_data(column.dtype)
        seconds = np.timedelta64(unit[1], unit[0]) / np.timedelta64(1, "s")
        return Times(column.astype(np.int64), float(seconds), absent if absent.any() else None)
    try:
        array, absent = _matrix(name, column, missing)
    except OddError as error:
        raise OddError(
            f"'{name}' must hold numbers or times to put rows in order: {error}"
        ) from error
    if array.shape[1] != 1:
        raise OddError(f"'{name}' must hold numbers or times to put rows in order")
    absent = absent[:, 0]
    values = array[:, 0]
    for word in missing:
        absent |= values == (math.nan if _number(word) is None else _number(word))
    if values.dtype.kind == "f":
        absent |= ~np.isfinite(values)
    return Times(values, None, absent if absent.any() else None)


def _matrix(
    name: str, column: Any, missing: Sequence[str], decimal: str = "."
) -> tuple[np.ndarray, np.ndarray]:
    """The column as a matrix of numbers, and where it has none."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind not in "biuf":
            words = column.reshape(len(column), -1)[:, 0]
            row = next((i for i, word in enumerate(words) if _number(word) is None), 0)
            raise OddError(
                f"column '{name}' must hold numbers, but row {row} is {str(words[row])[:40]!r}"
            )
        if column.ndim not in (1, 2) or not all(column.shape[1:]):
            raise OddError(
                f"column '{name}' has shape {column.shape}; a column is a list or a matrix"
            )
        array = column.reshape(len(column), -1)
        return array, np.zeros(array.shape, bool)
    pyarrow = import_module("pyarrow")
    types = pyarrow.types
    column = _decoded(column)
    kind = column.type
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _lists(name, column)
    if types.is_null(kind):
        return np.full((len(column), 1), np.nan), np.ones((len(column), 1), bool)
    if types.is_string(kind) or types.is_large_string(kind):
        column = _numbers_in_text(name, column, missing, decimal)
    elif not (
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
    ):
        raise OddError(f"column '{name}' must hold numbers, but holds {_kind(kind)}")
    if types.is_decimal(kind):
        column = column.cast(pyarrow.float64())
    if types.is_boolean(kind):
        column = column.cast(pyarrow.int8())
    absent = column.is_null().to_numpy() if column.null_count else np.zeros(len(column), bool)
    return column.to_numpy().reshape(-1, 1), np.array(absent).reshape(-1, 1)


def _decoded(column: Any) -> Any:
    """The column itself where it holds places in a dictionary, as pandas' categories do; text in the
    one form that all of Arrow's functions know, which polars' is not."""
    pyarrow = import_module("pyarrow")
    types, text = pyarrow.types, pyarrow.large_string()
    while types.is_dictionary(column.type):
        if types.is_string_view(column.type.value_type):
            words = pyarrow.dictionary(column.type.index_type, text)
            column = pyarrow.chunked_array(
                [
                    pyarrow.DictionaryArray.from_arrays(part.indices, part.dictionary.cast(text))
                    for part in column.chunks
                ],
                type=words,
            )
        column = column.cast(column.type.value_type)
    return column.cast(text) if types.is_string_view(column.type) else column


def _lists(name: str, column: Any) -> tuple[np.ndarray, np.ndarray]:
    """Lists of one length as a matrix."""
    compute = import_module("pyarrow.compute")
    lengths = compute.list_value_length(column).fill_null(-1).to_numpy()
    absent = lengths < 0
    known = lengths[~absent]
    odd = np.flatnonzero(~absent & (lengths != known[:1].sum()))
    if odd.size:
        start = np.flatnonzero(~absent)[0]
        raise OddError(
            f"column '{name}': a list of {lengths[odd[0]]} in row {odd[0]}, but of {lengths[start]} in "
            f"row {start}"
        )
    inner, _ = _matrix(name, compute.list_flatten(column), ())
    width = int(known[0]) if known.size else 1
    if not width:
        raise OddError(
            f"column '{name}' has shape {(len(column), 0)}; a column is a list or a matrix"
        )
    matrix = np.full((len(column), width), np.nan)
    matrix[~absent] = inner.reshape(-1, width)
    return matrix, np.isnan(matrix)


def _numbers_in_text(name: str, column: Any, missing: Sequence[str], decimal: str) -> Any:
    """Text as numbers, if all of it is; otherwise what stands there instead."""
    pyarrow, compute = import_module("pyarrow"), import_module("pyarrow.compute")
    if missing:
        void = compute.is_in(column, value_set=pyarrow.array(missing, column.type))
        column = compute.if_else(void, pyarrow.scalar(None, column.type), column)
    try:
        return column.cast(pyarrow.float64())
    except pyarrow.ArrowException:
        pass
    counted = compute.value_counts(column)
    words = [
        (entry["values"], entry["counts"])
        for entry in (value.as_py() for value in counted)
        if entry["values"] is not None and _number(_plain(entry["values"], decimal)) is None
    ]
    if not words:
        raise OddError(f"column '{name}' must hold numbers, but holds text such as {column[0]}")
    rows = sum(count for _, count in words)
    row = compute.index(column, pyarrow.scalar(words[0][0], column.type)).as_py()
    message = f"column '{name}' must hold numbers, but row {row} is {words[0][0][:40]!r}"
    if rows > 1:
        few = ", ".join(repr(word[:20]) for word, _ in words[:4])
        message += f" ({rows:,} rows hold text: {few}{', ...' if len(words) > 4 else ''})"
    return _advise(message, words[0][0], rows, len(column), len(words))


def _plain(word: str, decimal: str) -> str:
    """A number in a table's own way of writing, with a decimal point."""
    return word if decimal == "." or "." in word else word.replace(decimal, ".")


def _advise(message: str, word: str, rows: int, size: int, kinds: int) -> Any:
    """Raise the problem with the likely way out."""
    if _number(word.replace(".", "").replace(",", ".").replace("'", "").replace(" ", "")):
        advice = "For a decimal comma say --decimal ','; signs between thousands are not read"
    elif rows == size and kinds <= 50:
        advice = "Words are categories: write a column of 0 and 1 for each word, and take these"
    else:
        advice = "If it stands for no value, say so with --missing"
    raise OddError(f"{message}. {advice}")


def _clock(name: str, column: Any, layout: str | None) -> Any:
    """Times, durations and text as NumPy's times; numbers as they are."""
    pyarrow, compute = import_module("pyarrow"), import_module("pyarrow.compute")
    types, kind = pyarrow.types, column.type
    if types.is_string(kind) or types.is_large_string(kind):
        if layout is None:
            shown = next((str(value) for value in column if value.is_valid), "")
            raise OddError(
                f"'{name}' must hold numbers or times to put rows in order, but holds text "
                f"('{shown[:30]}'). Say how to read it: --time-format '%d.%m.%Y %H:%M', say"
            )
        parsed = compute.strptime(column, format=layout, unit="us", error_is_null=True)
        unread = np.flatnonzero(parsed.is_null().to_numpy() & ~column.is_null().to_numpy())
        if unread.size:
            shown = str(column[int(unread[0])])[:30]
            raise OddError(
                f"'{name}' in row {unread[0]} is '{shown}', which --time-format '{layout}' does "
                f"not read{such(unread.size)}"
            )
        column, kind = parsed, parsed.type
    if types.is_time(kind):
        column = (
            column.cast(pyarrow.time64("us")).cast(pyarrow.int64()).cast(pyarrow.duration("us"))
        )
        kind = column.type
    if types.is_timestamp(kind) or types.is_date(kind) or types.is_duration(kind):
        return column.to_numpy()
    return column


def _kind(kind: Any) -> str:
    """What a column of no numbers holds, in words."""
    types = import_module("pyarrow").types
    if types.is_binary(kind) or types.is_large_binary(kind):
        return "bytes that are no text; save the file as UTF-8, or say --encoding"
    return "times" if types.is_temporal(kind) else str(kind)


def such(rows: int | np.integer) -> str:
    """How many rows are like the one that is named."""
    return f" ({rows:,} such rows)" if rows > 1 else ""


def _number(word: Any) -> float | None:
    try:
        return float(word)
    except (TypeError, ValueError):
        return None


def _is_void(label: Any, missing: Sequence[str]) -> bool:
    """Whether an id is none: nothing, no number, or a word that means so."""
    if label is None or label == "" or (isinstance(label, float) and not math.isfinite(label)):
        return True
    number = _number(label)
    return any(str(label) == w or (number is not None and number == _number(w)) for w in missing)
