"""TD3+BC and ReBRAC against plain NumPy, and what the delay does."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chary import algos
from chary.networks.losses import normalised
from tests.algos.double import (
    ACTION,
    GAMMA,
    KEY,
    OBSERVATION,
    SIZE,
    check,
    check_gradient,
    critics,
    double,
    make_batch,
    mlp,
    one_step,
    td,
)

# Noise so large that its own limit and that of actions are reached.
OWN: dict[str, dict[str, Any]] = {
    "td3-bc": {"alpha": 1.7, "policy_noise": 2.0},
    "rebrac": {"policy_penalty": 0.4, "critic_penalty": 0.3, "policy_noise": 2.0},
}


def act(policy: Any, observations: np.ndarray) -> np.ndarray:
    return np.tanh(mlp(policy.network, observations))


@pytest.mark.parametrize("name", OWN)
def test_an_update(name: str) -> None:
    own = OWN[name]
    config = algos.entry(name).config(hidden=(5,), layer_norm=False, discount=GAMMA, **own)
    following = np.random.default_rng(5).uniform(-0.9, 0.9, (SIZE, ACTION)).astype(np.float32)
    following[-1] = np.nan  # nobody knows what was done next
    given = make_batch()
    if name == "rebrac":
        given = given._replace(next_actions=jnp.asarray(following))
    state, after, metrics, batch = one_step(name, config, given)

    noise = 2.0 * double(jax.random.normal(KEY, (SIZE, ACTION)))
    assert (np.abs(noise) > 0.5).any()
    quiet = act(state.policy.target, batch.next_observations)
    next_actions = np.clip(quiet + np.clip(noise, -0.5, 0.5), -1.0, 1.0)
    next_values = critics(state.critics.target, batch.next_observations, next_actions).min(axis=0)
    if name == "rebrac":
        distance = ((next_actions - batch.next_actions) ** 2).sum(axis=1)
        assert np.isnan(distance).tolist() == [False] * (SIZE - 1) + [True]
        next_values -= own["critic_penalty"] * np.nan_to_num(distance, nan=0.0)
    wanted = batch.rewards + GAMMA * batch.discounts * next_values

    def critic_loss(networks: Any) -> float:
        return td(critics(networks, batch.observations, batch.actions), wanted)

    def climbed(policy: Any) -> np.ndarray:
        """What critics that have just learned say."""
        actions = act(policy, batch.observations)
        each = critics(after.critics.online, batch.observations, actions)
        return each[0] if name == "td3-bc" else each.min(axis=0)

    size = np.abs(climbed(state.policy.online)).mean()  # a constant: no gradient goes through it

    def policy_loss(policy: Any) -> float:
        squares = (act(policy, batch.observations) - batch.actions) ** 2
        value = climbed(policy) / size
        if name == "td3-bc":
            return squares.mean() - own["alpha"] * value.mean()
        return (own["policy_penalty"] * squares.sum(axis=1) - value).mean()

    squares = (act(state.policy.online, batch.observations) - batch.actions) ** 2
    check(
        metrics,
        {
            "critic/td": critic_loss(state.critics.online) / 2,
            "critic/target": wanted.mean(),
            "policy/loss": policy_loss(state.policy.online),
            "policy/distance": squares.sum(axis=1).mean(),
        },
    )
    check_gradient(critic_loss, state.critics.online, after.critics.optimiser)
    check_gradient(policy_loss, state.policy.online, after.policy.optimiser)


def test_the_policy_and_all_targets_wait_while_the_critics_learn() -> None:
    made = algos.entry("td3-bc").make(
        algos.entry("td3-bc").config(hidden=(5,), policy_delay=3), OBSERVATION, ACTION
    )
    state, update = jax.jit(made.init)(jax.random.key(0)), jax.jit(made.update)

    def same(one: Any, other: Any) -> bool:
        return all(map(np.array_equal, jax.tree.leaves(one), jax.tree.leaves(other)))

    for step in range(5):
        after, metrics = update(state, make_batch(step), jax.random.key(step))
        waits = step % 3 != 0
        assert same(after.policy, state.policy) == waits
        assert same(after.critics.target, state.critics.target) == waits
        assert not same(after.critics.online, state.critics.online)
        # Between the policy's steps the log repeats what the last one found.
        assert same(after.policy_metrics, state.policy_metrics) == waits
        assert float(metrics["policy/q"]) == float(after.policy_metrics["policy/q"])
        state = after


def test_normalised_values_have_size_one_and_no_gradient_through_it() -> None:
    values = jnp.asarray([1.0, -3.0, 8.0])
    np.testing.assert_allclose(normalised(values), values / 4.0, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(lambda v: normalised(v).sum())(values), 0.25, rtol=1e-6)
    assert bool((normalised(jnp.zeros(3)) == 0.0).all())
