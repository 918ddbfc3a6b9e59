"""The nearest of many states, by brute force and piece by piece."""

import numpy as np

PIECE = 128
"""States that are compared with all others at a time."""


def nearest(states: np.ndarray, asked: np.ndarray, count: int) -> np.ndarray:
    """(asked, neighbour): rows of the `count` nearest states, in no order."""
    count = min(count, len(states))
    lengths = (states**2).sum(axis=1)
    near = np.empty((len(asked), count), np.int64)
    for start in range(0, len(asked), PIECE):
        piece = asked[start : start + PIECE]
        squared = lengths - 2.0 * piece @ states.T  # but for what is the same for all
        near[start : start + PIECE] = np.argpartition(squared, count - 1, axis=1)[:, :count]
    return near


def distances(states: np.ndarray, asked: np.ndarray, count: int) -> np.ndarray:
    """(asked,): mean distance to the `count` nearest states."""
    near = nearest(states, asked, count)
    found = np.empty(len(asked))
    for start in range(0, len(asked), PIECE):
        piece = slice(start, start + PIECE)
        apart = states[near[piece]] - asked[piece, None]
        found[piece] = np.linalg.norm(apart, axis=-1).mean(axis=1)
    return found
