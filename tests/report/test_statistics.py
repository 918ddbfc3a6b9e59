"""Estimators against SciPy, which rliable takes them from, and against counting by hand."""

from itertools import product

import numpy as np
import pytest
import scipy.stats

from chary.report import statistics
from chary.report.statistics import (
    Estimate,
    area_under_roc,
    bootstrap,
    bootstrap_each,
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
)


@pytest.fixture
def scores() -> np.ndarray:
    """Five seeds of three tasks."""
    return np.random.default_rng(1).normal([10.0, 50.0, 90.0], 8.0, (5, 3))


def test_interquartile_mean_is_the_trimmed_mean(scores: np.ndarray) -> None:
    found = interquartile_mean(list(scores.T))
    expected = scipy.stats.trim_mean(scores.ravel(), proportiontocut=0.25)
    assert found.mean == pytest.approx(float(expected))
    assert found.mean and found.low and found.high
    assert found.low < found.mean < found.high


def test_seeds_are_drawn_within_their_task(scores: np.ndarray) -> None:
    """Tasks are far apart: drawn over all of them, intervals would be several times as wide."""
    found = interquartile_mean(list(scores.T))
    assert found.low is not None and found.high is not None
    within = found.high - found.low
    pooled = bootstrap(scores.ravel().tolist())
    assert pooled.low is not None and pooled.high is not None
    assert within < 0.6 * (pooled.high - pooled.low)


def test_profile_is_the_share_of_runs_above(scores: np.ndarray) -> None:
    thresholds = np.array([-1e3, 50.0, 1e3])
    profile = performance_profile(list(scores.T), thresholds)
    assert [point.mean for point in profile] == pytest.approx(
        [(scores > threshold).mean() for threshold in thresholds]
    )
    assert profile[0] == (1.0, 1.0, 1.0) and profile[2] == (0.0, 0.0, 0.0)


def test_probability_of_improvement_counts_pairs(scores: np.ndarray) -> None:
    theirs = scores[:4] + np.array([-5.0, 0.0, 5.0])
    theirs[0] = scores[0]  # some ties
    by_hand = np.mean(
        [
            np.mean([(x > y) + 0.5 * (x == y) for x, y in product(scores[:, t], theirs[:, t])])
            for t in range(3)
        ]
    )
    found = probability_of_improvement(list(scores.T), list(theirs.T))
    assert found.mean == pytest.approx(by_hand)
    # Mann and Whitney's U is what rliable divides by the number of pairs.
    u = scipy.stats.mannwhitneyu(scores[:, 0], theirs[:, 0], alternative="greater").statistic
    one = probability_of_improvement([scores[:, 0]], [theirs[:, 0]])
    assert one.mean == pytest.approx(u / 20)
    back = probability_of_improvement(list(theirs.T), list(scores.T))
    assert back.mean == pytest.approx(1.0 - by_hand)


def test_single_runs_have_no_interval() -> None:
    assert interquartile_mean([np.array([3.0])]) == Estimate(3.0, None, None)
    assert probability_of_improvement([np.array([3.0])], [np.array([2.0])]) == (1.0, None, None)


def test_many_samples_get_what_each_gets_alone() -> None:
    samples = [[1.0, 2.0, 4.0], [5.0], [], [1e6 + 1, 1e6 + 2, 1e6 + 4], [0.0, 1.0]]
    together = bootstrap_each(samples)
    assert together == [bootstrap(sample) for sample in samples]
    assert together[1] == (5.0, None, None) and together[2] == (None, None, None)
    low = together[0].low
    assert low is not None and together[3].low == pytest.approx(1e6 + low)


def test_intervals_are_those_of_resampled_means() -> None:
    values = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
    rows = np.random.default_rng(0).integers(5, size=(statistics.RESAMPLES, 5))
    low, high = np.quantile(values[rows].mean(axis=1), (0.025, 0.975))
    assert bootstrap(values.tolist()) == pytest.approx((2.8, low, high))


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        # Means of two draws: 0, 1/2 and 1 with chances 1/4, 1/2 and 1/4.
        ([0.0, 1.0], 0.0, 1.0),
        # All three draws are the one with chance 1/27, which is more than 2.5%.
        ([0.0, 0.0, 1.0], 0.0, 1.0),
        # Four ones have chance 1/256; three or more have 13/256, which is more than 2.5%.
        ([0.0, 0.0, 0.0, 1.0], 0.0, 0.75),
        ([3.0, 3.0, 3.0], 3.0, 3.0),
    ],
)
def test_the_interval_is_what_counting_the_resamples_gives(
    values: list[float], low: float, high: float
) -> None:
    found = bootstrap(values)
    assert found == (pytest.approx(sum(values) / len(values)), low, high)
    assert bootstrap(values) == found


def test_one_value_has_no_interval_and_none_has_no_mean() -> None:
    assert bootstrap([0.7]) == (0.7, None, None)
    assert bootstrap([]) == (None, None, None)


def test_the_area_under_the_curve_counts_pairs() -> None:
    rng = np.random.default_rng(0)
    ones, others = rng.integers(0, 9, 40) / 3.0, rng.integers(2, 12, 25) / 3.0
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in others for b in ones]
    assert area_under_roc(others, ones) == pytest.approx(np.mean(pairs))
    assert area_under_roc(np.array([2.0, 3.0]), np.array([0.0, 1.0])) == 1.0
