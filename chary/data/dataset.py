"""The dataset: logged transitions, checked once and never changed."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from chary.data.columns import (
    COLUMNS,
    EXTRAS,
    bound_of,
    check_actions,
    checked_columns,
    extra_columns,
    is_mapped,
    with_next_observations,
)
from chary.errors import CharyError, one_line, printable

if TYPE_CHECKING:
    from chary.data.scaling import RewardTransform, Scaling
    from chary.data.sources import NamedDataset
    from chary.envs import Task
    from chary.types import Batch


SAME_STATE = 1e-4
"""Difference up to which two logged states are one."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Transitions in the order they were logged, episode after episode.

    Build one with `Dataset.from_columns`, which checks it; the arrays are then read-only.
    """

    observations: np.ndarray
    """(transition, observation), float32."""
    actions: np.ndarray
    """(transition, action), float32, in the environment's own units."""
    rewards: np.ndarray
    """(transition,), float32, as logged; training applies its own scale and shift."""
    next_observations: np.ndarray
    terminals: np.ndarray
    """(transition,), bool: the task itself ended here."""
    timeouts: np.ndarray
    """(transition,), bool: the episode was cut off here; the task did not end."""
    name: str
    action_low: np.ndarray
    action_high: np.ndarray
    metadata: dict[str, str] = field(default_factory=dict)
    """Where the data comes from, in words."""
    origin: str = ""
    """Name or file from which `load` can load it again; empty for data from memory."""
    data_file: str = ""
    """The file given by the user for a named dataset."""
    observation_names: tuple[str, ...] = ()
    """Names of the observation dimensions, if known."""
    action_names: tuple[str, ...] = ()
    source_rows: np.ndarray | None = None
    """(transition,), the row of the user's file from which each transition comes."""
    times: np.ndarray | None = None
    """(transition,), time of logging: in seconds for dates, otherwise in the log's own unit."""

    @classmethod
    def from_columns(
        cls,
        columns: dict[str, np.ndarray],
        *,
        name: str,
        source: str | None = None,
        action_low: np.ndarray | float = -1.0,
        action_high: np.ndarray | float = 1.0,
        metadata: dict[str, str] | None = None,
        observation_names: Iterable[str] = (),
        action_names: Iterable[str] = (),
    ) -> "Dataset":
        """Check the columns (D4RL's names) and make a dataset.

        `source_rows` and `times` are optional. Without `next_observations` the next row's observation
        is used, and rows that were cut off (by a time limit, or at the end of the data) are left out,
        because their next observation is unknown.
        """
        source = source or name
        arrays = checked_columns(columns, source)
        arrays |= extra_columns(columns, len(arrays["rewards"]))
        if "next_observations" not in arrays:
            arrays = with_next_observations(arrays, source)
        arrays["timeouts"][-1] |= not arrays["terminals"][-1]  # the data itself ends here
        # An end is one or the other; where a file says both, the task's own end is the stronger word.
        arrays["timeouts"] &= ~arrays["terminals"]
        size = arrays["actions"].shape[1]
        low, high = bound_of(action_low, size, source), bound_of(action_high, size, source)
        check_actions(arrays["actions"], low, high, source)
        for array in (*arrays.values(), low, high):
            array.setflags(write=False)
        observation_names, action_names = (
            tuple(map(one_line, names)) for names in (observation_names, action_names)
        )
        for key, names in (("observations", observation_names), ("actions", action_names)):
            if names and len(names) != arrays[key].shape[1]:
                raise CharyError(
                    f"{source}: {len(names)} names for {arrays[key].shape[1]} dimension(s) of {key}."
                )
        return cls(
            **arrays,
            name=one_line(name),
            action_low=low,
            action_high=high,
            metadata={one_line(key): printable(text) for key, text in (metadata or {}).items()},
            origin="",
            data_file="",
            observation_names=observation_names,
            action_names=action_names,
        )

    @property
    def size(self) -> int:
        """Number of transitions."""
        return len(self.rewards)

    @property
    def is_mapped(self) -> bool:
        """Whether the numbers stay in files and are read as they are needed."""
        return is_mapped(self.observations)

    @property
    def observation_size(self) -> int:
        return self.observations.shape[1]

    @property
    def action_size(self) -> int:
        return self.actions.shape[1]

    @cached_property
    def named(self) -> "NamedDataset | None":
        """What chary knows of the dataset by its name or its file's; None for data of the user's own."""
        from chary.data import sources

        return sources.recognise(self.origin or self.name)

    @cached_property
    def task(self) -> "Task | None":
        """The simulator that goes by the dataset's name."""
        from chary.data.tasks import find_task

        return find_task(self.name)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of every number in the dataset: equal data, equal fingerprint."""
        digest = hashlib.sha256()
        for array in (
            *(getattr(self, name) for name in COLUMNS),
            self.action_low,
            self.action_high,
        ):
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    @cached_property
    def episode_ends(self) -> np.ndarray:
        """Row of the last transition of every episode."""
        return np.flatnonzero(self.terminals | self.timeouts)

    def episodes(self) -> Iterator[slice]:
        """The rows of each episode, in order."""
        return _slices(self.episode_ends)

    @cached_property
    def episode_returns(self) -> np.ndarray:
        """Sum of the logged rewards of each episode."""
        starts = np.concatenate([[0], self.episode_ends[:-1] + 1])
        return np.add.reduceat(self.rewards.astype(np.float64), starts)

    @cached_property
    def walk_ends(self) -> np.ndarray:
        """Row of the last transition of every walk.

        A walk continues after a true end if the next row starts where it was: D4RL's ants stand at
        their goal for many rows, each of which is an end of the task, until their time is up.
        """
        inner = self.episode_ends[:-1]
        inner = inner[self.terminals[inner]]
        apart = np.abs(self.next_observations[inner] - self.observations[inner + 1]).max(axis=1)
        return np.setdiff1d(self.episode_ends, inner[apart <= SAME_STATE])

    @cached_property
    def episode_lengths(self) -> np.ndarray:
        """Transitions in each episode."""
        return np.diff(np.concatenate([[-1], self.episode_ends]))

    def split(
        self, held_out: float, seed: int, *, ends: np.ndarray | None = None
    ) -> tuple["Dataset", "Dataset"]:
        """Two datasets of whole episodes: for learning, and a share held out.

        `ends` are the last rows of what stays whole, where that is not an episode (`walk_ends`).
        """
        episodes = list(self.episodes() if ends is None else _slices(ends))
        count = max(1, round(held_out * len(episodes)))
        if len(episodes) - count < 1:
            raise CharyError(
                f"{self.name}: cannot hold out {held_out:.0%} of {len(episodes)} episode(s) and "
                "still have one to learn from. Use a dataset with more episodes, or hold none out."
            )
        order = np.random.default_rng([seed, 0x5EED]).permutation(len(episodes))
        out = np.zeros(self.size, bool)
        for index in order[:count]:
            out[episodes[index]] = True
        return self._rows(~out), self._rows(out)

    def _rows(self, keep: np.ndarray) -> "Dataset":
        there = (name for name in (*COLUMNS, *EXTRAS) if getattr(self, name) is not None)
        columns = {column: getattr(self, column)[keep] for column in there}
        for array in columns.values():
            array.setflags(write=False)
        # A fingerprint of the whole is not that of a part.
        kept = {key: text for key, text in self.metadata.items() if key != "fingerprint"}
        return replace(self, **columns, metadata=kept)

    @cached_property
    def _ends(self) -> np.ndarray:
        """Row of the last transition of each row's own episode."""
        return np.repeat(self.episode_ends, self.episode_lengths)

    def transitions(
        self,
        scaling: "Scaling",
        indices: np.ndarray | None = None,
        *,
        next_actions: bool = False,
        returns: bool = False,
        n_step: int = 1,
        discount: float = 1.0,
    ) -> "Batch":
        """Transitions, all or by their number, as one batch on the device, scaled for learning.

        With several steps a transition reaches m = min(n, steps to the episode's end) rows on: its
        reward is sum_k<m discount^k r_k, what follows is the state there, and its discount is
        discount^(m - 1), because learning multiplies by the discount once more, and 0 at a true end.
        With `returns`, each row also has what its episode still brought; a time limit brings nothing.
        """
        import jax.numpy as jnp

        from chary.types import Batch

        def taken(column: str, indices: np.ndarray | None = indices) -> np.ndarray:
            array = getattr(self, column)
            if indices is None:
                return array
            order = np.argsort(indices, kind="stable")  # files are read from front to back
            rows = np.empty((len(indices), *array.shape[1:]), array.dtype)
            rows[order] = array[indices[order]]
            return rows

        first = np.arange(self.size) if indices is None else indices
        reach = np.minimum(n_step - 1, self._ends[first] - first) if n_step > 1 else 0
        last = first + reach if n_step > 1 else indices

        def rewards() -> np.ndarray:
            """Of each row, or summed to where it reaches."""
            total = scaling.rewards(taken("rewards"))
            for k in range(1, n_step):
                later = scaling.rewards(taken("rewards", np.minimum(first + k, self.size - 1)))
                total = total + np.float32(discount**k) * np.where(reach >= k, later, 0.0)
            return np.asarray(total, np.float32)

        def following() -> np.ndarray:
            """The next action after each; where its episode ends, nobody knows what came next."""
            actions = taken("actions", np.minimum(first + reach + 1, self.size - 1))
            actions[taken("terminals", last) | taken("timeouts", last)] = np.nan
            return actions

        discounts = discount**reach * (1.0 - taken("terminals", last))
        return Batch(
            observations=jnp.asarray(scaling.observations(taken("observations"))),
            actions=jnp.asarray(scaling.to_unit(taken("actions"))),
            rewards=jnp.asarray(rewards()),
            discounts=jnp.asarray(discounts, jnp.float32),
            next_observations=jnp.asarray(scaling.observations(taken("next_observations", last))),
            next_actions=jnp.asarray(scaling.to_unit(following())) if next_actions else None,
            returns=jnp.asarray(_to_go(self, scaling.reward, discount)[first]) if returns else None,
        )


@lru_cache(maxsize=2)
def _to_go(dataset: Dataset, reward: "RewardTransform", discount: float) -> np.ndarray:
    """Discounted returns from each row to its episode's end, of rewards as learning sees them."""
    from chary.data.scaling import returns_to_go

    rewards = reward.scale * (np.asarray(dataset.rewards, np.float64) + reward.shift)
    return returns_to_go(rewards, dataset.episode_ends, discount).astype(np.float32)


def _slices(ends: np.ndarray) -> Iterator[slice]:
    """The rows up to each of these, from the row after the one before."""
    start = 0
    for end in ends:
        yield slice(start, int(end) + 1)
        start = int(end) + 1
