"""Where the data ends: from which doubt, and from which distance, a state counts as outside the data.

Two measures, because each is blind in places. The spread is the critics' standard deviation; critics may
agree on nonsense. The distance is that from a state to the nearest logged ones; it knows no actions. A
state is outside the data when either is larger than it is on all but a few logged rows that were put
aside, so that the share of flags on data like the logged is the one asked for.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chary.data import neighbours
from chary.data.dataset import Dataset
from chary.errors import CharyError

if TYPE_CHECKING:
    from chary.evaluation.agent import Agent

STORED = 4096
"""Logged states, at most, that are kept to measure distances to."""
ASIDE = 4096
"""Rows, at most, that the limits are taken from."""
NEIGHBOURS = 4
"""Nearest states, over which the distance is a mean: one odd row does not make its place known."""
FLAG_RATE = 0.005
"""Share of rows like the logged ones that is flagged, unless another is asked for."""
EVERY = 5
"""Of the episodes, one in so many is put aside where none was held out."""
PIECE = 256
"""Rows that are looked at together; the critics' program for as many is there from the diagnostics."""

REASONS = (
    "",
    "the critics disagree",
    "far from logged states",
    "the critics disagree, and far from logged states",
    "not a finite number, or out of bounds",
)
INVALID = 4


class Thresholds(NamedTuple):
    """Beyond either, a state is outside the data."""

    spread: float
    distance: float


class Limits(NamedTuple):
    """What is known of a run's data when the data itself is no longer there."""

    states: np.ndarray
    """(state, observation): logged states, less the centre and divided by the scale."""
    centre: np.ndarray
    scale: np.ndarray
    spreads: np.ndarray
    """(row,): the critics' standard deviation on rows put aside, with the logged actions; empty without
    critics."""
    distances: np.ndarray
    """(row,): distance of these rows' states."""
    held_out: bool
    """Whether these rows were held out of training. If not, the critics know them, and on new data the
    flag is raised more often than asked for."""
    step: int
    """Of training, at which the critics were asked."""

    def thresholds(self, rate: float = FLAG_RATE) -> Thresholds:
        """Such that this share of the rows put aside lies beyond one or the other."""
        check_rate(rate)
        measures = [m for m in (self.spreads, self.distances) if len(m)]
        # The larger of a row's two ranks decides from which level on it is flagged.
        ranks = [m.argsort(kind="stable").argsort(kind="stable") + 1.0 for m in measures]
        level = np.quantile(np.max(ranks, axis=0), 1.0 - rate, method="higher")
        at = [float(np.sort(m)[int(level) - 1]) for m in measures]
        return Thresholds(at[0] if len(at) == 2 else np.inf, at[-1])

    def distance(self, observations: np.ndarray) -> np.ndarray:
        """Of states in the environment's units, to the nearest logged ones."""
        with np.errstate(over="ignore", invalid="ignore"):  # infinite, which is far
            rows = (np.asarray(observations, np.float32) - self.centre) / self.scale
            return neighbours.distances(self.states, rows, NEIGHBOURS).astype(np.float32)

    def logged(self) -> np.ndarray:
        """The stored states in the environment's units."""
        return self.states * self.scale + self.centre

    def arrays(self) -> dict[str, np.ndarray]:
        """As a file keeps them."""
        return {name: np.asarray(value) for name, value in self._asdict().items()}

    @classmethod
    def of_arrays(cls, arrays: dict[str, np.ndarray]) -> "Limits":
        """As read from a file; raises ValueError or KeyError for another one's."""
        states, spreads, distances = (arrays[k] for k in ("states", "spreads", "distances"))
        centre, scale = arrays["centre"], arrays["scale"]
        if not (
            states.ndim == 2
            and centre.shape == scale.shape == states.shape[1:]
            and distances.ndim == spreads.ndim == 1
            and len(spreads) in (0, len(distances))
            and len(states)
            and len(distances)
        ):
            raise ValueError("arrays of other shapes")
        held_out, step = bool(arrays["held_out"]), int(arrays["step"])
        return cls(states, centre, scale, spreads, distances, held_out, step)


def check_rate(rate: float) -> None:
    if not 0.0 < rate < 1.0:
        raise CharyError(f"the flag rate is {rate:g}, but must lie between 0 and 1; 0.005, say.")


def reasons_of(sound: np.ndarray, doubted: np.ndarray, far: np.ndarray) -> np.ndarray:
    """(row,): in words, why a row is outside the data; empty inside. Each argument is (row,), bool."""
    return np.array(REASONS)[np.where(sound, doubted + 2 * far, INVALID)]


def limits_of(agent: "Agent", learned_from: Dataset, held_out: Dataset | None, step: int) -> Limits:
    """What a trained agent's data says, with its critics' doubt on held-out episodes.

    Without any, one episode in five is put aside for the distances; the critics have learned from it.
    """
    kept, aside = _rows(learned_from, held_out)
    states = np.asarray(learned_from.observations[kept], np.float32)
    centre, scale = states.mean(axis=0), states.std(axis=0)
    scale = np.where(scale < 1e-6, np.float32(1.0), scale)  # constant columns stay finite
    source = learned_from if held_out is None else held_out
    observations, actions = source.observations[aside], source.actions[aside]
    limits = Limits(
        (states - centre) / scale, centre, scale, np.zeros(0, np.float32), np.zeros(0, np.float32),
        held_out is not None, step,
    )  # fmt: skip
    limits = limits._replace(distances=limits.distance(observations))
    if agent.algorithm.values is None or agent.algorithm.beta is None:
        return limits
    return limits._replace(spreads=spreads(agent, observations, actions))


def spreads(agent: "Agent", observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """The critics' standard deviation, piece by piece of one size."""
    spare = -len(observations) % PIECE
    padded = (np.concatenate([x, x[:1].repeat(spare, axis=0)]) for x in (observations, actions))
    pieces = zip(*(np.split(x, len(x) // PIECE) for x in padded), strict=True)
    found = [agent.uncertainty(o, a, invalid="outside").std for o, a in pieces]
    return np.concatenate(found)[: len(observations)].astype(np.float32)


def _rows(learned_from: Dataset, held_out: Dataset | None) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose states are kept, and rows put aside: of other episodes, evenly spaced."""
    if held_out is not None:
        return (
            _evenly(np.arange(learned_from.size), STORED),
            _evenly(np.arange(held_out.size), ASIDE),
        )
    ends = np.asarray(learned_from.walk_ends)
    episode = np.searchsorted(ends, np.arange(learned_from.size), side="left")
    if len(ends) >= EVERY:
        aside = episode % EVERY == EVERY - 1
    else:  # too few episodes to put one aside: the last part of the rows
        aside = np.arange(learned_from.size) * EVERY >= (EVERY - 1) * learned_from.size
    return _evenly(np.flatnonzero(~aside), STORED), _evenly(np.flatnonzero(aside), ASIDE)


def _evenly(rows: np.ndarray, count: int) -> np.ndarray:
    return rows[np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(int)]
