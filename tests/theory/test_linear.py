"""Theorem 3.1 against literal regression, and the paper's count."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chary.errors import CharyError
from chary.theory.linear import (
    LinearConfig,
    Transitions,
    contraction,
    draw_transitions,
    exact_members,
    iterate,
    similarity,
    simulate,
    summarise,
    theorem,
)

SMALL = LinearConfig(state_size=4, action_size=4, episodes=2, length=3)


def regress(
    data: Transitions, weights: np.ndarray, discount: float, shared: bool, iterations: int = 400
) -> np.ndarray:
    """The lower confidence bound of members that were regressed."""
    values = regress_members(data, weights, discount, shared, iterations)
    return values.mean(axis=0) - values.std(axis=0)


def regress_members(
    data: Transitions, weights: np.ndarray, discount: float, shared: bool, iterations: int
) -> np.ndarray:
    """Fit every member to its targets, by least squares from where it began, again and again."""
    x, rewards, next_x = data
    fitted = weights
    for _ in range(iterations):
        next_values = fitted @ next_x.T
        if shared:
            next_values = np.tile(next_values.mean(0) - next_values.std(0), (len(weights), 1))
        missing = rewards + discount * next_values - weights @ x.T
        fitted = weights + np.linalg.lstsq(x, missing.T)[0].T
    return fitted @ next_x.T


def contracting(config: LinearConfig) -> Transitions:
    """The first dataset in which policy evaluation contracts."""
    for seed in range(100):
        data = draw_transitions(config, np.random.default_rng(seed))
        if contraction(data, config.discount) < 0.95:
            return data
    raise AssertionError("none contracts")


@pytest.mark.parametrize("shared", [False, True])
def test_the_closed_forms_are_what_literal_regression_ends_in(shared: bool) -> None:
    data = contracting(SMALL)
    bounds = theorem(data, SMALL.discount, SMALL.exponent)
    expected = bounds.value - (bounds.shared if shared else bounds.independent)
    found = regress(data, exact_members(8), SMALL.discount, shared)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("shared", [False, True])
def test_a_few_iterations_are_a_few_regressions(shared: bool) -> None:
    """Before anything has converged, for members that were drawn."""
    data = contracting(SMALL)
    members = np.random.default_rng(1).standard_normal((5, 8))
    found = iterate(data, members, SMALL.discount, 3, shared=shared)
    expected = regress_members(data, members, SMALL.discount, shared, 3)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_exact_members_have_the_moments_of_the_normal_distribution() -> None:
    members = exact_members(7)
    np.testing.assert_allclose(members.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(members.T @ members / len(members), np.eye(7), atol=1e-12)


def test_the_geometric_sum_ends_with_its_exponent() -> None:
    data = contracting(SMALL)
    step = SMALL.discount * similarity(data)
    backups = np.eye(6) + step + step @ step
    expected = backups @ similarity(data) @ data.rewards
    np.testing.assert_allclose(theorem(data, SMALL.discount, 2).value, expected)


def test_runs_together_are_runs_one_by_one() -> None:
    one, two = (draw_transitions(SMALL, np.random.default_rng(seed)) for seed in (0, 1))
    together = theorem(Transitions(*map(np.stack, zip(one, two, strict=True))), 0.3, 50)
    for row, data in enumerate((one, two)):
        for found, expected in zip(together, theorem(data, 0.3, 50), strict=True):
            np.testing.assert_allclose(found[row], expected)
    few, more = (simulate(replace(SMALL, runs=runs, discount=0.1)) for runs in (3, 5))
    np.testing.assert_array_equal(few.contraction, more.contraction[:3])


def test_states_follow_each_other_and_the_policy_repeats_the_action() -> None:
    x, _, next_x = draw_transitions(SMALL, np.random.default_rng(0))
    np.testing.assert_array_equal(next_x[:, 4:], x[:, 4:])
    np.testing.assert_array_equal(next_x[0, :4], x[1, :4])
    assert (next_x[2, :4] != x[3, :4]).all()  # the second episode begins anew


@pytest.mark.parametrize("members", [2, 16])
def test_the_bound_of_few_members_is_never_above_their_own_mean(members: int) -> None:
    """The exact value is another matter: the mean of few drawn members may lie anywhere around it."""
    config = LinearConfig(runs=200, members=members)
    result = simulate(config)
    assert summarise(config, result)["independent_optimistic"] == 0
    assert (result.sampled_independent < 0.0).all()


def test_a_sampled_bonus_is_the_bound_above_the_same_members_mean_without_pessimism() -> None:
    """Against literal regression of the members that the first run that contracts has drawn."""
    config = replace(SMALL, runs=20, members=4)
    result = simulate(config)
    run = int((result.contraction < 1.0).argmax())
    rng = np.random.default_rng([config.seed, run])
    data = draw_transitions(config, rng)
    members = rng.standard_normal((4, 8))
    independent, shared = (
        regress_members(data, members, config.discount, shared, 1001) for shared in (False, True)
    )
    own_mean = independent.mean(axis=0)
    found = result.sampled_independent[0], result.sampled_shared[0]
    np.testing.assert_allclose(found[0], -independent.std(axis=0), atol=1e-6)
    expected = shared.mean(axis=0) - shared.std(axis=0) - own_mean
    np.testing.assert_allclose(found[1], expected, atol=1e-6)


@pytest.mark.long
def test_the_papers_count() -> None:
    """221 of 1000 runs; that independent targets are never optimistic is seen in sampled members."""
    config = LinearConfig(members=64)
    result = simulate(config)
    found = summarise(config, result)
    assert found["runs"] == 1000
    assert 880 <= found["kept"] <= 950
    assert abs(found["shared_optimistic"] - 221) <= 40
    assert found["independent_optimistic"] == 0
    assert found["formula_error_shared"] < 1e-6
    assert found["formula_error_independent"] < 1e-6
    # Monte-Carlo error of the deviation of n members: std / sqrt(2 n).
    chance = np.sqrt(0.5 / config.members)
    assert 0.8 * chance < found["sampling_error_independent"] < 1.2 * chance
    assert found["sampling_error_shared"] < 2.0 * chance


def test_runs_that_all_diverge_are_refused() -> None:
    with pytest.raises(CharyError, match=r"--discount 0.99: in none of the runs"):
        simulate(LinearConfig(runs=5, discount=0.99))


def test_the_worked_example_of_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "theory.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    bounds = names["bounds"]
    np.testing.assert_allclose(bounds.shared, [2.0, -0.5])
    np.testing.assert_allclose(bounds.independent, [2.0, 3.25**0.5])
    np.testing.assert_allclose(contraction(names["data"], 0.5), 0.75)
    shown = re.findall(r"^# (\w+) +\[(.*)\]$", code, flags=re.MULTILINE)
    assert len(shown) == 2
    for name, numbers in shown:
        np.testing.assert_allclose(
            [float(n) for n in numbers.split(",")], getattr(bounds, name), atol=0.005
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"episodes": 13}, "13 times --length 5 are more transitions than the 60 weights"),
        ({"discount": 1.0}, "--discount is 1.0, but must be at least 0 and below 1"),
        ({"state_size": 0}, "--state-size is 0, but must be at least 1"),
        ({"members": 1}, "--members is 1, but must be at least 2"),
    ],
)
def test_settings_without_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CharyError, match=re.escape(message)):
        LinearConfig(**changes)
