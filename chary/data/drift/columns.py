"""How far the distribution of every column moved, and how far it moves within the training data.

The distance is that of Kolmogorov and Smirnov, the largest difference of two cumulative distributions.
What counts is a distance beyond those of groups of episodes that differ by chance (`groups`).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from chary.data.drift.groups import SURE, deals, stretches
from chary.data.drift.sample import Sample
from chary.data.scaling import centre_and_scale

GRID = 128
"""Quantiles of both datasets together at which distributions are compared; a distance is exact to
1 / 128."""
LEAST_MOVE = 0.1
"""Distance below which a column has not moved in any way that matters, however sure it is. A normal
distribution moves so far when its mean moves by a quarter of a deviation."""
MENTIONED = 0.1
"""Shift of the median, in deviations, and share outside the range, from which the verdict gives them."""
SMALL = 0.01
"""Distance that counts as usual at least, where deals give less: a column that is almost constant."""
WIDER = 0.25
"""The range of a column is from its 1% to its 99% quantile, wider at each end by this share of it. A
normal distribution has one value in 2,000 outside. Sentinels in the training data do not widen it."""
QUANTILES = (0.01, 0.5, 0.99)


class Column(NamedTuple):
    """One column in both datasets."""

    name: str
    kind: str
    """observation, action, reward or return."""
    moved: bool
    """Whether its distance is beyond the limit, and large enough to matter."""
    distance: float
    """Kolmogorov-Smirnov distance of the new data from the training data."""
    limit: float
    """The distance that chance and stretches of the training data itself reach."""
    shift: float | None
    """New median minus the training data's, in robust deviations of the training data; None where the
    column is constant there."""
    training_quantiles: tuple[float, ...]
    """1%, 50% and 99%."""
    new_quantiles: tuple[float, ...]
    outside: float
    """Share of the new values outside the training data's range."""
    training_outside: float
    """The same of the training data's own values."""
    range: tuple[float, float]

    @property
    def sentence(self) -> str:
        """The move in a few words."""
        if self.shift is None or abs(self.shift) < MENTIONED:
            words = f"KS distance {self.distance:.2f}"
        else:
            words = f"median {self.shift:+.2f} deviations"
        outside = f", {self.outside:.0%} outside its range" if self.outside >= MENTIONED else ""
        return f"{self.name} ({words}{outside})"


class _Values(NamedTuple):
    """A column's values, each with the number of its episode."""

    name: str
    kind: str
    training: np.ndarray
    training_episode: np.ndarray
    new: np.ndarray
    new_episode: np.ndarray


def compare_columns(training: Sample, new: Sample) -> list[Column]:
    """Every observation and action, the reward of a step and the return of an episode."""
    sizes = training.episodes, new.episodes
    dealt, successive = deals(*sizes), stretches(*sizes)
    values = list(_columns(training, new))
    observed, by_chance, own = (
        np.array(each)
        for each in zip(*(_distances(v, sizes, dealt, successive) for v in values), strict=True)
    )
    # Columns whose distances vary more by chance are not to decide for all: each is measured by its own.
    usual = np.maximum(np.median(by_chance, axis=1), SMALL)
    beyond = np.quantile((by_chance / usual[:, None]).max(axis=0), SURE, method="higher")
    limits = np.maximum(beyond * usual, own.max(axis=1))
    return [
        _described(column, float(distance), float(limit))
        for column, distance, limit in zip(values, observed, limits, strict=True)
    ]


def _columns(training: Sample, new: Sample) -> Iterator[_Values]:
    kinds: Sequence[tuple[str, str, tuple[str, ...]]] = (
        ("observations", "observation", training.dataset.observation_names),
        ("actions", "action", training.dataset.action_names),
    )
    for key, kind, names in kinds:
        rows, new_rows = getattr(training.dataset, key), getattr(new.dataset, key)
        names = names or getattr(new.dataset, f"{kind}_names")
        rows, new_rows = rows[training.rows], new_rows[new.rows]
        for i in range(rows.shape[1]):
            name = names[i] if names else f"{kind} {i}"
            yield _Values(name, kind, rows[:, i], training.episode, new_rows[:, i], new.episode)
    rewards = training.dataset.rewards[training.rows], new.dataset.rewards[new.rows]
    yield _Values(
        "reward per step", "reward", rewards[0], training.episode, rewards[1], new.episode
    )
    each = np.arange(training.episodes), np.arange(new.episodes)
    yield _Values("return per episode", "return", training.returns, each[0], new.returns, each[1])


def _distances(
    column: _Values, sizes: tuple[int, int], dealt: np.ndarray, successive: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Distance of the new data from the training data; in every deal; of every stretch from the rest."""
    both = np.concatenate([column.training, column.new])
    grid = np.unique(np.quantile(both, np.linspace(0, 1, GRID + 1), method="inverted_cdf"))
    counts = np.concatenate(
        [
            _cumulative(column.training, column.training_episode, sizes[0], grid),
            _cumulative(column.new, column.new_episode, sizes[1], grid),
        ]
    )
    new = np.repeat([0.0, 1.0], sizes).astype(np.float32)[None]
    observed = float(_apart(new, counts)[0])
    return observed, _apart(dealt, counts), _apart(successive, counts[: sizes[0]])


def _cumulative(
    values: np.ndarray, episode: np.ndarray, episodes: int, grid: np.ndarray
) -> np.ndarray:
    """(episode, point): how many values of each episode are at most as large as each point."""
    points = len(grid)
    place = np.searchsorted(grid, values)  # the grid ends with the largest of all values
    counts = np.bincount(episode * points + place, minlength=episodes * points)
    return counts.reshape(episodes, points).cumsum(axis=1).astype(np.float32)


def _apart(groups: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(group,): distance between the episodes in each group and those that are not."""
    inside = (groups @ counts).astype(np.float64)
    others = counts.sum(axis=0, dtype=np.float64) - inside
    # A group whose episodes have no rows in the sample has no distribution.
    shares = (each / np.maximum(each[:, -1:], 1.0) for each in (inside, others))
    return np.abs(next(shares) - next(shares)).max(axis=1)


def _described(column: _Values, distance: float, limit: float) -> Column:
    centre, scale = (float(x[0]) for x in centre_and_scale(column.training[:, None]))
    low, _, high = quantiles = np.quantile(column.training, QUANTILES)
    margin = WIDER * (high - low)
    edges = low - margin, high + margin
    if high == low:
        edges = column.training.min(), column.training.max()
    varies = scale > 1e-6 * abs(centre)  # not only by rounding
    shift = (float(np.median(column.new)) - centre) / scale if varies else None

    def outside(values: np.ndarray) -> float:
        return float(((values < edges[0]) | (values > edges[1])).mean())

    return Column(
        name=column.name,
        kind=column.kind,
        moved=distance > limit and distance >= LEAST_MOVE,
        distance=distance,
        limit=limit,
        shift=shift,
        training_quantiles=tuple(quantiles.tolist()),
        new_quantiles=tuple(np.quantile(column.new, QUANTILES).tolist()),
        outside=outside(column.new),
        training_outside=outside(column.training),
        range=(float(edges[0]), float(edges[1])),
    )
