"""What happened in the task: rows as they were, and the transitions that can be learned from.

A row belongs to an environment step. A transition of n steps is ready n rows later, or when its episode
ends; one that needs the next action, or what the episode still brings, waits for that too.
"""

from collections import deque
from typing import Any, NamedTuple

import numpy as np

from chary.data.scaling import Scaling, returns_to_go


class Row(NamedTuple):
    """One step of an environment, in its own units."""

    observations: np.ndarray
    actions: np.ndarray
    rewards: float
    next_observations: np.ndarray
    terminals: bool
    timeouts: bool
    values: float
    """Mean of the critics at the action, in the learner's units."""
    spreads: float
    """Their standard deviation there."""


class Columns:
    """Arrays with a row for every step, in twice the room whenever they are full."""

    def __init__(self) -> None:
        self.size = 0
        self._arrays: dict[str, np.ndarray] = {}

    def append(self, row: dict[str, Any]) -> None:
        for name, value in row.items():
            new = np.asarray(value)
            new = new.astype(np.float32) if new.dtype.kind == "f" else new
            array = self._arrays.setdefault(name, np.zeros((1024, *new.shape), new.dtype))
            if self.size == len(array):
                array = self._arrays[name] = np.concatenate([array, np.zeros_like(array)])
            array[self.size] = new
        self.size += 1

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name][: self.size]

    def part(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Some rows of all columns."""
        return {name: self[name][start:stop] for name in self._arrays}


class Buffer:
    """All rows, and the transitions made of them, scaled for learning."""

    def __init__(
        self,
        scaling: Scaling,
        environments: int,
        *,
        n_step: int = 1,
        discount: float = 1.0,
        next_actions: bool = False,
        returns: bool = False,
    ):
        self.rows, self.ready = Columns(), Columns()
        self._scaling, self._n_step, self._discount = scaling, n_step, discount
        self._next_actions, self._returns = next_actions, returns
        self._waiting: list[deque[Row]] = [deque() for _ in range(environments)]

    def add(self, row: Row) -> None:
        """Steps of the environments come in turn."""
        waiting = self._waiting[self.rows.size % len(self._waiting)]
        self.rows.append(row._asdict())
        waiting.append(row)
        if row.terminals or row.timeouts:
            self._make_all_ready(waiting)
        elif len(waiting) == self._n_step + self._next_actions and not self._returns:
            self._make_ready(waiting)  # what an episode brings is known at its end alone

    def cut(self, environment: int) -> None:
        """The episode of an environment is not followed any further: it ends with its last row."""
        waiting = self._waiting[environment]
        last = range(environment, self.rows.size, len(self._waiting))[-1]
        self.rows["timeouts"][last] = True
        if waiting:
            waiting[-1] = waiting[-1]._replace(timeouts=True)
        self._make_all_ready(waiting)

    def _make_all_ready(self, waiting: deque[Row]) -> None:
        """An episode is over."""
        rewards = self._scaling.rewards(np.array([row.rewards for row in waiting], np.float32))
        to_go = returns_to_go(rewards.astype(float), np.array([len(rewards) - 1]), self._discount)
        for still in to_go:
            self._make_ready(waiting, still)

    def _make_ready(self, waiting: deque[Row], still: float = np.nan) -> None:
        """The oldest row of an episode becomes a transition, as `Dataset.transitions` makes them."""
        scaling = self._scaling
        reached = [*waiting][: self._n_step]
        first, last = reached[0], reached[-1]
        total = np.float32(0.0)
        for k, row in enumerate(reached):
            total += np.float32(self._discount**k) * scaling.rewards(np.float32(row.rewards))
        transition = {
            "observations": scaling.observations(first.observations),
            "actions": scaling.to_unit(first.actions),
            "rewards": total,
            "discounts": np.float32(self._discount ** (len(reached) - 1) * (not last.terminals)),
            "next_observations": scaling.observations(last.next_observations),
        }
        if self._next_actions:
            known = len(waiting) > self._n_step
            following = scaling.to_unit(waiting[self._n_step].actions) if known else np.nan
            transition["next_actions"] = np.broadcast_to(following, np.shape(first.actions))
        if self._returns:
            transition["returns"] = np.float32(still)
        self.ready.append(transition)
        waiting.popleft()
