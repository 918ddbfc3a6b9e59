"""The user's own tables: npz, HDF5, Parquet and CSV files whose columns the user names.

`read_one` is what holds for any table, frames in memory too: which columns are taken, their numbers and
their order.

Rows count from 0 in every message, a CSV file's heading not counted.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chary.data.formats import arrow, cells, dialect, hdf5, npz, timeline
from chary.data.formats.cells import OddError, such
from chary.data.formats.dialect import Dialect
from chary.data.formats.guard import fits, regular
from chary.data.formats.layout import (
    AS_IT_IS,
    SINGLES,
    VECTORS,
    Layout,
    Reading,
    check,
    choose,
    listed,
)
from chary.data.formats.timeline import Counts, Order
from chary.errors import CharyError, one_line, reason

Columns = dict[str, np.ndarray]
Tell = Callable[[str], None]
ARRAYS = {".npz": npz, ".hdf5": hdf5, ".h5": hdf5}
"""Files of arrays that are tables too."""
SHOWN = 12
"""Problems that an error lists."""


class Imported(NamedTuple):
    """What was read."""

    columns: Columns
    """In D4RL's names, with `source_rows` and, where --time is given, `times`."""
    names: dict[str, list[str]]
    """The files' own names of what each option takes; a matrix has its name and a number."""
    counts: list[Counts]
    """Of each file."""


class Source(NamedTuple):
    """A table whose columns are read when they are asked for."""

    names: list[str]
    read: Callable[[Sequence[str]], dict[str, Any]]
    """These columns, not converted yet: arrays of NumPy or of pyarrow."""
    decimal: str = "."


def read_tables(
    paths: Sequence[Path],
    layout: Layout,
    reading: Reading = AS_IT_IS,
    *,
    tell: Tell = lambda _: None,
) -> Imported:
    """The files' rows in D4RL's columns; `tell` hears what was taken, cut, filled and left out.

    Files follow each other, and no episode goes on from one to the next. `source_rows` counts through
    all files.
    """
    check(layout, reading)
    problems: list[str] = []

    def say(line: str) -> None:
        tell(one_line(line))

    parts = []
    for path in paths:
        with fits(path):
            opened = partial(_opened, path, reading, say)
            parts.append(read_one(path, opened, layout, reading, problems, say))
    if problems:
        files = f"{len(paths)} files" if len(paths) > 1 else str(paths[0])
        raise refusal(files, problems, "; nothing is written")
    sound = [part for part in parts if part is not None]
    for path, part in zip(paths, sound, strict=True):
        for key, rows in part.columns.items():
            if rows.shape[1:] != sound[0].columns[key].shape[1:]:
                raise CharyError(
                    f"{path}: has {rows.shape[1]} columns of {key}, but {paths[0]} has "
                    f"{sound[0].columns[key].shape[1]}."
                )
    offset = 0
    for part in sound:
        part.columns["source_rows"] += offset
        offset += part.counts[0].rows
        if offset < 2**31:
            part.columns["source_rows"] = part.columns["source_rows"].astype(np.int32)
    columns = {
        key: np.concatenate([part.columns.pop(key) for part in sound])
        if len(sound) > 1
        else sound[0].columns[key]
        for key in list(sound[0].columns)
    }
    return Imported(columns, sound[0].names, [part.counts[0] for part in sound])


def refusal(table: str, problems: list[str], so: str = "") -> CharyError:
    """One error for all that is wrong with a table, each on a line."""
    problems = [one_line(problem) for problem in problems]
    if len(problems) == 1:
        return CharyError(problems[0])
    more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
    shown = [line.removeprefix(f"{table}: ") for line in problems[:SHOWN]]
    lines = "\n".join(f"  - {line}" for line in [*shown, *more])
    return CharyError(f"{table}: {len(problems)} problems{so}.\n{lines}")


def read_one(
    table: object,
    opened: Callable[[], Source],
    layout: Layout,
    reading: Reading,
    problems: list[str],
    tell: Tell = lambda _: None,
) -> Imported | None:
    """One table's rows, episodes in order and their ends marked; None where there are problems.

    `table` is what messages call it.
    """
    before = len(problems)

    def odd(error: object) -> None:
        problems.append(f"{table}: {error}.")

    try:
        source = opened()
        twice = [name for name, count in Counter(source.names).items() if count > 1]
        if twice:
            raise CharyError(f"{table}: two columns are called '{twice[0]}'. Rename one of them.")
        chosen = choose(table, source.names, layout, problems)
        asked = list(dict.fromkeys(name for names in chosen.values() for name in names))
        raw = source.read(asked) if asked else {}
    except CharyError as error:
        problems.append(str(error))
        return None
    for option, names in chosen.items():
        if not names:  # its problem is reported with the others
            continue
        tell(f"{table}: {option} takes {', '.join(names)}")
    lengths = {name: len(column) for name, column in raw.items()}
    if len(set(lengths.values())) > 1:
        counts = listed([f"{name} {length}" for name, length in lengths.items()])
        odd(f"columns of unequal length ({counts}); every row needs all")
        return None  # nothing is converted: one of them may be as large as the memory
    if raw and not max(lengths.values()):
        odd("holds no rows")
    found: dict[str, Any] = {}
    for option, names in chosen.items():
        for name in names:
            if name in found:  # taken twice
                continue
            try:
                found[name] = _convert(option, name, raw.pop(name), reading, source.decimal)
            except OddError as error:
                odd(error)
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                # Arrow's own exceptions among them, over kinds of values that nobody thought of.
                odd(f"column '{name}' cannot be read for {option} ({reason(error)})")
    if len(problems) > before:
        return None
    try:
        part = _assemble(layout, reading, chosen, found)
    except OddError as error:
        problems.extend(f"{table}: {line}." for line in str(error).split("\n"))
        return None
    for line in part.counts[0].lines:
        tell(f"{table}: {line}")
    return part


def _convert(option: str, name: str, column: Any, reading: Reading, decimal: str) -> Any:
    """One column, as its option needs it."""
    if option == "--episode":
        read: Any = cells.keys(name, column, reading.missing)
    elif option == "--time":
        read = cells.times(name, column, reading.time_format, reading.missing)
    else:
        read = cells.numbers(name, column, reading.missing, decimal)
        if option in SINGLES.values() and read.values.shape[1] != 1:
            raise OddError(f"'{name}' is {read.values.shape}, but {option} is one column")
        flags = read.values[:, 0] if option in ("--terminal", "--timeout") else np.zeros(0)
        wrong = np.flatnonzero((flags != 0) & (flags != 1))
        if wrong.size:
            raise OddError(
                f"'{name}' must be true or false, but row {wrong[0]} is {flags[wrong[0]]:g}"
                f"{such(wrong.size)}"
            )
    fillable = option in ("--observations", "--next-observations")
    if read.missing is not None and not (reading.drop_missing or (reading.fill and fillable)):
        rows = np.flatnonzero(read.missing)
        raise OddError(
            f"column '{name}': no value in row {rows[0]} ({rows.size:,} missing in all). Leave such "
            f"rows out with --drop-missing{', or fill them in with --fill previous' if fillable else ''}"
        )
    return read


def _assemble(
    layout: Layout, reading: Reading, chosen: dict[str, list[str]], found: dict[str, Any]
) -> Imported:
    """The rows in order, with their ends."""
    size = len(found[chosen["--reward"][0]].values)
    counts = Counts(rows=size)
    flags = np.zeros(size, bool)
    for option in ("--terminal", "--timeout"):
        for name in chosen.get(option, ()):
            flags |= found[name].values[:, 0] == 1
    keys = found[layout.episode] if layout.episode else None
    if reading.one_episode:
        keys = cells.Keys(np.zeros(size, np.int8), (), None)
    times = found[layout.time] if layout.time else None
    own = {option: names[0] for option, names in chosen.items()}
    order = timeline.arrange(keys, times, flags, reading.max_gap, counts, own)
    if reading.fill:
        for name in [*chosen["--observations"], *chosen.get("--next-observations", ())]:
            when = times.values if times else None
            found[name] = timeline.fill_in(name, found[name], order, reading.fill, when, counts)
    order = _drop(order, reading, chosen, found, counts)
    rows: Columns = {}
    names: dict[str, list[str]] = {}
    for key, option in (VECTORS | SINGLES).items():
        if option in chosen:
            blocks = [found.pop(name).values for name in chosen[option]]
            names[key] = _numbered(chosen[option], blocks)
            joined = blocks[0] if len(blocks) == 1 else np.hstack(blocks)
            blocks.clear()
            rows[key] = _taken(joined, order.rows)
            if option in SINGLES.values():
                rows[key] = rows[key][:, 0]
    for key in ("terminals", "timeouts"):
        rows[key] = rows.get(key, np.zeros(len(order.rows))) == 1
    if keys is not None:
        early = np.flatnonzero(rows["terminals"] & ~order.last)
        if early.size:
            row = int(order.rows[early[0]])
            raise OddError(
                f"by '{layout.terminal}' the task ended in row {row}, but {keys.label(row)} continues "
                f"after it{such(early.size)}"
            )
    rows["timeouts"] = (rows["timeouts"] | order.last | order.cut) & ~rows["terminals"]
    rows["source_rows"] = order.rows.copy()
    if times is not None:
        rows["times"] = times.values[order.rows] * (times.seconds or 1.0)
    return Imported(rows, names, [counts])


def _drop(
    order: Order,
    reading: Reading,
    chosen: dict[str, list[str]],
    found: dict[str, Any],
    counts: Counts,
) -> Order:
    """The order without the rows that lack a value, or a problem where they are not to be dropped."""
    lacking: dict[str, np.ndarray] = {
        name: found[name].missing
        for names in chosen.values()
        for name in names
        if found[name].missing is not None
    }
    if not lacking:
        return order
    if not reading.drop_missing:  # what --fill could not fill
        at = "at the start of an episode or after a gap, where --fill has no value to take"
        raise OddError(
            "\n".join(
                f"column '{name}': no value in row {np.flatnonzero(missing)[0]} "
                f"({missing.sum():,} left), {at}. Leave such rows out with --drop-missing"
                for name, missing in lacking.items()
            )
        )
    absent = np.any(list(lacking.values()), axis=0)
    counts.dropped = int(absent.sum())
    if counts.dropped == counts.rows:
        raise OddError("every row lacks a value; nothing is left")
    for name in chosen.get("--terminal", ()):
        counts.dropped_ends = int((absent & (found[name].values[:, 0] == 1)).sum())
    per_column = ", ".join(f"{name} {missing.sum():,}" for name, missing in lacking.items())
    left = timeline.leave_out(order, absent)
    cuts = int(left.cut.sum() - order.cut[~absent[order.rows]].sum())
    ends = f"; {counts.dropped_ends:,} of them were true ends" if counts.dropped_ends else ""
    counts.lines.append(
        f"{counts.dropped:,} of {counts.rows:,} rows lack a value and are left out ({per_column})"
        f"{ends}; episodes are cut there ({cuts:,} cut(s)), and no transition spans them"
    )
    return left


def _taken(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """These rows, without a copy where they are all in order."""
    if len(rows) == len(array) and (rows[1:] > rows[:-1]).all():
        return array
    return array[rows]


def _numbered(names: Sequence[str], blocks: Sequence[np.ndarray]) -> list[str]:
    """A name for each number: the column's, with its place where the column is a matrix."""
    return [
        name if block.shape[1] == 1 else f"{name}[{i}]"
        for name, block in zip(names, blocks, strict=True)
        for i in range(block.shape[1])
    ]


def _opened(path: Path, reading: Reading, tell: Tell) -> Source:
    """A file's columns."""
    written = _dialect(path, reading.dialect, tell)
    if path.suffix.lower() in arrow.ENDINGS:
        return Source(
            arrow.names(path, written),
            lambda asked: arrow.read(path, asked, written, reading.missing),
            written.decimal or ".",
        )
    reader = ARRAYS.get(path.suffix.lower())
    if reader is None:
        raise CharyError(
            f"{path}: cannot tell the format from '{path.suffix}'; tables end in "
            f"{', '.join((*arrow.ENDINGS, *ARRAYS))}."
        )

    def read(asked: Sequence[str]) -> dict[str, Any]:
        return {name: np.atleast_1d(array) for name, array in reader.read(path, asked)[0].items()}

    return Source(reader.names(path), read)


def _dialect(path: Path, given: Dialect, tell: Tell) -> Dialect:
    """How a CSV file is written; said where it is not the plain way."""
    regular(path)
    if path.suffix.lower() != ".csv":
        if given != dialect.UNKNOWN:
            raise CharyError(
                f"{path}: --separator, --decimal and --encoding are for CSV files only."
            )
        return given
    written = dialect.find(path, given)
    if written != dialect.PLAIN:
        tell(f"{path}: read with {written.words()}")
    return written
