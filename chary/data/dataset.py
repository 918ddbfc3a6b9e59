"""The dataset: logged transitions, checked once and never changed."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from chary.errors import CharyError

if TYPE_CHECKING:
    from chary.data.scaling import Scaling
    from chary.types import Batch

COLUMNS = (
    "observations",
    "actions",
    "rewards",
    "next_observations",
    "terminals",
    "timeouts",
)
PIECE = 2**16
"""Rows looked at or copied at a time where the whole may not fit into memory."""


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
    """(transition,), float32, as logged: learning applies its own scale and shift."""
    next_observations: np.ndarray
    terminals: np.ndarray
    """(transition,), bool: the task itself ended here, nothing follows."""
    timeouts: np.ndarray
    """(transition,), bool: the episode was cut here, though the task would have gone on."""
    name: str
    action_low: np.ndarray
    action_high: np.ndarray
    metadata: dict[str, str] = field(default_factory=dict)
    """Where the data comes from, in words."""
    origin: str = ""
    """What `load` finds it by again, a name or a file; empty for data from memory."""
    data_file: str = ""
    """The file that a named dataset was read from, where the user gave one."""

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
    ) -> "Dataset":
        """Check the columns (D4RL's names) and put them in order.

        `next_observations` may be missing: each is then the next row's observation, and rows that
        were cut (a time limit, or the end of the data) are left out, because what followed them is
        not known.
        """
        source = source or name
        arrays = _checked_columns(columns, source)
        if "next_observations" not in arrays:
            arrays = _with_next_observations(arrays, source)
        arrays["timeouts"][-1] |= not arrays["terminals"][-1]  # the data itself ends here
        # An end is one or the other; where a file says both, the task's own end is the stronger word.
        arrays["timeouts"] &= ~arrays["terminals"]
        size = arrays["actions"].shape[1]
        low, high = _bound(action_low, size, source), _bound(action_high, size, source)
        _check_actions(arrays["actions"], low, high, source)
        for array in (*arrays.values(), low, high):
            array.setflags(write=False)
        return cls(
            **arrays,
            name=name,
            action_low=low,
            action_high=high,
            metadata=metadata or {},
            origin="",
            data_file="",
        )

    @property
    def size(self) -> int:
        """Number of transitions."""
        return len(self.rewards)

    @property
    def is_mapped(self) -> bool:
        """Whether the numbers stay in files and are read as they are needed."""
        return _is_mapped(self.observations)

    @property
    def observation_size(self) -> int:
        return self.observations.shape[1]

    @property
    def action_size(self) -> int:
        return self.actions.shape[1]

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
        start = 0
        for end in self.episode_ends:
            yield slice(start, int(end) + 1)
            start = int(end) + 1

    @cached_property
    def episode_returns(self) -> np.ndarray:
        """Sum of the logged rewards of each episode."""
        starts = np.concatenate([[0], self.episode_ends[:-1] + 1])
        return np.add.reduceat(self.rewards.astype(np.float64), starts)

    @cached_property
    def episode_lengths(self) -> np.ndarray:
        """Transitions in each episode."""
        return np.diff(np.concatenate([[-1], self.episode_ends]))

    def split(self, held_out: float, seed: int) -> tuple["Dataset", "Dataset"]:
        """Two datasets of whole episodes: for learning, and a share held out for validation."""
        episodes = list(self.episodes())
        count = max(1, round(held_out * len(episodes)))
        if len(episodes) - count < 1:
            raise CharyError(
                f"{self.name}: cannot hold out {held_out:.0%} of {len(episodes)} episode(s) and "
                "still have one to learn from. Use a dataset with more episodes, or no validation."
            )
        order = np.random.default_rng([seed, 0x5EED]).permutation(len(episodes))
        out = np.zeros(self.size, bool)
        for index in order[:count]:
            out[episodes[index]] = True
        return self._rows(~out), self._rows(out)

    def _rows(self, keep: np.ndarray) -> "Dataset":
        columns = {column: getattr(self, column)[keep] for column in COLUMNS}
        for array in columns.values():
            array.setflags(write=False)
        # A fingerprint of the whole is not that of a part.
        kept = {key: text for key, text in self.metadata.items() if key != "fingerprint"}
        return replace(self, **columns, metadata=kept)

    def transitions(
        self,
        scaling: "Scaling",
        indices: np.ndarray | None = None,
        *,
        next_actions: bool = False,
    ) -> "Batch":
        """Transitions, all or by their number, as one batch on the device, scaled for learning."""
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

        def following() -> np.ndarray:
            """Each row's next action; where its episode ends, nobody knows what came next."""
            rows = np.arange(self.size) if indices is None else indices
            actions = taken("actions", np.minimum(rows + 1, self.size - 1))
            actions[taken("terminals") | taken("timeouts")] = np.nan
            return actions

        return Batch(
            observations=jnp.asarray(scaling.observations(taken("observations"))),
            actions=jnp.asarray(scaling.to_unit(taken("actions"))),
            rewards=jnp.asarray(scaling.rewards(taken("rewards"))),
            discounts=jnp.asarray(1.0 - taken("terminals"), jnp.float32),
            next_observations=jnp.asarray(scaling.observations(taken("next_observations"))),
            next_actions=jnp.asarray(scaling.to_unit(following())) if next_actions else None,
        )


def _checked_columns(columns: dict[str, np.ndarray], source: str) -> dict[str, np.ndarray]:
    """The known columns with their right types, or an error that names the first thing wrong."""
    missing = [c for c in COLUMNS if c not in columns and c != "next_observations"]
    if missing:
        hint = ""
        if set(missing) & {"terminals", "timeouts"}:
            hint = (
                " Episode ends must be known: terminals is True where the task itself ended, "
                "timeouts where an episode was only cut; write a column of False if there were none."
            )
        raise CharyError(
            f"{source}: missing {', '.join(missing)}; it has {', '.join(sorted(columns)) or 'nothing'}."
            + hint
        )
    arrays: dict[str, np.ndarray] = {}
    for column in COLUMNS:
        if column not in columns:
            continue
        array = columns[column]
        if not isinstance(array, np.memmap):  # a mapped file stays one
            array = np.asarray(array)
        if array.dtype.kind not in "biuf":
            raise CharyError(f"{source}: {column} holds {array.dtype}, not numbers.")
        width = 2 if column in ("observations", "actions", "next_observations") else 1
        if width == 1 and array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != width:
            wanted = "(transition, dimension)" if width == 2 else "(transition,)"
            raise CharyError(
                f"{source}: {column} has shape {array.shape}, but must be {wanted}. "
                "Observations and actions are vectors; images and discrete actions are not supported."
            )
        arrays[column] = array
    rows = {column: len(array) for column, array in arrays.items()}
    if len(set(rows.values())) > 1:
        counts = ", ".join(f"{column} {count}" for column, count in rows.items())
        raise CharyError(f"{source}: columns of unequal length ({counts}); every row needs all.")
    if not rows["rewards"]:
        raise CharyError(f"{source}: holds no transitions.")
    for column in ("observations", "actions"):
        if not arrays[column].shape[1]:
            raise CharyError(
                f"{source}: {column} has no dimensions (shape {arrays[column].shape})."
            )
    if "next_observations" in arrays:
        here, after = arrays["observations"].shape, arrays["next_observations"].shape
        if here != after:
            raise CharyError(f"{source}: observations are {here} but next_observations {after}.")
    for column in ("terminals", "timeouts"):
        odd = np.flatnonzero((arrays[column] != 0) & (arrays[column] != 1))
        if odd.size:
            raise CharyError(
                f"{source}: {column} must be True/False or 0/1, but row {odd[0]} is "
                f"{arrays[column][odd[0]]}."
            )
        arrays[column] = arrays[column].astype(bool)
    for column in set(arrays) - {"terminals", "timeouts"}:
        if not (_is_mapped(arrays[column]) and arrays[column].dtype == np.float32):
            with np.errstate(over="ignore"):  # too large for float32 becomes inf, reported below
                arrays[column] = np.array(arrays[column], np.float32, order="C")
        bad = _rows_where(arrays[column], lambda values: ~np.isfinite(values))
        if bad.size:
            raise CharyError(
                f"{source}: {column} has NaN or infinite values in {bad.size} row(s), first in row "
                f"{bad[0]}. Drop or repair these rows before loading."
            )
    if not (arrays["terminals"].any() or arrays["timeouts"].any()):
        raise CharyError(
            f"{source}: no episode ever ends: terminals and timeouts are False in every row. Mark "
            "where episodes end; if this really is one uninterrupted run, set timeouts in the last row."
        )
    return arrays


def _is_mapped(array: np.ndarray) -> bool:
    """Whether an array stays in a file that nobody writes to through it."""
    return isinstance(array, np.memmap) and not array.flags.writeable


def _rows_where(array: np.ndarray, wrong: Callable[[np.ndarray], Any]) -> np.ndarray:
    """Numbers of the rows with a wrong value, piece by piece: the data may not fit into memory."""
    found = []
    for rows in pieces(len(array)):
        marked = wrong(array[rows]).reshape(rows.stop - rows.start, -1)
        found.append(np.flatnonzero(marked.any(axis=1)) + rows.start)
    return np.concatenate(found)


def pieces(size: int) -> Iterator[slice]:
    """Slices that cover so many rows, none of them too long for memory."""
    return (slice(start, min(start + PIECE, size)) for start in range(0, size, PIECE))


def _with_next_observations(arrays: dict[str, np.ndarray], source: str) -> dict[str, np.ndarray]:
    """Take each next observation from the next row, and leave out rows that have none."""
    following = np.roll(arrays["observations"], -1, axis=0)
    cut = arrays["timeouts"].copy()
    cut[-1] = True
    # After a true end nothing follows, so its row stays; its own observation stands in.
    following[arrays["terminals"]] = arrays["observations"][arrays["terminals"]]
    dropped = cut & ~arrays["terminals"]
    if dropped.all():
        raise CharyError(
            f"{source}: without next_observations, and with an end in every row, no transition is "
            "left. Add next_observations."
        )
    # The row before a dropped one becomes the last of its episode.
    arrays["timeouts"] = np.roll(dropped, -1)
    arrays["timeouts"][-1] = False
    kept = {column: array[~dropped] for column, array in arrays.items()}
    return kept | {"next_observations": following[~dropped]}


def _bound(bound: np.ndarray | float, size: int, source: str) -> np.ndarray:
    bound = np.array(bound, np.float32)
    if bound.shape not in ((), (size,)):
        raise CharyError(
            f"{source}: action bounds must be one number, or one for each of {size} action "
            f"dimension(s), but have shape {bound.shape}."
        )
    return np.broadcast_to(bound, (size,)).copy()


def _check_actions(actions: np.ndarray, low: np.ndarray, high: np.ndarray, source: str) -> None:
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise CharyError(f"{source}: action bounds must be finite and low < high: {low}, {high}.")
    slack = 1e-5 * (high - low)  # rounding in the logging program
    outside = _rows_where(actions, lambda a: (a < low - slack) | (a > high + slack))
    if outside.size:
        row = outside[0]
        raise CharyError(
            f"{source}: {outside.size} action(s) outside [{low.min():g}, {high.max():g}], first in "
            f"row {row}: {actions[row].tolist()}. Scale actions into their bounds, or give the true "
            "bounds as action_low and action_high."
        )
