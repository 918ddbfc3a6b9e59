"""Rules about episodes: whether the flags tell the truth about where they end."""

from collections.abc import Iterator

import numpy as np

from chary.data.doctor.finding import Finding, Table, first
from chary.data.sources.d4rl import is_endless

NEAR = 10
"""Rows between a flag and the reset that it was meant for."""


def no_ends(table: Table) -> Iterator[Finding]:
    """No episode ever ends."""
    if table.terminals.any() or table.timeouts.any():
        if table.next_observations is None and (table.timeouts & ~table.terminals).all():
            message = "timeouts in every row, and no next_observations: no transition is left."
            fix = "Add next_observations, or mark only the last row of each episode."
            yield Finding("error", "no-transitions", message, (), fix)
        return
    jumps = np.flatnonzero(table.jumps)
    seen = f" Observations jump after row {table.listed(jumps)}." if jumps.size else ""
    message = f"terminals and timeouts are False in every row: no episode ever ends.{seen}"
    fix = "Mark where episodes end; if this is one uninterrupted run, set timeouts in the last row."
    yield Finding("error", "no-ends", message, first(jumps), fix)


def time_limits(table: Table) -> Iterator[Finding]:
    """Time limits written as true ends, and time limits that differ."""
    both = np.flatnonzero(table.terminals & table.timeouts)
    if both.size:
        message = (
            f"{both.size:,} row(s) have both flags, first row {table.row(both[0])}. They are read as "
            "true ends: values end there."
        )
        fix = "Where only the time limit was reached, clear terminals."
        yield Finding("warning", "both-flags", message, first(both), fix)
    true_end = table.terminals[table.ends]
    lengths = table.lengths[true_end]
    if not table.timeouts.any() and len(lengths) >= 2:
        longest = lengths.max()
        at_limit = lengths == longest
        if longest >= 20 and at_limit.sum() >= max(2, 0.5 * len(lengths)):
            rows = table.ends[true_end][at_limit]
            message = (
                f"{at_limit.sum():,} of {len(lengths):,} episodes end as terminals after exactly "
                f"{longest:,} rows, and no row has timeouts: a time limit is taken for an end of the "
                "task, and values there are learned as if nothing followed."
            )
            fix = "Write these ends as timeouts, unless the task itself ends at that time."
            yield Finding("warning", "terminals-at-time-limit", message, first(rows), fix)
    # The end of the data cuts its last episode anywhere.
    cut = table.lengths[:-1][~true_end[:-1]]
    if len(cut) >= 3:
        values, counts = np.unique(cut, return_counts=True)
        if counts.max() < 0.9 * len(cut):
            message = (
                f"Episodes cut by time have {len(values):,} different lengths, from {values[0]:,} to "
                f"{values[-1]:,} rows. One time limit would give one length."
            )
            fix = "Nothing to do if time limits varied; otherwise check where timeouts were set."
            yield Finding("note", "uneven-time-limits", message, (), fix)


def resets(table: Table) -> Iterator[Finding]:
    """Resets that the flags miss or misplace, leaps, and next observations that disagree."""
    if table.size < 2 or not (table.terminals.any() or table.timeouts.any()):
        return
    follows = _follows(table)
    if follows is None:
        suspects = np.flatnonzero(table.inside & table.jumps)
        goes_on = ~table.jumps
    else:
        suspects = np.flatnonzero(table.inside & ~follows)
        goes_on = follows
        if len(suspects) > 0.2 * table.inside.sum():
            yield _out_of_order(table, suspects)
            return
    # A flag after which the rows just go on, near a reset that has none, was meant for that one.
    idle = np.flatnonzero(~table.inside & goes_on)
    flags = _nearest(idle, suspects)
    near = np.abs(flags - suspects) <= NEAR
    if near.any():
        yield _misplaced(table, suspects[near], flags[near], sure=follows is not None)
    rest = suspects[~near]
    if follows is None:
        leaps = rest
    else:
        leaps = np.flatnonzero(table.inside & table.jumps & follows)
        restarts = _restarts(table, rest)
        missed, wrong = rest[restarts], rest[~restarts]
        if missed.size:
            yield _missed(table, missed)
        if wrong.size:
            message = (
                f"next_observations is not the next row's observation in {wrong.size:,} row(s) inside "
                f"an episode, first row {table.row(wrong[0])}, though the observations "
                "themselves continue."
            )
            fix = "Write next_observations again from the log, or leave them out."
            yield Finding("error", "next-observations", message, first(wrong), fix)
    if leaps.size:
        message = (
            f"Observations jump inside an episode, after row {table.listed(leaps)}: several "
            "dimensions move more than 8 times as far as 99 of 100 steps do."
        )
        fix = "If an episode ended there, set timeouts in that row; otherwise drop the transition."
        yield Finding("warning", "teleport", message, first(leaps), fix)


def _nearest(places: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The place nearest to each row; without places, one that is far from all."""
    if not places.size:
        return np.full(len(rows), -(NEAR + 1))
    after = np.searchsorted(places, rows).clip(max=len(places) - 1)
    before = (after - 1).clip(min=0)
    nearer = np.abs(places[before] - rows) < np.abs(places[after] - rows)
    return np.where(nearer, places[before], places[after])


def _follows(table: Table) -> np.ndarray | None:
    """Whether row i + 1 is known to go on from row i; None where nothing in the file tells.

    `next_observations` tell. So do D4RL antmaze's `infos/qpos`, which hold the first part of the
    next observation, and `infos/goal`, which changes with the episode.
    """
    here = table.observations[1:]
    after = table.next_observations
    qpos = table.infos.get("infos/qpos")
    if after is None and qpos is not None and qpos.ndim == 2 and qpos.shape[1] <= here.shape[1]:
        after = qpos.astype(np.float32)
    if after is None:
        return None
    follows = np.ones(table.size - 1, bool)
    for column in range(after.shape[1]):
        difference = np.abs(after[:-1, column] - here[:, column])
        follows &= difference <= 1e-4 + 1e-3 * np.abs(here[:, column])
    for key in ("observations", "next_observations"):
        rows = table.broken.get(key, np.array([], int))  # where it cannot be told
        follows[rows[rows < table.size - 1]] = follows[rows[rows > 0] - 1] = True
    by_flags = follows[table.inside]
    if table.next_observations is None and by_flags.sum() < max(1, 0.9 * by_flags.size):
        return None  # elsewhere infos/qpos is the row's own
    goal = table.infos.get("infos/goal")
    if goal is not None and goal.ndim == 2:
        changes = (goal[1:] != goal[:-1]).any(axis=1)
        if changes.sum() <= 2 * len(
            table.ends
        ):  # more often, it is not the episode that changes it
            follows &= ~changes
    return follows


def _restarts(table: Table, rows: np.ndarray) -> np.ndarray:
    """Whether the next row is farther away than the next observation: a reset stands between."""
    if table.next_observations is None:
        return np.ones(len(rows), bool)
    scale = np.maximum(table.observations.std(axis=0), 1e-9)
    here = table.observations[rows]
    step = np.abs((table.next_observations[rows] - here) / scale).sum(axis=1)
    return np.abs((table.observations[rows + 1] - here) / scale).sum(axis=1) > step


def _out_of_order(table: Table, rows: np.ndarray) -> Finding:
    share = len(rows) / table.inside.sum()
    message = (
        f"next_observations is not the next row's observation in {share:.0%} of the rows inside "
        "episodes: transitions were shuffled, or next_observations belong to other rows. Episodes, "
        "their returns and lengths are meaningless."
    )
    fix = "Keep rows in time order. Learning from single steps works anyway."
    return Finding("warning", "next-observations", message, first(rows), fix)


def _misplaced(table: Table, rows: np.ndarray, flags: np.ndarray, *, sure: bool) -> Finding:
    severity = "error" if sure and table.next_observations is None else "warning"
    message = (
        f"An episode really ends in row {table.listed(rows)}, but the flag is in row "
        f"{table.listed(flags)}"
        f"{_evidence(table) if sure else ' (observations jump)'}"
        + ("." if table.next_observations is not None else ": a transition would cross the reset.")
    )
    fix = (
        f"Set timeouts in row {table.listed(rows)} and clear it in row {table.listed(flags)}. "
        "D4RL's antmaze files are corrected when they are loaded by their name."
    )
    return Finding(severity, "misplaced-end", message, first(rows), fix)


def _missed(table: Table, rows: np.ndarray) -> Finding:
    severity = "error" if table.next_observations is None else "warning"
    message = (
        f"{rows.size:,} reset(s) without a flag, first after row {table.row(rows[0])}"
        f"{_evidence(table)}: two episodes are taken for one."
    )
    fix = "Set timeouts (or terminals, where the task itself ended) in these rows."
    return Finding(severity, "missed-reset", message, first(rows), fix)


def _evidence(table: Table) -> str:
    if table.next_observations is not None:
        return " (the next row is not next_observations)"
    return " (by infos/goal and infos/qpos)" if "infos/goal" in table.infos else " (by infos/qpos)"


def several_ends(table: Table) -> Iterator[Finding]:
    """True ends after which the same walk continues, as at the goals of D4RL's antmaze."""
    if table.size < 2 or not table.terminals.any():
        return
    follows = _follows(table)
    if follows is None:
        return
    continuing = np.flatnonzero(table.terminals[:-1] & follows)
    if not continuing.size:
        return
    walks = 1 + int((~follows).sum())
    message = (
        f"terminals are set in {table.terminals.sum():,} row(s) of {walks:,} walk(s), and after "
        f"{continuing.size:,} of them the same walk continues, first after row "
        f"{table.row(continuing[0])}. Each such row counts as an end of the task: values "
        "end there."
    )
    fix = (
        "Nothing to do if a goal is to end the task; otherwise set terminals in the last row only."
    )
    yield Finding("note", "several-terminals", message, first(continuing), fix)


def endless_tasks(table: Table) -> Iterator[Finding]:
    """True ends in a task that never ends."""
    rows = np.flatnonzero(table.terminals)
    if rows.size and is_endless(table.facts.name):
        message = (
            f"terminals are set in row {table.listed(rows)}, but the task of '{table.facts.name}' never "
            "ends: the value there would be learned as if nothing followed."
        )
        fix = "Write them as timeouts. Loading by D4RL's name does it, with a warning."
        yield Finding("warning", "end-of-endless-task", message, first(rows), fix)


def constant_infos(table: Table) -> Iterator[Finding]:
    """Further arrays that never change, and so tell nothing about resets."""
    flat = [
        key for key, array in sorted(table.infos.items()) if (array == array[:1]).all(axis=None)
    ]
    if flat and table.size > 1:
        message = f"{', '.join(flat)}: the same in every row, so resets cannot be seen there."
        fix = "Check how it was logged; learning does not use it."
        yield Finding("note", "constant-infos", message, (), fix)


RULES = (no_ends, time_limits, resets, several_ends, endless_tasks, constant_infos)
