"""What is looked at of a dataset: whole episodes, and rows spread evenly over them."""

from typing import NamedTuple

import numpy as np

from chary.data.dataset import Dataset

EPISODES, ROWS = 5_000, 200_000
"""Episodes and rows of each dataset that columns are compared by, at most, evenly spread."""


class Sample(NamedTuple):
    """Episodes of a dataset and some of their rows. An episode is a walk (`Dataset.walk_ends`)."""

    dataset: Dataset
    starts: np.ndarray
    """(episode,): first row of each."""
    lengths: np.ndarray
    """(episode,): rows of each."""
    rows: np.ndarray
    """(row,): numbers of the rows that are looked at."""
    episode: np.ndarray
    """(row,): to which of these episodes each belongs."""

    @classmethod
    def of(cls, dataset: Dataset) -> "Sample":
        """All episodes and rows, or as many as the limits allow."""
        ends = dataset.walk_ends
        lengths = np.diff(ends, prepend=-1)
        count = min(len(ends), EPISODES)
        taken = np.arange(count) * len(ends) // count
        starts, lengths = (ends - lengths + 1)[taken], lengths[taken]
        whole = cls(dataset, starts, lengths, np.zeros(0, np.int64), np.zeros(0, np.int64))
        rows, episode = whole.spread(np.arange(count), ROWS)
        return whole._replace(rows=rows, episode=episode)

    @property
    def episodes(self) -> int:
        return len(self.starts)

    @property
    def returns(self) -> np.ndarray:
        """(episode,): sum of the logged rewards of each."""
        ends = self.dataset.walk_ends
        rewards = self.dataset.rewards.astype(np.float64)
        sums = np.add.reduceat(rewards, np.concatenate([[0], ends[:-1] + 1]))
        return sums[np.searchsorted(ends, self.starts)]

    def spread(self, episodes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """At most `count` rows of some episodes, and which of them each row belongs to.

        One row is drawn from each of `count` equal stretches. With rows at equal distances, episodes of
        equal length would be seen at the same few moments.
        """
        lengths = self.lengths[episodes]
        total = int(lengths.sum())
        places = np.arange(total)
        if total > count:
            drawn = np.arange(count) + np.random.default_rng(0).random(count)
            places = np.minimum((drawn * (total / count)).astype(np.int64), total - 1)
        before = np.cumsum(lengths) - lengths
        which = np.searchsorted(before, places, side="right") - 1
        return self.starts[episodes][which] + places - before[which], which
