"""Groups of episodes that differ by chance, or as the training data differs from itself.

Rows of an episode are alike, so a test that counts rows would find a difference in any two logs. Here
whole episodes are exchanged instead, in two ways. All episodes are dealt out anew to two groups as large
as the training data and the new data. And stretches of successive training episodes are compared with
the rest of the training data: where a week differs from the year in the training data, a new week that
differs as much is no news.
"""

import numpy as np

DEALS = 499
"""Random deals of all episodes to two groups."""
STRETCHES = 100
"""Stretches of the training data, at most; they overlap."""
SURE = 0.99
"""Share of deals that stay below a limit. A comparison every week is then wrong about once in two years,
however many columns there are."""


def deals(training: int, new: int) -> np.ndarray:
    """(deal, episode), 0 or 1: which episodes are called new when all are dealt out anew.

    Training episodes come first.
    """
    called = np.zeros((DEALS, training + new), np.float32)
    called[:, :new] = 1.0
    return np.random.default_rng(0).permuted(called, axis=1)


def stretches(training: int, new: int, most: int = STRETCHES) -> np.ndarray:
    """(stretch, episode), 0 or 1: successive training episodes, as many as new ones or half of all."""
    length = min(new, training // 2)
    first = np.linspace(0, training - length, min(most, training - length + 1)).astype(np.int64)
    place = np.arange(training) - first[:, None]
    return ((place >= 0) & (place < length)).astype(np.float32)
