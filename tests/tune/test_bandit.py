"""Spending episodes on a few policies."""

from collections.abc import Callable

import numpy as np

from chary.tune.bandit import posterior, spend


def players(means: list[float], deviation: float, seed: int = 0) -> Callable[[int, int], float]:
    rng = np.random.default_rng(seed)
    return lambda policy, _number: means[policy] + deviation * rng.standard_normal()


def test_the_best_is_found_with_few_episodes_where_policies_differ_much() -> None:
    trial = spend(players([0.0, 10.0, 0.0], 0.5), [0.0, 0.0, 0.0], 60)
    assert trial.best == 1
    assert trial.probability >= 0.95
    assert trial.used < 30
    assert len(trial.returns[1]) >= len(trial.returns[0])


def test_all_episodes_are_spent_where_policies_are_equal() -> None:
    trial = spend(players([1.0, 1.0], 1.0), [0.0, 0.0], 30)
    assert trial.used == 30 or trial.probability >= 0.95


def test_the_score_decides_who_plays_first_and_between_equals() -> None:
    played: list[int] = []

    def play(policy: int, number: int) -> float:
        assert number == played.count(policy)
        played.append(policy)
        return 1.0

    trial = spend(play, [0.0, 2.0, 1.0], 3)
    assert played == [1, 2, 0]
    assert trial.best == 1


def test_on_average_the_choice_is_better_than_the_first_by_score() -> None:
    means = [0.2, 0.5, 0.8]
    chosen = [spend(players(means, 0.3, seed), [3.0, 2.0, 1.0], 24).best for seed in range(30)]
    assert np.mean([means[i] for i in chosen]) > 0.7  # the score alone would choose 0.2


def test_belief_is_between_prior_and_returns() -> None:
    mean, deviation = posterior([1.0, -1.0], [[4.0, 4.2, 3.8], [0.0]])
    assert 2.5 < mean[0] < 4.0
    assert mean[1] < 2.0
    assert deviation[0] < deviation[1]
