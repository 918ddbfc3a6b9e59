"""The pieces that losses are made of."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chary.networks.losses import (
    binary_weights,
    expectile_loss,
    exponential_weights,
    sampled_log_sum_exp,
    td_loss,
)
from chary.networks.policies import TanhGaussian, TanhMixture


def best(values: np.ndarray, expectile: float) -> float:
    """The number with the smallest expectile loss, where its slope changes sign."""

    @jax.jit
    def slope(number: Any) -> Any:
        return jax.grad(lambda n: expectile_loss(jnp.float32(values) - n, jnp.float32(expectile)))(
            number
        )

    low, high = values.min(), values.max()
    for _ in range(20):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(jnp.float32(middle)) < 0 else (low, middle)
    return float(low)


def test_an_expectile_is_the_mean_at_one_half_and_goes_to_the_largest_value() -> None:
    values = np.random.default_rng(0).standard_normal(50)
    assert best(values, 0.5) == pytest.approx(values.mean(), abs=1e-4)
    assert values.mean() < best(values, 0.8) < best(values, 0.99) < values.max()
    assert best(values, 0.9999) > values.max() - 0.1
    half = float(expectile_loss(jnp.asarray(values, jnp.float32), jnp.float32(0.5)))
    assert half == pytest.approx(0.5 * (values**2).mean(), rel=1e-5)


@pytest.mark.parametrize("scale", [0.5, 1.5])
def test_the_sampled_log_sum_exp_converges_to_the_integral(scale: float) -> None:
    """Whatever the actions are drawn from."""
    rng = np.random.default_rng(0)
    grid = np.linspace(-1.0, 1.0, 20_001)

    def q(actions: np.ndarray) -> np.ndarray:
        return 2.0 * np.sin(3.0 * actions) + actions

    true = np.log(np.trapezoid(np.exp(q(grid)), grid))
    errors = []
    for draws in (100, 100_000):
        uniform = rng.uniform(-1, 1, (draws, 1, 1))
        law = TanhGaussian(jnp.full((1, 1), 0.3), jnp.full((1, 1), scale))
        own, log_own = law.sample_and_log_prob(
            jnp.asarray(rng.standard_normal((draws, 1, 1)), jnp.float32)
        )
        values = q(np.concatenate([uniform, own])[..., 0]).astype(np.float32)
        densities = jnp.concatenate([jnp.full((draws, 1), np.log(0.5)), log_own])
        found = sampled_log_sum_exp(jnp.asarray(values), densities)
        errors.append(abs(float(found[0]) - true))
    assert errors[1] < 0.02 and errors[1] < errors[0]


def test_weights_are_limited_and_never_overflow() -> None:
    advantages = jnp.asarray([-1e9, -1.0, 0.0, 0.5, 1e9])
    weights = exponential_weights(advantages, jnp.float32(2.0), 20.0)
    np.testing.assert_allclose(weights, [0.0, np.exp(-2.0), 1.0, np.exp(1.0), 20.0], rtol=1e-5)
    assert binary_weights(advantages).tolist() == [0.0, 0.0, 0.0, 1.0, 1.0]


def test_the_td_loss_is_a_mean_over_heads_and_batch_and_weighs_each() -> None:
    heads = jnp.asarray([[[1.0, 2.0], [3.0, 4.0]]])
    target, weights = jnp.asarray([1.0, 0.0]), jnp.asarray([[[2.0, 0.5], [1.0, 0.25]]])
    assert float(td_loss(heads, target)[0]) == pytest.approx(0.125 * (0 + 4 + 4 + 16))
    weighed = td_loss(heads, jnp.asarray([[1.0, 0.0]]), weights)
    assert float(weighed[0]) == pytest.approx(0.125 * (0 + 2 + 4 + 4))


def test_a_mixture_is_a_density_and_samples_follow_it() -> None:
    rng = np.random.default_rng(0)
    parts = [jnp.asarray([x])[:, None] for x in ([0.0, 1.0], [-1.0, 0.8], [0.3, 0.2])]
    edges = np.linspace(-1.0, 1.0, 4001)
    middles = jnp.asarray(0.5 * (edges[1:] + edges[:-1]), jnp.float32)[:, None]
    many = TanhMixture(*(jnp.broadcast_to(p, (4000, 1, 2)) for p in parts))
    mass = np.exp(many.log_prob(middles)) * (edges[1] - edges[0])
    assert mass.sum() == pytest.approx(1.0, abs=1e-3)
    noise = jnp.asarray(rng.standard_normal((4000, 1)), jnp.float32)
    drawn = many.sample(noise, jnp.asarray(rng.gumbel(size=(4000, 1, 2)), jnp.float32))
    below = float((drawn < 0).mean())
    assert below == pytest.approx(float(mass[np.asarray(middles[:, 0]) < 0].sum()), abs=0.03)
    assert np.isfinite(many.log_prob(jnp.ones((4000, 1)))).all()
