"""How sure numbers over a few seeds are.

Interquartile mean, performance profile and probability of improvement are those of Agarwal et al. 2021
(Deep Reinforcement Learning at the Edge of the Statistical Precipice) with its stratified bootstrap:
seeds are drawn again within each task. Draws are always the same ones, so that equal scores give equal
intervals. With three seeds an interval can say no more than about how far apart they are.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

RESAMPLES = 10_000
FEWER = 2_000
"""Resamples for what is computed at many places at once."""
LEVEL = 0.95
TAILS = ((1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0)

Tasks = Sequence[np.ndarray]
"""The scores of a method: for every task one of each seed, of which there need not be as many."""


def worst_possible(
    measure: str, seen: Iterable[float], smallest_return: float | None = None
) -> float | None:
    """What a run that diverged counts as: no run that it is compared with does worse.

    A success of 0. A normalised score of 0, which is a random policy's, or the smallest score `seen` in
    the runs that are compared, where that is lower. The smallest return seen, or of an episode in the
    data. None where nothing says what is bad, as for the length of episodes.
    """
    if measure == "success":
        return 0.0
    if measure == "score":
        return min([0.0, *seen])
    if measure != "return":
        return None
    known = [*seen] if smallest_return is None else [smallest_return, *seen]
    return min(known, default=None)


def area_under_roc(positives: np.ndarray, negatives: np.ndarray) -> float:
    """How well a number tells two kinds apart: the share of pairs in which the positive has the larger
    one, with half of those that are equal (Mann and Whitney 1947). 1 is without error, 0.5 is chance."""
    ordered = np.sort(negatives)
    below = np.searchsorted(ordered, positives, side="left")
    up_to = np.searchsorted(ordered, positives, side="right")
    return float((below + up_to).mean() / (2 * len(ordered)))


class Estimate(NamedTuple):
    """A mean of some kind and its interval, which needs two values at least."""

    mean: float | None
    low: float | None
    high: float | None


def bootstrap(values: Sequence[float]) -> Estimate:
    """The mean with its percentile bootstrap interval (Efron 1979)."""
    return bootstrap_each([values])[0]


def bootstrap_each(samples: Sequence[Sequence[float]]) -> list[Estimate]:
    """The mean and interval of every sample, those of one size together."""
    estimates = [Estimate(None, None, None)] * len(samples)
    known = [not np.isnan(np.asarray(sample, np.float64)).any() for sample in samples]
    for size in {len(sample) for sample in samples} - {0}:
        places = [i for i, sample in enumerate(samples) if len(sample) == size and known[i]]
        if not places:
            continue
        array = np.array([samples[i] for i in places], np.float64)
        means = array.mean(axis=1)
        if size == 1:
            low = high = [None] * len(places)
        else:
            # Around the mean, so that a mean of large numbers keeps its last digits.
            moved = (array - means[:, None]) @ _weights(size).T
            low, high = (means + np.quantile(moved, TAILS, axis=1)).tolist()
        for place, *numbers in zip(places, means.tolist(), low, high, strict=True):
            estimates[place] = Estimate(*numbers)
    return estimates


@lru_cache(maxsize=32)
def _weights(size: int) -> np.ndarray:
    """How much every value counts in each resample: (resample, value)."""
    rows = np.random.default_rng(0).integers(size, size=(RESAMPLES, size))
    counts = np.zeros((RESAMPLES, size))
    np.add.at(counts, (np.arange(RESAMPLES)[:, None], rows), 1.0 / size)
    return counts


def interquartile_mean(tasks: Tasks) -> Estimate:
    """The mean of the middle half of all runs of all tasks (a quarter is cut off at either end)."""

    def middle(scores: np.ndarray) -> np.ndarray:
        cut = scores.shape[1] // 4
        return np.sort(scores, axis=1)[:, cut : scores.shape[1] - cut].mean(axis=1)

    return _stratified(lambda drawn: middle(np.concatenate(drawn, axis=1)), [tasks], RESAMPLES)


def performance_profile(tasks: Tasks, thresholds: np.ndarray) -> list[Estimate]:
    """For each threshold, the share of runs that score higher; tasks count alike."""

    def share_above(threshold: float) -> Estimate:
        def share(drawn: Sequence[np.ndarray]) -> np.ndarray:
            return np.mean([(scores > threshold).mean(axis=1) for scores in drawn], axis=0)

        return _stratified(share, [tasks], FEWER)

    return [share_above(threshold) for threshold in thresholds.tolist()]


def probability_of_improvement(ours: Tasks, theirs: Tasks) -> Estimate:
    """How likely a run of ours beats one of theirs on the same task; ties count half."""

    def wins(drawn: Sequence[np.ndarray]) -> np.ndarray:
        pairs = zip(drawn[: len(ours)], drawn[len(ours) :], strict=True)
        differences = (np.sign(x[:, :, None] - y[:, None, :]) for x, y in pairs)
        return np.mean([(0.5 + 0.5 * d).mean(axis=(1, 2)) for d in differences], axis=0)

    return _stratified(wins, [ours, theirs], FEWER)


def _stratified(
    statistic: Callable[[Sequence[np.ndarray]], np.ndarray], groups: Sequence[Tasks], resamples: int
) -> Estimate:
    """A statistic of arrays (resample, seed), one for every task, and its interval."""
    tasks = [np.asarray(task, np.float64) for group in groups for task in group]
    if any(
        np.isnan(task).any() for task in tasks
    ):  # compared with NaN, everything would count as less
        return Estimate(None, None, None)
    (mean,) = statistic([task[None] for task in tasks])
    if all(len(task) < 2 for task in tasks):
        return Estimate(float(mean), None, None)
    rng = np.random.default_rng(0)
    drawn = [task[rng.integers(len(task), size=(resamples, len(task)))] for task in tasks]
    low, high = np.quantile(statistic(drawn), TAILS)
    return Estimate(float(mean), float(low), float(high))
