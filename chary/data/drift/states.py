"""How many new states lie outside the training data, and how much of the training data is still visited.

A state is outside if it is farther from the training states than 99.5% of states in training episodes
that were left out of the search. Columns are scaled as learning scales them.
"""

from typing import NamedTuple

import numpy as np

from chary.data.drift.groups import deals, stretches
from chary.data.drift.sample import Sample
from chary.data.neighbours import distances
from chary.data.scaling import centre_and_scale

NEIGHBOURS = 8
"""Nearest states; the distance is the mean over them."""
SEARCHED = 10_000
"""States of each dataset, evenly spread, that are searched and asked about."""
VISITED = 2_000
"""Training states that are asked about where the new data is searched."""
EXPECTED = 0.005
"""Share of the training data's own states that counts as outside."""
BLOCKS = 10
"""The training data is left out in so many blocks of successive episodes: what was logged on a day is
close to what was logged the day before."""
DRAWS = 1_000
"""Of the bootstrap over episodes."""
TRIALS = 10
"""Stretches of the training data that are searched as if they were the new data."""


class States(NamedTuple):
    """Shares of states."""

    outside: float
    """Share of the new states outside the training data; `EXPECTED` where nothing changed."""
    outside_low: float
    """2.5% and 97.5% of a bootstrap over the new episodes."""
    outside_high: float
    outside_limit: float
    """The share that stretches of the training data reach, or chance where all episodes are dealt out
    anew. It grows with the share outside, but stays below it if most new episodes have such states."""
    limit: float
    """Distance, in scaled units, from which a state is outside."""
    visited: float
    """Share of the training states that have new states around them."""
    visited_usual: float
    """The same of stretches of the training data, on average; it depends on the number of episodes."""
    visited_least: float
    """The least of these."""


class Counts(NamedTuple):
    """States of each episode: how many are outside, and how many there are."""

    outside: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, outside: np.ndarray, episode: np.ndarray, episodes: int) -> "Counts":
        found = np.bincount(episode[outside], minlength=episodes)
        return cls(found, np.bincount(episode, minlength=episodes))

    def shares(self, groups: np.ndarray) -> np.ndarray:
        """(group,): share outside in each group of episodes."""
        return (groups @ self.outside) / np.maximum(groups @ self.rows, 1)


def compare_states(training: Sample, new: Sample) -> States:
    """Search the training states for the new ones, and the other way round."""
    centre, scale = centre_and_scale(training.dataset.observations)
    scale = np.where(scale < 1e-6, np.float32(1.0), scale)  # as learning sees a constant column

    def states(sample: Sample, episodes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        rows, which = sample.spread(episodes, count)
        return (sample.dataset.observations[rows] - centre) / scale, which

    everyone = np.arange(training.episodes)
    known, episode = states(training, everyone, SEARCHED)
    asked, new_episode = states(new, np.arange(new.episodes), SEARCHED)
    own = np.empty(len(known))
    for block in np.array_split(everyone, min(BLOCKS, len(everyone))):
        out = (episode >= block[0]) & (episode <= block[-1])
        own[out] = distances(known[~out], known[out], NEIGHBOURS)
    limit = float(np.quantile(own, 1.0 - EXPECTED))
    outside = distances(known, asked, NEIGHBOURS) > limit
    before = Counts.of(own > limit, episode, training.episodes)
    after = Counts.of(outside, new_episode, new.episodes)
    low, high = _interval(after)

    def share_visited(of: np.ndarray, by: np.ndarray) -> float:
        return float((distances(by, of, NEIGHBOURS) <= limit).mean())

    usual = []
    for stretch in stretches(training.episodes, new.episodes, TRIALS).astype(bool):
        others, _ = states(training, everyone[~stretch], VISITED)
        usual.append(share_visited(others, states(training, everyone[stretch], SEARCHED)[0]))
    return States(
        outside=float(outside.mean()),
        outside_low=low,
        outside_high=high,
        outside_limit=_limit(before, after),
        limit=limit,
        visited=share_visited(states(training, everyone, VISITED)[0], asked),
        visited_usual=float(np.mean(usual)),
        visited_least=min(usual),
    )


def _interval(counts: Counts) -> tuple[float, float]:
    """Of the share outside, if the same number of episodes were logged again."""
    size = len(counts.rows)
    drawn = np.random.default_rng(0).integers(size, size=(DRAWS, size))
    shares = counts.outside[drawn].sum(axis=1) / np.maximum(counts.rows[drawn].sum(axis=1), 1)
    low, high = np.quantile(shares, (0.025, 0.975))
    return float(low), float(high)


def _limit(training: Counts, new: Counts) -> float:
    """The largest share outside in stretches of the training data and in deals of all episodes.

    A few training episodes far from the others decide how far outside is. Where the training data has
    none by chance, new ones are outside, so the share must be larger than in every deal.
    """
    sizes = len(training.rows), len(new.rows)
    both = Counts(*(np.concatenate(each) for each in zip(training, new, strict=True)))
    return float(max(both.shares(deals(*sizes)).max(), training.shares(stretches(*sizes)).max()))
