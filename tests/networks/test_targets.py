"""Targets and the lower confidence bound."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chary.networks.targets import (
    TARGETS,
    deviations,
    expected_minimum,
    independent,
    independent_double,
    lower_confidence_bound,
    mean_and_std,
    smallest,
)


def test_the_bound_is_mean_plus_beta_times_population_std() -> None:
    values = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    bound = lower_confidence_bound(jnp.asarray(values), -3.0)
    np.testing.assert_allclose(bound, values.mean(0) - 3.0 * values.std(0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("targets", "expected"), [("independent", -4.0), ("shared-mean", 0.0)])
def test_the_mean_is_no_deviation_below_itself(targets: str, expected: float) -> None:
    assert deviations(TARGETS[targets].objective, -4.0, 8) == expected


@pytest.mark.parametrize("members", [1, 2, 3, 10, 100])
def test_the_minimum_lies_as_far_below_the_mean_as_that_of_normal_draws(members: int) -> None:
    draws = np.random.default_rng(0).standard_normal((40_000, members))
    found = deviations(TARGETS["shared-min"].objective, -4.0, members)
    assert found == expected_minimum(members)
    below = (draws.min(axis=1) - draws.mean(axis=1)).mean()
    assert found * draws.std(axis=1).mean() == pytest.approx(below, abs=0.02)
    if members == 2:  # whatever is drawn
        assert found == pytest.approx(-1.0, abs=1e-6)


def test_more_pessimism_means_a_lower_bound() -> None:
    values = jnp.asarray(np.random.default_rng(0).standard_normal((5, 7)), jnp.float32)
    assert bool((lower_confidence_bound(values, -8.0) < lower_confidence_bound(values, -4.0)).all())


@pytest.mark.parametrize("members", [1, 2, 64])
def test_the_gradient_is_finite_where_the_square_roots_own_is_not(members: int) -> None:
    values = jnp.full((members, 3), 1.5)
    gradient = jax.grad(lambda v: lower_confidence_bound(v, -4.0).sum())(values)
    np.testing.assert_allclose(gradient, 1.0 / members, rtol=1e-6)
    plain = jax.grad(lambda v: jnp.sqrt(v.var(axis=0)).sum())(values)
    assert not np.isfinite(plain).all()


def test_the_gradient_of_the_std_is_that_of_plain_numpy() -> None:
    values = np.random.default_rng(1).standard_normal((4, 2))
    gradient = jax.grad(lambda v: mean_and_std(v)[1].sum())(jnp.asarray(values, jnp.float32))
    by_hand = (values - values.mean(0)) / (len(values) * values.std(0))
    np.testing.assert_allclose(gradient, by_hand, rtol=1e-5, atol=1e-6)


def test_independent_targets_are_each_members_own() -> None:
    heads = jnp.arange(6.0).reshape(3, 1, 2)
    assert np.array_equal(independent(heads, -1.0), heads[:, 0])


def test_double_q_takes_the_smaller_of_a_members_own_two() -> None:
    heads = jnp.asarray([[[1.0, 5.0], [2.0, 4.0]], [[-1.0, 0.0], [-2.0, 9.0]]])
    assert np.array_equal(independent_double(heads, -1.0), [[1.0, 4.0], [-2.0, 0.0]])


SHARED = {
    "shared-mean": (lambda q: q.mean(axis=0), lambda q: q.mean(axis=0)),
    "shared-lcb": (
        lambda q: q.mean(axis=0) - 1.5 * q.std(axis=0),
        lambda q: q.mean(axis=0) - 4.0 * q.std(axis=0),
    ),
    "shared-min": (lambda q: q.min(axis=0), lambda q: q.min(axis=0)),
}


def test_the_smallest_is_the_minimum_and_its_gradient_goes_to_one_place() -> None:
    values = np.random.default_rng(4).standard_normal((3, 4, 5)).astype(np.float32)
    values[1, 2] = values[1, 0]  # ties too have one winner
    for axis in range(3):
        found, gradient = jax.value_and_grad(lambda v, a=axis: smallest(v, axis=a).sum())(
            jnp.asarray(values)
        )
        assert float(found) == pytest.approx(float(values.min(axis=axis).sum()), rel=1e-6)
        assert set(np.unique(gradient)) == {0.0, 1.0}
        assert (np.asarray(gradient).sum(axis=axis) == 1.0).all()
    np.testing.assert_array_equal(smallest(jnp.asarray(values[:1]), axis=0), values[0])


@pytest.mark.parametrize("name", SHARED)
def test_shared_targets_and_their_objectives_are_those_of_plain_numpy(name: str) -> None:
    values = np.random.default_rng(2).standard_normal((4, 1, 9)).astype(np.float32)
    rule, (backup, objective) = TARGETS[name], SHARED[name]
    found = np.asarray(rule.backup(jnp.asarray(values), -1.5))
    expected = np.tile(backup(values[:, 0]), (4, 1))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    climbed = rule.objective(jnp.asarray(values[:, 0]), -4.0)
    np.testing.assert_allclose(climbed, objective(values[:, 0]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", TARGETS)
def test_only_shared_rules_give_every_member_the_same_target(name: str) -> None:
    rule = TARGETS[name]
    values = np.random.default_rng(3).standard_normal((4, rule.heads, 9)).astype(np.float32)
    found = np.asarray(rule.backup(jnp.asarray(values), -2.0))
    assert found.shape == (4, 9)
    assert bool((found == found[:1]).all()) == rule.shared == name.startswith("shared-")


def test_only_double_q_has_two_heads() -> None:
    assert [name for name, rule in TARGETS.items() if rule.heads == 2] == ["double-q"]
    assert {rule.heads for rule in TARGETS.values()} == {1, 2}


def test_the_policy_climbs_the_bound_except_with_shared_means_and_minima() -> None:
    plain = {name for name, r in TARGETS.items() if r.objective is not lower_confidence_bound}
    assert plain == {"shared-mean", "shared-min"}
