"""Rules about logs from the real world: sentinels, units, clocks, late actions, and too little of it."""

from collections.abc import Iterator

import numpy as np

from chary.data.doctor.finding import Finding, Severity, Table, first
from chary.data.finite import CAN, choices_in, is_finite_set
from chary.data.scaling import uneven_scales

NINES = tuple(
    sign * number
    for number in (99.0, 999.0, 9999.0, 99999.0, 999999.0, 99.9, 999.9, 9999.9, 99.99, 999.99)
    for sign in (1.0, -1.0)
)
LIMITS = (32767.0, -32768.0, 65535.0, 2147483647.0, -2147483648.0)
SENTINELS = np.array([*NINES, *LIMITS], np.float32)
"""Numbers that loggers write where they have none."""
APART = 3.0
"""Widths of everything else that a sentinel stands away from it."""
FEW_ROWS = 1_000
FEW_EPISODES = 5
LATE_ROWS = 20_000
"""Rows that the fits behind `actions-late` look at."""


def sentinels(table: Table) -> Iterator[Finding]:
    """Numbers that stand for no number, far from all others."""
    parts = {
        "observations": table.observations,
        "actions": table.actions,
        "rewards": table.rewards[:, None],
    }
    for key, array in parts.items():
        for dimension in range(array.shape[1]):
            column = array[:, dimension]
            found = [v for v in (column.min(), column.max()) if np.isin(v, SENTINELS)]
            for value in dict.fromkeys(found):
                rows = np.flatnonzero(column == value)
                others = column[column != value]
                others = others[~np.isin(others, SENTINELS)]
                if len(others) < 2:
                    continue
                low, high = others.min(), others.max()
                width = max(float(high - low), 1e-6)
                if min(abs(value - low), abs(value - high)) < APART * width:
                    continue
                what = "rewards" if key == "rewards" else f"{key}: {table.named(key, [dimension])}"
                message = (
                    f"{what} is {value:g} in {rows.size:,} row(s), first row {table.row(rows[0])}; all "
                    f"else lies between {low:g} and {high:g}. It looks like a code for a missing "
                    "value, and would be learned from as a number."
                )
                fix = f"Import with --missing {value:g} and --drop-missing, or drop these rows."
                yield Finding("warning", "sentinel", message, first(rows), fix)


def scales(table: Table) -> Iterator[Finding]:
    """Observations in units of very different size, which nothing evens out."""
    facts = table.facts
    if not facts.own or facts.normalised:
        return
    uneven = uneven_scales(table.observations)
    if uneven is None:
        return
    severity: Severity = "note" if facts.normalised is None else "warning"
    large, small = (
        table.named("observations", [column]) for column in (uneven.largest, uneven.smallest)
    )
    message = (
        f"observations: {large} is about {uneven.factor:,.0f} times as large as {small}. Unless "
        "observations are normalised, networks hardly see the smaller ones, and the ensemble's "
        "uncertainty does not grow off the data."
    )
    fix = "Leave --normalise-observations at auto, or set it to quantiles."
    yield Finding(severity, "scales", message, (), fix)


def time_gaps(table: Table) -> Iterator[Finding]:
    """Steps that take much longer than the usual one, or go back in time."""
    if table.times is None or table.size < 3:
        return
    times = np.asarray(table.times)
    inside = np.flatnonzero(table.inside)
    steps = times[inside + 1] - times[inside]
    if not steps.size:
        return
    usual = float(np.median(steps))
    long = inside[steps > 1.5 * usual]
    if usual > 0 and long.size:
        widest = float(steps.max())
        message = (
            f"{long.size:,} transition(s) inside episodes take longer than the usual {usual:g} (in the "
            f"unit of times), the longest {widest:g}, first after row {table.row(long[0])}: rows are "
            "missing there, and several steps are learned as one."
        )
        fix = "Import again with a smaller --max-gap, or set timeouts in these rows."
        yield Finding("warning", "time-gap", message, first(long), fix)
    back = inside[steps <= 0]
    if back.size:
        message = (
            f"Time stops or goes backwards in {back.size:,} row(s) inside episodes, first after row "
            f"{table.row(back[0])}."
        )
        fix = "Put the rows in order of time; `chary data import --time` does it."
        yield Finding("warning", "time-backwards", message, first(back), fix)


def late_actions(table: Table) -> Iterator[Finding]:
    """Actions that stand one row after the one in which they were taken.

    The change of the observation from row t to t + 1 is fitted linearly from the observation, then
    with the action of row t, then with that of row t + 1 in its place. Where only the latter helps,
    it was taken in row t: unless the policy chose it in answer to the observation of row t + 1, which
    then predicts it alone as well as together with that of row t. On D4RL's slices the right action
    gains 4 to 18 times as much on average as the one of the next row.
    """
    if table.size < 8:
        return
    episode = np.repeat(np.arange(len(table.lengths)), table.lengths)
    rows = np.arange(table.size - 1)
    rows = rows[episode[rows] == episode[rows + 1]]
    if len(rows) > LATE_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(rows, LATE_ROWS, replace=False))
    if len(rows) < 8 * (2 * table.observations.shape[1] + table.actions.shape[1]):
        return
    here, after = (_standard(table.observations[rows + k]) for k in (0, 1))
    own, next_ = (_standard(table.actions[rows + k]) for k in (0, 1))
    change = _standard(table.observations[rows + 1].astype(np.float64) - table.observations[rows])
    alone = _left(change, here)
    gain_own = 1.0 - _left(change, here, own) / alone
    gain_next = 1.0 - _left(change, here, next_) / alone
    best = int(np.argmax(gain_next))
    if gain_next[best] < 0.1 or gain_own.max() > 0.6 * gain_next[best]:
        return
    if gain_own.mean() > 0.25 * gain_next.mean():
        return
    if (_left(next_, after, here) / _left(next_, after)).min() > 0.85:
        return
    message = (
        f"The action of row t explains {max(gain_own[best], 0):.0%} of how "
        f"observations ({table.named('observations', [best])}) change from row t to t + 1, the "
        f"action of row t + 1 {gain_next[best]:.0%}: actions seem to be one row late."
    )
    fix = "In each episode move actions one row up: an action belongs to the row in which it was chosen."
    yield Finding("warning", "actions-late", message, (), fix)


def _standard(values: np.ndarray) -> np.ndarray:
    values = values.astype(np.float64)
    deviation = values.std(axis=0)
    return (values - values.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def _left(targets: np.ndarray, *inputs: np.ndarray) -> np.ndarray:
    """Share of each target's variance that a linear fit to every other row leaves in the rest."""
    matrix = np.concatenate([*inputs, np.ones((len(targets), 1))], axis=1)
    fit, rest = slice(0, None, 2), slice(1, None, 2)
    ridge = 1e-6 * len(matrix) * np.eye(matrix.shape[1])
    weights = np.linalg.solve(matrix[fit].T @ matrix[fit] + ridge, matrix[fit].T @ targets[fit])
    left = ((targets[rest] - matrix[rest] @ weights) ** 2).mean(axis=0)
    variance = targets[rest].var(axis=0)
    return np.divide(left, variance, out=np.ones_like(left), where=variance > 0).clip(1e-9)


def finite_actions(table: Table) -> Iterator[Finding]:
    """Actions that are a choice among a few."""
    choices = choices_in(table.actions)
    if not choices:
        return
    names = table.facts.action_names
    what = "; ".join(choice.describe(names) for choice in choices[:3])
    if is_finite_set(table.actions, choices):
        message = f"The actions are a finite set: {what}. {CAN}."
        fix = (
            "If the values are quantities, train with --allow-finite-actions; for categories use a "
            "method for discrete actions."
        )
        yield Finding("error", "finite-actions", message, (), fix)
    else:
        message = f"actions: {what}. The policy chooses any number between the bounds there."
        fix = "Nothing to do if the values are quantities; round the policy's actions where you use it."
        yield Finding("warning", "finite-actions", message, (), fix)


def too_little(table: Table) -> Iterator[Finding]:
    """Fewer rows or episodes than anything can be learned from, or validated on."""
    if not table.facts.own:
        return
    numbers = table.observations.shape[1] + table.actions.shape[1]
    enough = max(FEW_ROWS, 50 * numbers)
    if table.size < enough:
        message = (
            f"There are {table.size:,} rows for {numbers} columns of observations and actions. An "
            f"ensemble learns little from fewer than {enough:,}: it fits the noise."
        )
        fix = "Log for longer, or leave out columns."
        yield Finding("warning", "too-little-data", message, (), fix)
    if len(table.ends) < FEW_EPISODES:
        message = (
            f"There are only {len(table.ends)} episode(s): few starts, and few episodes to hold out for "
            "validation."
        )
        fix = "Cut a long log where the task begins again (every day, say) with --episode."
        yield Finding("note", "few-episodes", message, (), fix)


RULES = (sentinels, scales, time_gaps, late_actions, finite_actions, too_little)
