"""What the doctor says, and the table it looks at."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from chary.data.names import Places

FEW = 5
"""Rows that a finding names; its message counts the rest."""


SAMPLE = 200_000
"""Rows that a statistic is taken from; more would not change it."""

Severity = Literal["error", "warning", "note"]
"""error: refused, or learned from wrongly; warning: probably not meant; note: good to know."""


class Finding(NamedTuple):
    """One thing that is wrong or odd in a dataset."""

    severity: Severity
    rule: str
    message: str
    """What, where, and why it matters."""
    rows: tuple[int, ...]
    """The first few rows concerned, as they are counted in the dataset."""
    fix: str
    places: tuple[str, ...] = ()
    """The same rows as they are counted in the user's own file, where that is known."""
    source: str = ""
    """Which file that is."""


class Facts(NamedTuple):
    """What is known of a dataset beside its columns."""

    observation_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    files: str = ""
    """The user's own files, as `chary.data.names` writes them."""
    name: str = ""
    own: bool = False
    """Whether it is the user's own data, for which nobody else has settled how to learn from it."""
    normalised: bool | None = None
    """Whether learning normalises observations; None where that is not decided yet."""
    there: tuple[str, ...] = ()
    """All names in a file, of which only those that matter are read."""


NO_FACTS = Facts()


def first(rows: Iterable[int] | np.ndarray) -> tuple[int, ...]:
    """The first few rows."""
    return tuple(int(row) for row in list(rows)[:FEW])


def listed(numbers: Iterable[int] | np.ndarray) -> str:
    """Numbers in words: the first few, and how many more."""
    numbers = list(numbers)
    more = f" and {len(numbers) - FEW:,} more" if len(numbers) > FEW else ""
    return ", ".join(str(int(number)) for number in numbers[:FEW]) + more


@dataclass(frozen=True, eq=False)
class Table:
    """Columns with their right shapes and types, so that rules can look at rows and episodes."""

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    next_observations: np.ndarray | None
    terminals: np.ndarray
    timeouts: np.ndarray
    action_low: np.ndarray
    action_high: np.ndarray
    infos: dict[str, np.ndarray] = field(default_factory=dict)
    """Further arrays with one row for each transition, such as D4RL's `infos/qpos`."""
    broken: dict[str, np.ndarray] = field(default_factory=dict)
    """Rows of each column that were NaN or infinite; here they hold what stood before."""
    times: np.ndarray | None = None
    places: Places = field(default_factory=Places)
    facts: Facts = NO_FACTS

    @property
    def size(self) -> int:
        return len(self.rewards)

    def row(self, row: int | np.integer) -> str:
        """A row in words, by the user's own file."""
        return self.places.row(int(row))

    def listed(self, rows: Iterable[int] | np.ndarray) -> str:
        """Rows in words: the first few, and how many more."""
        rows = list(rows)
        more = f" and {len(rows) - FEW:,} more" if len(rows) > FEW else ""
        return ", ".join(self.row(row) for row in rows[:FEW]) + more

    def named(self, key: str, dimensions: Iterable[int | np.integer]) -> str:
        """Dimensions of a column in words, by the user's own names."""
        names = {
            "observations": self.facts.observation_names,
            "next_observations": self.facts.observation_names,
            "actions": self.facts.action_names,
        }.get(key, ())
        dimensions = [int(d) for d in dimensions]
        if not names:
            return f"dimension {listed(dimensions)}"
        more = f" and {len(dimensions) - FEW:,} more" if len(dimensions) > FEW else ""
        return ", ".join(f"'{names[d]}'" for d in dimensions[:FEW]) + more

    @cached_property
    def ends(self) -> np.ndarray:
        """Rows that the flags call the last of an episode; the last of all always is."""
        ends = self.terminals | self.timeouts
        ends[-1] = True
        return np.flatnonzero(ends)

    @cached_property
    def starts(self) -> np.ndarray:
        return np.concatenate([[0], self.ends[:-1] + 1])

    @cached_property
    def lengths(self) -> np.ndarray:
        return self.ends - self.starts + 1

    @cached_property
    def inside(self) -> np.ndarray:
        """Whether row i and row i + 1 are of one episode, by the flags."""
        return ~(self.terminals | self.timeouts)[:-1]

    @cached_property
    def jumps(self) -> np.ndarray:
        """Whether the observation leaps from row i to row i + 1, in two dimensions or more.

        A leap is eight times the step that 99 of 100 steps stay below. On real D4RL data no step
        inside an episode exceeds 3.5 times that in its second largest dimension, while the resets
        of antmaze and hopper reach 10 to 35 times.
        """
        leaping = np.zeros(self.size - 1, np.int32)
        width = self.observations.shape[1]
        for column in range(width):
            steps = np.abs(np.diff(self.observations[:, column]))
            usual = steps[self.inside & (steps > 0)][:SAMPLE]
            if len(usual) >= 100:  # fewer do not tell what is usual
                leaping += steps > 8.0 * np.quantile(usual, 0.99)
        return leaping >= min(2, width)
