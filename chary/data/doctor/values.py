"""Rules about the numbers in a column: constants, copies, bounds."""

from collections.abc import Iterator

import numpy as np

from chary.data.doctor.finding import Finding, Severity, Table, first
from chary.data.finite import choices_in

AT_BOUNDS = 0.8
"""Share of actions at a bound that is remarked upon: chary's own waypoint controller has 0.6."""
BLOCK = 10_000
"""Rows worked on at once, few enough for the processor's cache."""


def constant_columns(table: Table) -> Iterator[Finding]:
    """Dimensions that never change."""
    remarks: dict[str, tuple[Severity, str]] = {
        "observations": ("note", "It carries no information."),
        "actions": ("warning", "The data does not show what another value would do."),
    }
    for key, (severity, why) in remarks.items():
        array = getattr(table, key)
        flat = np.flatnonzero((array == array[0]).all(axis=0))
        if flat.size and table.size > 1:
            message = f"{key}: {table.named(key, flat)} is the same in every row. {why}"
            fix = "Leave it out, unless the task's own vectors have it too."
            yield Finding(severity, "constant-column", message, (), fix)


def twin_columns(table: Table) -> Iterator[Finding]:
    """Observation dimensions that are equal, or equal but for the sign."""
    array = table.observations
    moving = np.flatnonzero((array != array[0]).any(axis=0))
    seen: dict[bytes, int] = {}
    pairs = []
    for column in moving:
        values = array[:, column]
        leading = values[np.flatnonzero(values)[0]]
        key = (np.abs(values[:1000]) + 0.0).tobytes()
        if key not in seen:
            seen[key] = int(column)
            continue
        other = array[:, seen[key]]
        sign = np.sign(leading) * np.sign(other[np.flatnonzero(other)[0]])
        if np.array_equal(values, sign * other):
            one, other = (table.named("observations", [i]) for i in (column, seen[key]))
            verb = "equals" if sign > 0 else "is minus"
            pairs.append(f"{one} {verb} {other.removeprefix('dimension ')}")
    if pairs and table.size > 1:
        message = (
            f"observations: {'; '.join(pairs[:5])} in every row. A copy adds nothing, and "
            "often another quantity was meant."
        )
        fix = "Check how observations were put together; drop the copy if the task's have none."
        yield Finding("warning", "twin-columns", message, (), fix)


def action_bounds(table: Table) -> Iterator[Finding]:
    """Actions outside their bounds, or nearly always at them."""
    actions, low, high = table.actions, table.action_low, table.action_high
    slack = 1e-5 * (high - low)  # rounding in the logging program, as loading allows
    beyond = (actions < low - slack) | (actions > high + slack)
    rows = np.flatnonzero(beyond.any(axis=1))
    if rows.size:
        dimensions = np.flatnonzero(beyond.any(axis=0))
        message = (
            f"actions leave [{low.min():g}, {high.max():g}] in {rows.size:,} row(s), first in row "
            f"{table.row(rows[0])} ({table.named('actions', dimensions)}; they span "
            f"{actions.min():g} to {actions.max():g}). The policy cannot choose them."
        )
        fix = (
            "Scale actions into their bounds, or store the true ones as action_low and action_high."
        )
        yield Finding("error", "actions-outside", message, first(rows), fix)
        return
    share = ((actions <= low) | (actions >= high)).mean(axis=0)
    chosen = [d for choice in choices_in(actions) for d in choice.dimensions]
    crowded = np.setdiff1d(np.flatnonzero(share > AT_BOUNDS), chosen)  # of which more is said
    if crowded.size:
        message = (
            f"actions: {share[crowded].max():.0%} are exactly at a bound "
            f"({table.named('actions', crowded)}). Either the controller is "
            "bang-bang, or actions were clipped to bounds that are too narrow."
        )
        fix = "Compare with the actions before clipping; store true bounds as action_low, action_high."
        yield Finding("warning", "actions-at-bounds", message, (), fix)


def duplicates(table: Table) -> Iterator[Finding]:
    """Episodes or rows that are there more than once, to the bit."""
    marks = _marks(table)
    within = np.arange(table.size) - np.repeat(table.starts, table.lengths)
    ordered = marks * (2 * within.astype(np.uint64) + 1)
    episodes = np.add.reduceat(ordered, table.starts) + table.lengths.astype(np.uint64)
    _, index = np.unique(episodes, return_index=True)
    copies = np.setdiff1d(np.arange(len(episodes)), index)
    copies = copies[table.lengths[copies] > 1]
    if copies.size:
        rows = table.starts[copies]
        message = (
            f"{copies.size:,} episode(s) are copies of an earlier one, first from row "
            f"{table.row(rows[0])}. They count twice, and spoil validation."
        )
        fix = "Remove the copies; if files were joined, look for one that was joined twice."
        yield Finding("warning", "duplicate-episodes", message, first(rows), fix)
    alone = np.ones(table.size, bool)
    for episode in copies:
        alone[table.starts[episode] : table.ends[episode] + 1] = False
    rows = np.flatnonzero(alone)
    _, index = np.unique(marks[rows], return_index=True)
    rows = np.delete(rows, index)
    if rows.size:
        share = rows.size / table.size
        severity: Severity = "warning" if share > 0.01 else "note"
        message = (
            f"{rows.size:,} row(s) ({share:.2%}) repeat an earlier one in every number, first row "
            f"{table.row(rows[0])}. A logger that writes a step twice, or a state that "
            "does not change, causes this."
        )
        fix = "Remove the repeats, unless the task has so few values that rows repeat by chance."
        yield Finding(severity, "duplicate-rows", message, first(rows), fix)


def _marks(table: Table) -> np.ndarray:
    """One 64-bit number for each row: equal rows have equal numbers, others hardly ever."""
    parts = [table.observations, table.actions, table.rewards[:, None]]
    weights = [
        np.random.default_rng(seed).integers(2**63, size=part.shape[1], dtype=np.uint64) * 2 + 1
        for seed, part in enumerate(parts)
    ]
    marks = np.zeros(table.size, np.uint64)
    for start in range(0, table.size, BLOCK):
        rows = slice(start, start + BLOCK)
        for part, weight in zip(parts, weights, strict=True):
            mixed = part[rows].view(np.uint32) * weight
            mixed ^= mixed >> np.uint64(29)
            marks[rows] += (mixed * weight).sum(axis=1, dtype=np.uint64)
    return marks


RULES = (constant_columns, twin_columns, action_bounds, duplicates)
