"""Actions that are a choice among a few: integer codes, one-hot vectors, a handful of values."""

from typing import Literal, NamedTuple

import numpy as np

from chary.errors import CharyError

HANDFUL = 10
"""Different values up to which a dimension is a choice, whatever they are."""
CODES = 20
"""Different values up to which 0, 1, 2, ... are codes."""
ROWS_EACH = 20
"""Rows for each value, on average, below which nothing is said: a few rows have few values."""
LOOKED_AT = 200_000
"""Rows that are looked at first: most actions show there that they are not finite."""


class Choice(NamedTuple):
    """A dimension of actions that takes only a few values, or all dimensions as one-hot vectors."""

    dimensions: tuple[int, ...]
    values: tuple[float, ...]
    kind: Literal["codes", "one-hot", "values"]

    def describe(self, names: tuple[str, ...]) -> str:
        """The choice in words, by the columns' own names where there are any."""
        called = [f"'{names[i]}'" if names else f"dimension {i}" for i in self.dimensions]
        if self.kind == "one-hot":
            return f"actions are one-hot vectors over {', '.join(called)}"
        listed = ", ".join(f"{value:g}" for value in self.values)
        what = " (integer codes)" if self.kind == "codes" else ""
        return f"{called[0]} takes only {len(self.values)} values: {listed}{what}"


def choices_in(actions: np.ndarray) -> tuple[Choice, ...]:
    """The dimensions that are choices; a dimension that never changes is none."""
    part = actions[:LOOKED_AT]
    if actions.shape[1] > 1 and _is_one_hot(part) and _is_one_hot(actions):
        return (Choice(tuple(range(actions.shape[1])), (0.0, 1.0), "one-hot"),)
    found = []
    for dimension in range(actions.shape[1]):
        values = np.unique(part[:, dimension])
        if len(values) <= CODES:
            values = np.unique(actions[:, dimension])
        in_turn = np.array_equal(values, values[0] + np.arange(len(values))) and values[0] in (0, 1)
        few = len(values) <= (CODES if in_turn else HANDFUL)
        if len(values) > 1 and few and len(actions) >= ROWS_EACH * len(values):
            whole = bool((values == np.rint(values)).all())
            kind = "codes" if whole else "values"
            found.append(Choice((dimension,), tuple(values.tolist()), kind))
    return tuple(found)


def is_finite_set(actions: np.ndarray, choices: tuple[Choice, ...]) -> bool:
    """Whether every dimension that changes is a choice."""
    chosen = {dimension for choice in choices for dimension in choice.dimensions}
    others = [d for d in range(actions.shape[1]) if d not in chosen]
    return bool(choices) and bool((actions[:, others] == actions[:1, others]).all())


CAN = (
    "chary learns continuous actions: its policy chooses any number between the bounds and treats "
    "nearby numbers as similar actions. It has no method for a choice among categories"
)


def refuse(name: str, actions: np.ndarray, names: tuple[str, ...]) -> None:
    """Refuse a finite set of actions, and say what can be done."""
    choices = choices_in(actions)
    if not is_finite_set(actions, choices):
        return
    what = "; ".join(choice.describe(names) for choice in choices[:3])
    low, high = choices[0].values[:2]
    raise CharyError(
        f"{name}: the actions are a finite set: {what}. {CAN} (on or off, gear 1 to 5): here it would "
        f"also choose {low + 0.37 * (high - low):g}. If the values are amounts, of which the log only "
        "has a few, train with --allow-finite-actions. If they are kinds, use a method for discrete "
        "actions, such as discrete CQL or BCQ."
    )


def _is_one_hot(actions: np.ndarray) -> bool:
    return bool(
        ((actions == 0) | (actions == 1)).all()
        and (actions.sum(axis=1) == 1).all()
        and (actions != actions[:1]).any()
        and len(actions) >= ROWS_EACH * actions.shape[1]
    )
