"""Targets and the lower confidence bound."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chary.targets import (
    TARGETS,
    independent,
    independent_double,
    lower_confidence_bound,
    mean_and_std,
)


def test_the_bound_is_mean_plus_beta_times_population_std() -> None:
    values = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    bound = lower_confidence_bound(jnp.asarray(values), -3.0)
    np.testing.assert_allclose(bound, values.mean(0) - 3.0 * values.std(0), rtol=1e-5, atol=1e-6)


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
    assert np.array_equal(independent(heads), heads[:, 0])


def test_double_q_takes_the_smaller_of_a_members_own_two() -> None:
    heads = jnp.asarray([[[1.0, 5.0], [2.0, 4.0]], [[-1.0, 0.0], [-2.0, 9.0]]])
    assert np.array_equal(independent_double(heads), [[1.0, 4.0], [-2.0, 0.0]])


def test_only_double_q_has_two_heads() -> None:
    assert {name: rule.heads for name, rule in TARGETS.items()} == {"independent": 1, "double-q": 2}
