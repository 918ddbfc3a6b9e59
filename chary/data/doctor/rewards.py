"""Rules about rewards: whether they say anything, stand in their row, and have a good scale."""

from collections.abc import Iterator

import numpy as np

from chary.data.doctor.finding import Finding, Table, first

SHIFT_ROWS = 20_000
"""Rows that the fit behind `rewards-shifted` looks at."""


def constant_rewards(table: Table) -> Iterator[Finding]:
    """Rewards that never change: nothing to learn, unless it matters when the task ends."""
    value = table.rewards[0]
    if table.size == 1 or (table.rewards != value).any() or (value and table.terminals.any()):
        return
    message = f"Every reward is {value:g}: no behaviour is better than another."
    fix = "Check that rewards were logged, and that this part of the data reaches any."
    yield Finding("warning", "rewards-constant", message, (), fix)


def shifted_rewards(table: Table) -> Iterator[Finding]:
    """Rewards that stand one row too late or too early."""
    finding = _unknown_at_starts(table) or _displaced_at_ends(table) or _fits_a_neighbour(table)
    if finding:
        yield finding


def _unknown_at_starts(table: Table) -> Finding | None:
    """RL Unplugged's way: the first reward of each episode is NaN, the others one row late."""
    broken = table.broken.get("rewards", np.array([], int))
    if not broken.size or not np.isin(broken, table.starts).all():
        return None
    if len(broken) < 0.5 * len(table.starts):
        return None
    message = (
        f"The reward is NaN in the first row of {broken.size:,} episode(s) and nowhere else: the "
        "reward of a step is one row after it, as in RL Unplugged."
    )
    return Finding("error", "rewards-shifted", message, first(broken), _MOVE_UP)


def _displaced_at_ends(table: Table) -> Finding | None:
    """Sparse rewards that miss the row where the task ends and stand right beside it."""
    values, counts = np.unique(table.rewards, return_counts=True)
    if counts.max() < 0.9 * table.size or len(values) == 1:
        return None
    special = table.rewards != values[counts.argmax()]
    ends = np.flatnonzero(table.terminals)
    ends = ends[(ends > 0) & (ends < table.size - 1)]
    if len(ends) < 2 or special[ends].mean() > 0.1:
        return None
    late, early = special[ends + 1], special[ends - 1]
    if late.sum() >= 2 and late.mean() >= 0.5:
        message = (
            f"In {late.sum():,} of {len(ends):,} episodes that the task ended, the last row has no "
            "reward, but the first row of the next episode has: rewards are one row late."
        )
        return Finding("error", "rewards-shifted", message, first(ends[late] + 1), _MOVE_UP)
    if early.sum() >= 2 and early.mean() >= 0.9:
        message = (
            f"In {early.sum():,} of {len(ends):,} episodes that the task ended, the reward is "
            "in the row before the last: rewards may be one row early, or terminals one row late."
        )
        return Finding("warning", "rewards-shifted", message, first(ends[early] - 1), _MOVE_DOWN)
    return None


def _fits_a_neighbour(table: Table) -> Finding | None:
    """Dense rewards that the step before or after explains much better than their own.

    Observation, action and next observation, with their squares, predict the reward linearly. On
    D4RL's locomotion data a shift by one row leaves 10 to 150 times more unexplained.
    """
    episode = np.repeat(np.arange(len(table.lengths)), table.lengths)
    rows = np.arange(2, table.size - 2)
    rows = rows[episode[rows - 2] == episode[rows + 2]]
    if len(rows) > SHIFT_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(rows, SHIFT_ROWS, replace=False))
    parts = (table.observations[rows], table.actions[rows], table.observations[rows + 1])
    inputs = np.concatenate(parts, axis=1).astype(np.float64)
    if len(rows) < 8 * inputs.shape[1]:
        return None
    inputs = (inputs - inputs.mean(axis=0)) / np.maximum(inputs.std(axis=0), 1e-9)
    inputs = np.concatenate([inputs, inputs**2, np.ones((len(rows), 1))], axis=1)
    offsets = (-1, 0, 1)
    rewards = np.stack([table.rewards[rows + offset] for offset in offsets], axis=1)
    unexplained = dict(zip(offsets, _unexplained(inputs, rewards), strict=True))
    best = min(unexplained, key=lambda offset: unexplained[offset])
    if best == 0 or unexplained[best] > 0.2 or 4.0 * unexplained[best] > unexplained[0]:
        return None
    where = "after" if best == 1 else "before"
    message = (
        f"A row's observation, action and next observation leave {unexplained[0]:.2%} of its own "
        f"reward unexplained, but {unexplained[best]:.2%} of the reward in the row {where}: rewards "
        f"seem to be one row {'late' if best == 1 else 'early'}."
    )
    return Finding("warning", "rewards-shifted", message, (), _MOVE_UP if best == 1 else _MOVE_DOWN)


def _unexplained(inputs: np.ndarray, targets: np.ndarray) -> list[float]:
    """Share of each target's variance that a linear fit to every other row leaves in the rest."""
    fit, check = slice(0, None, 2), slice(1, None, 2)
    ridge = 1e-6 * len(inputs) * np.eye(inputs.shape[1])
    weights = np.linalg.solve(inputs[fit].T @ inputs[fit] + ridge, inputs[fit].T @ targets[fit])
    left = ((targets[check] - inputs[check] @ weights) ** 2).mean(axis=0)
    variance = targets[check].astype(np.float64).var(axis=0)
    return np.divide(left, variance, out=np.ones_like(left), where=variance > 0).tolist()


_MOVE_UP = "In each episode move rewards one row up: the reward of a step belongs to its own row."
_MOVE_DOWN = "In each episode move rewards one row down, if that is so in the task."


def reward_scale(table: Table) -> Iterator[Finding]:
    """Rewards that learn better after a transform."""
    values = np.unique(table.rewards)
    if len(values) == 2 and (values == [0, 1]).all():
        message = "Rewards are 0 or 1. Learning from sparse rewards works better with 4 (r - 0.5)."
        fix = "Train with --reward-scale 4 --reward-shift -0.5; named datasets do it automatically."
        yield Finding("note", "reward-transform", message, (), fix)
        return
    typical = float(np.quantile(np.abs(table.rewards), 0.99))
    if len(values) > 1 and not 1e-3 <= typical <= 100.0 and typical > 0.0:
        scale = 10.0 ** -np.floor(np.log10(typical))
        message = (
            f"99 of 100 rewards lie within {typical:.3g} of 0: values of their sums would be "
            f"{'huge' if typical > 1 else 'tiny'}, and learning rates are made for about 1."
        )
        fix = f"Train with --reward-scale {scale:g}."
        yield Finding("note", "reward-transform", message, (), fix)


RULES = (constant_rewards, shifted_rewards, reward_scale)
