"""The analytic kernels against drawn networks, and closed forms against doing it step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, PRNGKeyArray
from scipy.special import erf

from chary.errors import CharyError
from chary.theory import kernels, mdp
from chary.theory.erf_networks import PARAMETERISATIONS, init_network, predict
from chary.theory.kernels import Kernels
from chary.theory.mdp import Chain
from chary.theory.width_config import WidthConfig

INFINITE = Kernels(weight_std=1.5, bias_std=0.5)
POINTS = np.array([[-1.0, 0.1], [-0.2, 0.3], [0.4, -0.1], [1.0, 0.1]])


@pytest.fixture
def data() -> Chain:
    return mdp.collect(2, 20, 0)


def test_the_kernels_are_averages_over_drawn_units() -> None:
    rng = np.random.default_rng(0)
    units = 400_000
    weight, bias = rng.standard_normal((2, units)), rng.standard_normal(units)
    before = 1.5 / 2**0.5 * POINTS @ weight + 0.5 * bias
    values, slopes = erf(before), 2 / np.pi**0.5 * np.exp(-(before**2))
    nngp = 1.5**2 * values @ values.T / units + 0.5**2
    covariance = 1.5**2 / 2 * POINTS @ POINTS.T + 0.5**2
    ntk = nngp + 1.5**2 * covariance * (slopes @ slopes.T / units)
    np.testing.assert_allclose(INFINITE.nngp(POINTS, POINTS), nngp, atol=0.01)
    np.testing.assert_allclose(INFINITE.ntk(POINTS, POINTS), ntk, atol=0.01)


@pytest.mark.parametrize("parameterisation", PARAMETERISATIONS)
def test_wide_networks_begin_with_the_analytic_tangent_kernel(parameterisation: str) -> None:
    config = WidthConfig(weight_std=1.5, bias_std=0.5)
    init = jax.jit(lambda key: init_network(20_000, parameterisation, key=key))
    network = init(jax.random.key(0))
    points = jnp.asarray(POINTS, jnp.float32)
    gradients = jax.jit(jax.jacobian(lambda n: predict(n, points, config, parameterisation)))(
        network
    )
    flat = np.concatenate([np.asarray(g).reshape(len(POINTS), -1) for g in gradients], axis=1)
    np.testing.assert_allclose(flat @ flat.T, INFINITE.ntk(POINTS, POINTS), atol=0.06)


def test_the_initial_function_has_the_analytic_covariance() -> None:
    config = WidthConfig(weight_std=1.5, bias_std=0.5)
    keys = jax.random.split(jax.random.key(0), 4_000)
    points = jnp.asarray(POINTS, jnp.float32)

    @jax.jit
    @jax.vmap
    def draw(key: PRNGKeyArray) -> Array:
        return predict(init_network(64, "ntk", key=key), points, config, "ntk")

    found = np.cov(np.asarray(draw(keys)).T)
    np.testing.assert_allclose(found, INFINITE.nngp(POINTS, POINTS), atol=0.12)


def test_eigendecomposed_descent_is_descent_step_by_step(data: Chain) -> None:
    """For functions that begin anywhere, not only at zero."""
    rng = np.random.default_rng(0)
    starts = [rng.standard_normal((3, n)) for n in (len(POINTS), len(data.x), len(data.x))]
    theta = INFINITE.tangents(data, POINTS)
    descent = kernels.descend(theta, discount=0.9, learning_rate=0.7, steps=7, iterations=5)
    at_points, at_x, at_next = starts
    everywhere = INFINITE.ntk(np.concatenate([POINTS, data.x, data.next_x]), data.x)
    values = np.concatenate(starts, axis=1)
    parts = np.cumsum([len(POINTS), len(data.x)])
    for _ in range(5):
        targets = data.rewards + 0.9 * np.split(values, parts, axis=1)[2]
        for _ in range(7):
            error = targets - np.split(values, parts, axis=1)[1]
            values = values + 0.7 / len(data.x) * error @ everywhere.T
    found = descent.apply(data, at_points, at_x, at_next)
    np.testing.assert_allclose(found, values[:, : len(POINTS)], atol=1e-9)


def test_complete_fits_are_the_theorem(data: Chain) -> None:
    """Q(X') after t + 1 iterations is G (Q0(X') + C R - C Q0(X)) + (gamma C)^(t + 1) Q0(X')."""
    rng = np.random.default_rng(0)
    at_x, at_next = rng.standard_normal((2, len(data.x)))
    ridge, discount, exponent = 1e-2, 0.5, 6
    theta = INFINITE.tangents(data, data.next_x)
    evaluation = kernels.solve(theta, discount=discount, ridge=ridge, iterations=exponent + 1)
    gram = INFINITE.ntk(data.x, data.x) + ridge * np.eye(len(data.x))
    c = INFINITE.ntk(data.next_x, data.x) @ np.linalg.inv(gram)
    powers = [np.linalg.matrix_power(discount * c, k) for k in range(exponent + 2)]
    once = at_next + c @ data.rewards - c @ at_x
    expected = sum(powers[:-1], np.zeros_like(c)) @ once + powers[-1] @ at_next
    np.testing.assert_allclose(evaluation.apply(data, at_next, at_x, at_next), expected, atol=1e-6)


def test_moments_are_those_of_sampled_members(data: Chain) -> None:
    theta = INFINITE.tangents(data, POINTS)
    descent = kernels.descend(theta, discount=0.8, learning_rate=1.0, steps=20, iterations=10)
    joined = np.concatenate([POINTS, data.x, data.next_x])
    values, basis = np.linalg.eigh(INFINITE.nngp(joined, joined))
    draws = np.random.default_rng(0).standard_normal((4_000, len(joined)))
    starts = draws * np.sqrt(np.maximum(values, 0.0)) @ basis.T
    parts = np.cumsum([len(POINTS), len(data.x)])
    members = descent.apply(data, *np.split(starts, parts, axis=1))
    mean, std = descent.moments(INFINITE, data, POINTS)
    np.testing.assert_allclose(members.mean(axis=0), mean, atol=5 * std.max() / 4_000**0.5)
    np.testing.assert_allclose(members.std(axis=0), std, rtol=0.05)


@pytest.mark.parametrize("exponent", [0, 1, 2, 7, 20])
def test_the_affine_power_is_a_loop(exponent: int) -> None:
    rng = np.random.default_rng(0)
    matrix, constant = rng.standard_normal((2, 4, 4)) / 3
    expected = np.zeros((4, 4))
    for _ in range(exponent):
        expected = matrix @ expected + constant
    np.testing.assert_allclose(
        kernels.affine_power(matrix, constant, exponent), expected, atol=1e-9
    )


def test_a_rate_that_diverges_is_refused(data: Chain) -> None:
    with pytest.raises(CharyError, match="--learning-rate 3 is too large"):
        kernels.descend(
            INFINITE.tangents(data, POINTS),
            discount=0.9,
            learning_rate=3.0,
            steps=10,
            iterations=10,
        )
