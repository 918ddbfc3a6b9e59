"""The tanh-Gaussian: a proper density, tails included."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chary.networks.policies import TAIL, Policy, TanhGaussian


def law(loc: float, scale: float, size: int = 1) -> TanhGaussian:
    return TanhGaussian(jnp.full((size, 1), loc), jnp.full((size, 1), scale))


@pytest.mark.parametrize(("loc", "scale"), [(0.0, 1.0), (2.5, 0.4), (-1.0, 3.0)])
def test_the_density_integrates_to_one_with_its_tails(loc: float, scale: float) -> None:
    edges = np.linspace(-1.0, 1.0, 200_001)
    middles = (0.5 * (edges[1:] + edges[:-1])).astype(np.float32)
    density = np.exp(law(loc, scale, len(middles)).log_prob(jnp.asarray(middles)[:, None]))
    assert density.sum() * (edges[1] - edges[0]) == pytest.approx(1.0, abs=5e-3)


@pytest.mark.parametrize("action", [-1.0, 1.0, 0.9995])
def test_clipped_actions_have_a_finite_likelihood_and_gradient(action: float) -> None:
    def likelihood(loc: jax.Array) -> jax.Array:
        return TanhGaussian(loc, jnp.full((1, 1), 0.01)).log_prob(jnp.full((1, 1), action)).sum()

    for loc in (-8.0, 0.0, 8.0):
        value, gradient = jax.value_and_grad(likelihood)(jnp.full((1, 1), loc))
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()


def test_the_tail_is_likelier_the_nearer_the_mean_is_to_it() -> None:
    at_the_bound = jnp.ones((1, 1))
    near, far = law(3.0, 0.5).log_prob(at_the_bound), law(0.0, 0.5).log_prob(at_the_bound)
    assert near > far


def test_a_sample_and_its_log_prob_agree_with_log_prob() -> None:
    noise = jax.random.normal(jax.random.key(0), (500, 1))
    actions, log_prob = law(0.3, 0.7, 500).sample_and_log_prob(noise)
    inside = np.abs(np.asarray(actions))[:, 0] < TAIL
    again = law(0.3, 0.7, 500).log_prob(actions)
    assert inside.sum() > 400
    np.testing.assert_allclose(log_prob[inside], again[inside], rtol=1e-3, atol=1e-3)


def test_log_prob_of_samples_is_finite_however_far_the_noise_reaches() -> None:
    _, log_prob = law(0.0, 1.0, 1).sample_and_log_prob(jnp.full((1, 1), 40.0))
    assert np.isfinite(log_prob).all()


def test_the_mode_is_what_the_policy_does_without_a_key() -> None:
    policy = Policy.init(3, 2, (8,), key=jax.random.key(0))
    observations = jnp.ones((4, 3))
    assert np.array_equal(policy.act(observations), policy(observations).mode)
    one, other = (policy.act(observations, key=jax.random.key(k)) for k in (0, 1))
    assert not np.array_equal(one, other)
    assert np.abs(np.asarray(one)).max() <= 1.0


def test_the_scale_never_falls_below_a_hundredth() -> None:
    policy = Policy.init(3, 2, (8,), key=jax.random.key(0))
    far = jax.tree.map(lambda x: x - 100.0, policy)
    assert float(far(jnp.ones((1, 3))).scale.min()) >= 0.00999
