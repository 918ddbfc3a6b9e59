"""Which rows of a table follow each other: order, usual interval, gaps, missing values.

Two rows are joined into a transition only if nothing is known to be missing between them.
"""

import re
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from chary.data.formats.cells import Cells, Keys, OddError, Times, such

Fill: TypeAlias = Literal["previous", "linear"]
USUAL = 1.5
"""Times the usual interval above which a row must be missing: one lost row makes it 2."""
UNITS = {"s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Order(NamedTuple):
    """Rows of a file in the order of episodes and time."""

    rows: np.ndarray
    """Numbers of the file's rows."""
    last: np.ndarray
    """Whether each is the last of its episode."""
    cut: np.ndarray
    """Whether what follows each in its episode is not its next step."""


@dataclass
class Counts:
    """What the import did to a file, for people and for `--json`."""

    rows: int = 0
    interval: float | None = None
    max_gap: float | None = None
    gaps: int = 0
    dropped: int = 0
    dropped_ends: int = 0
    filled: int = 0
    lines: list[str] = field(default_factory=list)
    """The same in sentences."""


def arrange(
    keys: Keys | None,
    times: Times | None,
    flags: np.ndarray,
    max_gap: str | None,
    counts: Counts,
    names: dict[str, str],
) -> Order:
    """The rows with a known episode and time, in order, and where they do not follow each other.

    Without ids the file's own order holds and `flags` are the rows that end an episode. `names` are
    the user's, by option.
    """
    size = len(flags)
    known = np.ones(size, bool)
    for column in (keys, times):
        if column is not None and column.missing is not None:
            known &= ~column.missing
    if not known.any():
        raise OddError("no row has both an episode and a time")
    rows = np.flatnonzero(known)
    if keys is not None:
        codes = keys.codes[rows]
        if times is None:
            _check_together(keys, rows)
        else:
            order = np.lexsort((times.values[rows], codes))
            if (order[1:] < order[:-1]).any():
                rows, codes = rows[order], codes[order]
    else:
        ends = flags[rows]
        codes = np.concatenate([[0], np.cumsum(ends)[:-1]])
    last = np.append(codes[1:] != codes[:-1], True)
    cut = np.zeros(len(rows), bool)
    if times is not None:
        cut = _gaps(times, rows, last, max_gap, counts, names, keys)
    if len(rows) < size:
        # Where a row without a time belongs is not known: the one before it has no successor.
        lost = np.flatnonzero(~known)
        cut |= np.isin(rows, lost - 1) & ~last
    return Order(rows, last, cut)


def _check_together(keys: Keys, rows: np.ndarray) -> None:
    """Without times, the rows of an episode stand together."""
    codes = keys.codes[rows]
    # Codes are in order of first appearance, so that a smaller one has been there before.
    back = np.flatnonzero(codes[1:] < np.maximum.accumulate(codes)[:-1])
    if back.size:
        row = int(rows[back[0] + 1])
        raise OddError(
            f"{keys.label(row)} comes back in row {row}, after another. An id is "
            "one episode, its rows together; where several were logged at once, give --time"
        )


def _gaps(
    times: Times,
    rows: np.ndarray,
    last: np.ndarray,
    max_gap: str | None,
    counts: Counts,
    names: dict[str, str],
    keys: Keys | None,
) -> np.ndarray:
    """Rows after which more time passes than between two rows that follow each other."""
    values = times.values[rows]
    inside = np.flatnonzero(~last)
    steps = np.subtract(values[inside + 1], values[inside], dtype=np.result_type(values, np.int64))
    if not inside.size:
        return np.zeros(len(rows), bool)
    if (steps == 0).any():
        place = inside[np.flatnonzero(steps == 0)[0]] + 1
        label = keys.label(int(rows[place])) if keys else "an episode"
        value = f"time {values[place]}" if times.seconds is None else "one time"
        raise OddError(
            f"{label} has two rows at {value}, one of them row {rows[place]}"
            f"{such((steps == 0).sum())}: their order is not known, or the id is of two episodes"
        )
    if (steps < 0).any():
        place = inside[np.flatnonzero(steps < 0)[0]] + 1
        raise OddError(
            f"'{names['--time']}' goes back in row {rows[place]}, inside an episode. Name the column "
            "of episode ids with --episode, or say --one-episode, and rows are put in order"
        )
    usual = float(np.median(steps))
    limit = _limit(max_gap, usual, times, names)
    cut = steps > limit
    if max_gap is None and cut.sum() > max(10, 0.1 * len(steps)):
        half, tenth = (span(value, times.seconds) for value in (usual, np.quantile(steps, 0.9)))
        raise OddError(
            f"'{names['--time']}' has no usual interval: half of the steps take {half} or less, a tenth "
            f"of them {tenth} or more. Say with --max-gap how far apart "
            "two rows may be and still follow each other (`inf` for any distance)"
        )
    counts.interval, counts.max_gap = usual * (times.seconds or 1.0), limit * (times.seconds or 1.0)
    counts.gaps = int(cut.sum())
    line = f"a row every {span(usual, times.seconds)}"
    if counts.gaps:
        widest = int(np.argmax(np.where(cut, steps, 0)))
        line += (
            f"; episodes are cut at {counts.gaps:,} gap(s) longer than {span(limit, times.seconds)} "
            f"(--max-gap), the longest of {span(float(steps[widest]), times.seconds)} after row "
            f"{rows[inside[widest]]}"
        )
    else:
        line += f", and no gap is longer than {span(limit, times.seconds)} (--max-gap)"
    counts.lines.append(line)
    found = np.zeros(len(rows), bool)
    found[inside[cut]] = True
    return found


def _limit(text: str | None, usual: float, times: Times, names: dict[str, str]) -> float:
    """How long a step may take, in the column's own unit."""
    if text is None:
        return USUAL * usual
    match = re.fullmatch(r"\s*([0-9.]+(?:e[-+]?\d+)?|inf)\s*([a-z]*)\s*", text.lower())
    try:
        number = float(match[1]) if match else -1.0
    except ValueError:
        number = -1.0
    unit = match[2] if match else ""
    if number <= 0 or (unit and unit not in UNITS):
        raise OddError(
            f"--max-gap is '{text}', but must be a number above 0, such as 900, 15min, 2h or inf"
        )
    if times.seconds is None:
        if unit:
            raise OddError(
                f"--max-gap is '{text}', but '{names['--time']}' holds plain numbers: give one in "
                "their unit"
            )
        return number
    return number * UNITS.get(unit, 1.0) / times.seconds


def span(value: float, seconds: float | None) -> str:
    """A length of time in words; of plain numbers, the number."""
    if seconds is None:
        return f"{value:g}"
    total = value * seconds
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if total >= (2.0 if unit == "days" else 1.0) * length:
            return f"{total / length:.4g} {unit}"
    return f"{total:.4g} s"


def fill_in(
    name: str, cells: Cells, order: Order, how: Fill, when: np.ndarray | None, counts: Counts
) -> Cells:
    """A column with missing values filled in from its own episode, never across a gap.

    `previous` takes the last known value, `linear` a line between the last and the next.
    """
    if cells.missing is None:
        return cells
    absent = cells.missing[order.rows]
    place = np.arange(len(absent))
    piece = np.concatenate([[0], np.cumsum(order.last | order.cut)[:-1]])
    before = np.maximum.accumulate(np.where(absent, -1, place))
    ok = absent & (before >= 0) & (piece[before] == piece)
    values = cells.values.copy()
    if how == "linear":
        after = np.minimum.accumulate(np.where(absent, len(absent), place)[::-1])[::-1]
        ok &= (after < len(absent)) & (piece[np.minimum(after, len(absent) - 1)] == piece)
        at = place if when is None else when[order.rows]
        left, right, here = before[ok], after[ok], place[ok]
        share = ((at[here] - at[left]) / (at[right] - at[left]))[:, None]
        first, second = (cells.values[order.rows[side]] for side in (left, right))
        values[order.rows[here]] = first + share.astype(np.float32) * (second - first)
    else:
        values[order.rows[ok]] = cells.values[order.rows[before[ok]]]
    missing = cells.missing.copy()
    missing[order.rows[ok]] = False
    if ok.any():
        longest = int((place - before)[ok].max())
        words = "a line between its neighbours" if how == "linear" else "the value before"
        counts.filled += int(ok.sum())
        counts.lines.append(
            f"'{name}': {ok.sum():,} missing value(s) filled with {words}, up to {longest:,} row(s) in "
            "succession"
        )
    return Cells(values, missing if missing.any() else None)


def leave_out(order: Order, absent: np.ndarray) -> Order:
    """The order without some rows of the file; what stood before one of them has no successor."""
    gone = absent[order.rows]
    cut, last = order.cut.copy(), order.last.copy()
    cut[:-1] |= gone[1:] & ~last[:-1]
    return Order(order.rows[~gone], last[~gone], cut[~gone])
