"""How sure a mean over a few seeds is."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 10_000
LEVEL = 0.95


class Estimate(NamedTuple):
    """A mean and its interval, which needs two values at least."""

    mean: float | None
    low: float | None
    high: float | None


def bootstrap(values: Sequence[float]) -> Estimate:
    """The mean with its percentile bootstrap interval (Efron 1979).

    The draws are always the same ones, so that equal values give equal intervals. With three values
    the interval can say no more than about how far apart they are.
    """
    if not values:
        return Estimate(None, None, None)
    array = np.asarray(values, np.float64)
    mean = float(array.mean())
    if len(array) < 2:
        return Estimate(mean, None, None)
    rows = np.random.default_rng(0).integers(len(array), size=(RESAMPLES, len(array)))
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(array[rows].mean(axis=1), (tail, 1.0 - tail))
    return Estimate(mean, float(low), float(high))
