"""SAC-N, EDAC and REM against plain NumPy."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chary import algos
from chary.algos.edac import similarity
from chary.algos.rem import mixture
from chary.errors import CharyError
from tests.algos.double import (
    ACTION,
    GAMMA,
    KEY,
    SIZE,
    check,
    check_gradient,
    critics,
    double,
    log_prob,
    one_step,
    sample,
    tanh_gaussian,
    td,
)

ETA, TEMPERATURE = 0.7, 0.3


def slopes(networks: Any, batch: Any) -> np.ndarray:
    """grad_a Q of every member, by differences that are exact while no kink is crossed."""
    steps = 1e-4 * np.eye(ACTION)
    ends = (
        [critics(networks, batch.observations, batch.actions + sign * step) for step in steps]
        for sign in (1.0, -1.0)
    )
    above, below = (np.stack(end, axis=-1) for end in ends)
    return (above - below) / 2e-4


def plain_similarity(gradients: np.ndarray) -> float:
    """Every pair, one after the other; a flat critic is like no other."""
    total = 0.0
    for i, one in enumerate(gradients):
        for j, other in enumerate(gradients):
            if i != j:
                lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
                total += np.mean((one * other).sum(axis=-1) / (lengths + 1e-20))
    return total / (len(gradients) - 1)


@pytest.mark.parametrize(("name", "members"), [("sac-n", 3), ("edac", 3), ("rem", 3), ("rem", 1)])
def test_an_update(name: str, members: int) -> None:
    own = {"edac": {"eta": ETA}, "rem": {"ensemble": "deep"}}.get(name, {})
    config = algos.entry(name).config(
        members=members, hidden=(5,), discount=GAMMA, temperature=TEMPERATURE, **own
    )
    state, after, metrics, batch = one_step(name, config)
    action_key, critic_key = jax.random.split(KEY)
    noise, next_noise = double(jax.random.normal(action_key, (2, SIZE, ACTION)))
    weights = double(mixture(members, key=critic_key))

    law = tanh_gaussian(state.policy.params, batch.next_observations)
    next_actions = sample(law, next_noise)
    next_values = critics(state.critics.target, batch.next_observations, next_actions)
    # With one member, its weight is one and this is plain TD.
    together = weights @ next_values if name == "rem" else np.min(next_values, axis=0)
    soft = together - TEMPERATURE * log_prob(law, next_actions)
    wanted = batch.rewards + GAMMA * batch.discounts * soft

    def plain_td(networks: Any) -> float:
        values = critics(networks, batch.observations, batch.actions)
        return td((weights @ values)[None] if name == "rem" else values, wanted)

    def alike(networks: Any) -> float:
        return plain_similarity(slopes(networks, batch)) if name == "edac" else 0.0

    def policy_parts(policy: Any) -> tuple[np.ndarray, np.ndarray]:
        law = tanh_gaussian(policy, batch.observations)
        actions = sample(law, noise)
        values = critics(state.critics.online, batch.observations, actions)
        climbed = values.mean(axis=0) if name == "rem" else values.min(axis=0)
        return climbed, log_prob(law, actions)

    def policy_loss(policy: Any) -> float:
        climbed, log_density = policy_parts(policy)
        return (TEMPERATURE * log_density - climbed).mean()

    climbed, log_density = policy_parts(state.policy.params)
    losses = 1 if name == "rem" else members
    expected = {
        "critic/td": plain_td(state.critics.online) / losses,
        "critic/target": wanted.mean(),
        "policy/objective": climbed.mean(),
        "policy/entropy": -log_density.mean(),
    }
    if name == "edac":
        expected["critic/similarity"] = alike(state.critics.online)
    check(metrics, expected)
    check_gradient(
        lambda networks: plain_td(networks) + 0.5 * ETA * alike(networks),
        state.critics.online,
        after.critics.optimiser,
    )
    check_gradient(policy_loss, state.policy.params, after.policy.optimiser)
    entropy_gap = -log_density.mean() + ACTION
    slope = 10.0 * after.log_temperature.optimiser.mu
    assert slope == pytest.approx(TEMPERATURE * entropy_gap, rel=1e-4)


def test_similarity_against_pairs_and_at_its_ends() -> None:
    rng = np.random.default_rng(0)
    gradients = rng.standard_normal((4, 4, 3)).astype(np.float32)
    plain = plain_similarity(gradients.astype(np.float64))
    same = np.broadcast_to(gradients[:1], gradients.shape)
    opposite = np.concatenate([gradients[:2], -gradients[:2]])
    found = jax.jit(jax.vmap(similarity))(np.stack([gradients, same, opposite]))
    np.testing.assert_allclose(found, [plain, 4.0, -4.0 / 3.0], atol=1e-5)


def test_a_flat_critic_is_like_no_other_and_moves_none() -> None:
    gradients = jnp.asarray([[[1.0, 0.0]], [[0.0, 0.0]], [[1.0, 0.0]]])
    value, slope = jax.jit(jax.value_and_grad(similarity))(gradients)
    assert float(value) == pytest.approx(1.0, abs=1e-5)
    assert bool(jnp.isfinite(slope).all())


def test_mixtures_are_convex_and_drawn_anew() -> None:
    one, other = (mixture(7, key=jax.random.key(seed)) for seed in (0, 1))
    for weights in (one, other):
        assert float(weights.sum()) == pytest.approx(1.0, abs=1e-6)
        assert bool((weights > 0.0).all())
    assert not np.allclose(one, other)
    assert mixture(1, key=jax.random.key(0)).tolist() == [1.0]


def test_a_subset_of_members_sets_the_targets() -> None:
    """RLPD: the smallest next value of some members, drawn anew; the policy climbs the mean of all."""
    settings: dict[str, Any] = {"members": 4, "hidden": (5,), "discount": GAMMA}
    config = algos.entry("sac-n").config(**settings, subset=2, backup_entropy=False)
    state, _, metrics, batch = one_step("sac-n", config)
    action_key, critic_key = jax.random.split(KEY)
    noise, next_noise = double(jax.random.normal(action_key, (2, SIZE, ACTION)))
    law = tanh_gaussian(state.policy.params, batch.next_observations)
    next_values = critics(state.critics.target, batch.next_observations, sample(law, next_noise))
    chosen = np.asarray(jax.random.permutation(critic_key, 4)) < 2
    assert chosen.sum() == 2
    wanted = batch.rewards + GAMMA * batch.discounts * next_values[chosen].min(axis=0)
    check(metrics, {"critic/target": wanted.mean()})
    here = sample(tanh_gaussian(state.policy.params, batch.observations), noise)
    values = critics(state.critics.online, batch.observations, here)
    check(metrics, {"policy/objective": values.mean()})


def test_a_subset_is_no_larger_than_the_whole() -> None:
    with pytest.raises(CharyError, match=r"--subset is 5, but must be at most --members \(4\)"):
        algos.entry("sac-n").config(members=4, subset=5)
