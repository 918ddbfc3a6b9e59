"""Runs side by side as one program, against the same runs one after another."""

from statistics import median
from typing import Any

from chary.bench import timing
from chary.bench.timing import LARGE, SMALL, Case

CASES = [Case(8, SMALL, 0.1, samples="shared"), Case(4, LARGE, 0.1, samples="shared")]
WINDOW_SECONDS = 2.0
WINDOWS = 5


def time_populations(cases: list[Case], runs: int) -> list[dict[str, Any]]:
    """A row for every case, each in a process of its own."""
    return [timing.alone(time_population, case, runs) for case in cases]


def time_population(case: Case, runs: int) -> dict[str, Any]:
    """Updates a second of all runs together, in windows that alternate between the two ways.

    One run stands for each of those that are trained one after another: what they share, they share
    in time. Compilation is counted in neither.
    """
    algorithm, dataset = timing.algorithm_of(case), timing.random_dataset()
    one, together = (
        timing.stepper(algorithm, timing.feed_of(algorithm, dataset, count), count)
        for count in (1, runs)
    )
    for advance in (one, together):
        advance(1)  # compiles
    seconds = min(one(2), one(2))
    steps = max(2, round(WINDOW_SECONDS / seconds / (1 + runs)))
    alternating = [(runs * one(steps), together(steps)) for _ in range(WINDOWS)]
    return {
        "members": case.members,
        "hidden": list(case.hidden),
        "alpha": case.alpha,
        "runs": runs,
        "after_one_another": runs / median(apart for apart, _ in alternating),
        "side_by_side": runs / median(beside for _, beside in alternating),
        "ratio": median(apart / beside for apart, beside in alternating),
    }
