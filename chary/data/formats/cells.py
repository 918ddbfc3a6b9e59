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
        if pyarrow.types.is_nested(column.type):
            raise OddError(f"'{name}' must hold one id in every row")
        codes, values = _coded(column)
        if pyarrow.types.is_temporal(values.type):  # Python has no dates after the year 9999
            values = values.view(pyarrow.int32() if values.type.bit_width == 32 else "int64")
        codes, place = _in_order(codes)
        labels = values.take(pyarrow.array(place)).to_pylist()
    else:
        if column.ndim != 1:
            raise OddError(f"'{name}' must hold one id in every row")
        try:
            unique, inverse = np.unique(column, return_inverse=True)
        except TypeError as error:  # objects that cannot be compared
            raise OddError(
                f"'{name}' holds ids of several kinds. Make all of them text, or all numbers"
            ) from error
        codes, place = _in_order(inverse)
        labels = unique[place].tolist()
    void = [i for i, label in enumerate(labels) if _is_void(label, missing)]
    absent = (codes < 0) | np.isin(codes, void)
    return Keys(codes, labels, absent if absent.any() else None)


def _in_order(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The codes counted by their first appearance, and which each of them was; -1 stays -1."""
    known = codes >= 0
    unique, first, inverse = np.unique(codes[known], return_index=True, return_inverse=True)
    place = np.argsort(first)
    ordered = np.full(len(codes), -1)
    ordered[known] = np.argsort(place)[inverse]
    return ordered, unique[place]


def times(name: str, column: Any, layout: str | None = None, missing: Sequence[str] = ()) -> Times:
    """The column as times; `layout` is how text is to be read, such as '%d.%m.%Y %H:%M'."""
    if not isinstance(column, np.ndarray):
        column = _clock(name, _decoded(column), layout)
    if isinstance(column, np.ndarray) and column.dtype.kind in "mM" and column.ndim == 1:
        absent = np.isnat(column)
        _check_span(name, column.astype(np.int64), absent)
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
    else:
        _check_span(name, values, absent)
        values = values.astype(np.int64)
    return Times(values, None, absent if absent.any() else None)


def _check_span(name: str, values: np.ndarray, absent: np.ndarray) -> None:
    """Refuse times so far apart that no difference of them can be counted."""
    known = values[~absent]
    ends = (int(known.min()), int(known.max())) if known.size else (0, 0)
    if ends[1] - ends[0] >= 2**63 or ends[1] >= 2**63:
        raise OddError(f"'{name}' reaches from {ends[0]} to {ends[1]}, farther than can be counted")


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
    if _is_text(column.type):
        values = _numbers_in_text(name, *_coded(column), missing, decimal)
        return values.reshape(-1, 1), np.isnan(values).reshape(-1, 1)
    column = _decoded(column)
    kind = column.type
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _lists(name, column)
    if types.is_null(kind):
        return np.full((len(column), 1), np.nan), np.ones((len(column), 1), bool)
    if not (
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


def _is_text(kind: Any) -> bool:
    """Whether a column holds text, by itself or as places in a dictionary."""
    types = import_module("pyarrow").types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _coded(column: Any) -> tuple[np.ndarray, Any]:
    """A column as codes of its values, -1 for none, and the values, each once.

    Text is never spelled out for every row: a dictionary with one long word could fill the memory.
    """
    pyarrow = import_module("pyarrow")
    types, kind = pyarrow.types, column.type
    is_coded = types.is_dictionary(kind)
    kind = kind.value_type if is_coded else kind
    # In the one form that all of Arrow's functions know, which polars' is not.
    if _is_text(kind):
        kind = pyarrow.large_string()
    elif types.is_binary_view(kind):
        kind = pyarrow.large_binary()
    if not is_coded:
        column = column.cast(kind).dictionary_encode()
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    # The dictionaries one after the other, and each of their words once.
    words = pyarrow.chunked_array([chunk.dictionary.cast(kind) for chunk in chunks], kind)
    unique = words.combine_chunks().dictionary_encode()
    places = np.append(_places(unique.indices), -1)
    codes, start = [np.zeros(0, np.int64)], 0
    for chunk in chunks:
        own = _places(chunk.indices)
        codes.append(places[np.where(own < 0, -1, own + start)])
        start += len(chunk.dictionary)
    return np.concatenate(codes), unique.dictionary


def _places(indices: Any) -> np.ndarray:
    """Places in a dictionary, -1 where there is no value."""
    return indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)


def _decoded(column: Any) -> Any:
    """The column itself where it holds places in a dictionary, as pandas' categories do."""
    types = import_module("pyarrow").types
    while types.is_dictionary(column.type) and not _is_text(column.type):
        column = column.cast(column.type.value_type)
    return column


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
    width = (int(known[0]) if known.size else 1) * inner.shape[1]
    if not width:
        raise OddError(
            f"column '{name}' has shape {(len(column), 0)}; a column is a list or a matrix"
        )
    matrix = np.full((len(column), width), np.nan)
    matrix[~absent] = inner.reshape(-1, width)
    return matrix, np.isnan(matrix)


def _numbers_in_text(
    name: str, codes: np.ndarray, words: Any, missing: Sequence[str], decimal: str
) -> np.ndarray:
    """Text as numbers, if all of it is, NaN where there is none; otherwise what stands there instead."""
    pyarrow, compute = import_module("pyarrow"), import_module("pyarrow.compute")
    if missing:
        void = compute.is_in(words, value_set=pyarrow.array(missing, words.type))
        words = compute.if_else(void, pyarrow.scalar(None, words.type), words)
    try:
        values = words.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
        return np.append(values, np.nan)[codes]  # -1 is the last
    except pyarrow.ArrowException:
        pass
    counts = np.bincount(codes[codes >= 0], minlength=len(words))
    wrong = [
        (code, word)
        for code, word in enumerate(words.to_pylist())
        if word is not None and counts[code] and _number(_plain(word, decimal)) is None
    ]
    if not wrong:
        shown = next(word for word in words.to_pylist() if word is not None)
        raise OddError(f"column '{name}' must hold numbers, but holds text such as {shown[:40]}")
    rows = int(sum(counts[code] for code, _ in wrong))
    first, word = wrong[0]
    row = int(np.flatnonzero(codes == first)[0])
    message = f"column '{name}' must hold numbers, but row {row} is {word[:40]!r}"
    if rows > 1:
        few = ", ".join(repr(word[:20]) for _, word in wrong[:4])
        message += f" ({rows:,} rows hold text: {few}{', ...' if len(wrong) > 4 else ''})"
    return _advise(message, word, rows, len(codes), len(wrong))


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
    if _is_text(kind):
        codes, words = _coded(column)
        if layout is None:
            shown = next((word for word in words.to_pylist() if word is not None), "")
            raise OddError(
                f"'{name}' must hold numbers or times to put rows in order, but holds text "
                f"('{shown[:30]}'). Say how to read it: --time-format '%d.%m.%Y %H:%M', say"
            )
        parsed = compute.strptime(words, format=layout, unit="us", error_is_null=True)
        unread = np.flatnonzero(
            np.append(parsed.is_null().to_numpy(zero_copy_only=False), False)[codes]
        )
        if unread.size:
            shown = words[int(codes[unread[0]])].as_py()[:30]
            raise OddError(
                f"'{name}' in row {unread[0]} is '{shown}', which --time-format '{layout}' does "
                f"not read{such(unread.size)}"
            )
        return np.append(parsed.to_numpy(zero_copy_only=False), np.datetime64("NaT"))[codes]
    if types.is_time(kind):
        plain = pyarrow.int32() if kind.bit_width == 32 else pyarrow.int64()
        column = column.cast(plain).cast(pyarrow.int64()).cast(pyarrow.duration(kind.unit))
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
    if isinstance(word, complex | np.complexfloating):
        return None
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
