"""SAC-N, EDAC and REM against plain NumPy."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chary import algos
from chary.algos.edac import EDACConfig, SACNConfig, expected_minimum, similarity
from chary.algos.msg_config import MSGConfig
from chary.algos.rem import REMConfig, mixture
from chary.algos.sac import SACState
from chary.errors import CharyError
from tests.algos.test_msg import ACTION, OBSERVATION, SIZE, Reference, differences, doubles
from tests.algos.test_msg import make_batch as msg_batch

ETA, TEMPERATURE = 0.7, 0.3


def jiggled(tree: Any, seed: int) -> Any:
    """Away from where ReLU has no derivative."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: x + 0.2 * rng.standard_normal(x.shape, np.float32), tree)


def setup(algorithm: str, members: int) -> tuple[Any, SACState]:
    entry = algos.entry(algorithm)
    own = {"edac": {"eta": ETA}, "rem": {"ensemble": "deep"}}.get(algorithm, {})
    config = entry.config(members=members, hidden=(4,), temperature=TEMPERATURE, **own)
    made = entry.make(config, OBSERVATION, ACTION)
    state = made.init(jax.random.key(0))
    critics = state.critics._replace(
        online=jiggled(state.critics.online, 0), target=jiggled(state.critics.target, 1)
    )
    policy = state.policy._replace(params=jiggled(state.policy.params, 2))
    return made, state._replace(critics=critics, policy=policy)


def slopes(reference: Reference, critics: Any, member: int, batch: Any) -> np.ndarray:
    """grad_a Q of one member by differences, which are exact while no kink is crossed."""
    columns = []
    for dimension in range(ACTION):
        step = 1e-4 * np.eye(ACTION)[dimension]
        above, below = (
            reference.value(critics, member, batch.observations, batch.actions + sign * step)[0]
            for sign in (1, -1)
        )
        columns.append((above - below) / 2e-4)
    return np.stack(columns, axis=-1)


def plain_similarity(gradients: np.ndarray) -> float:
    """Every pair, one after the other; a flat critic is like no other."""
    total = 0.0
    for i, one in enumerate(gradients):
        for j, other in enumerate(gradients):
            if i != j:
                lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
                total += np.mean((one * other).sum(axis=-1) / (lengths + 1e-20))
    return total / (len(gradients) - 1)


@pytest.mark.parametrize(
    ("algorithm", "members"), [("sac-n", 3), ("edac", 3), ("rem", 3), ("rem", 1)]
)
def test_an_update_equals_a_plain_numpy_computation(algorithm: str, members: int) -> None:
    made, state = setup(algorithm, members)
    batch, key = msg_batch(), jax.random.key(1)
    after, metrics = jax.jit(made.update)(state, batch, key)

    action_key, critic_key = jax.random.split(key)
    noise, next_noise = np.asarray(jax.random.normal(action_key, (2, SIZE, ACTION)), np.float64)
    weights = np.asarray(mixture(members, key=critic_key), np.float64)
    batch = batch._replace(
        **{k: np.asarray(v, np.float64) for k, v in batch._asdict().items() if v is not None}
    )
    targets = "independent" if algorithm == "rem" else "shared-min"
    reference = Reference(MSGConfig(members=members, beta=0.0, targets=targets), heads=1)
    critics, target = doubles(state.critics.online), doubles(state.critics.target)
    policy = doubles(state.policy.params)

    def all_values(params: list[np.ndarray], states: Any, actions: Any) -> np.ndarray:
        return np.stack([reference.value(params, i, states, actions)[0] for i in range(members)])

    loc, scale = reference.policy(policy, batch.next_observations)
    next_actions = np.tanh(loc + scale * next_noise)
    density = np.exp(-0.5 * next_noise**2) / (scale * np.sqrt(2 * np.pi)) / (1 - next_actions**2)
    next_values = all_values(target, batch.next_observations, next_actions)
    together = weights @ next_values if algorithm == "rem" else np.min(next_values, axis=0)
    soft = together - TEMPERATURE * np.log(density).sum(axis=1)
    wanted = batch.rewards + 0.99 * batch.discounts * soft
    assert float(metrics["critic/target"]) == pytest.approx(wanted.mean(), abs=1e-5)

    def td(params: list[np.ndarray]) -> float:
        values = all_values(params, batch.observations, batch.actions)
        if algorithm == "rem":
            values = (weights @ values)[None]
        return 0.5 * float(((values - wanted) ** 2).mean(axis=1).sum())

    def critic_loss(params: list[np.ndarray]) -> float:
        loss = td(params)
        if algorithm == "edac":
            each = [slopes(reference, params, i, batch) for i in range(members)]
            loss += 0.5 * ETA * plain_similarity(np.stack(each))
        return loss

    losses = 1 if algorithm == "rem" else members
    assert losses * float(metrics["critic/td"]) == pytest.approx(td(critics), abs=1e-5)
    if algorithm == "edac":
        found = (critic_loss(critics) - td(critics)) / (0.5 * ETA)
        assert float(metrics["critic/similarity"]) == pytest.approx(found, abs=1e-5)

    def policy_loss(params: list[np.ndarray]) -> tuple[float, float]:
        draws = type("Draws", (), {"policy_actions": noise})
        return reference.policy_loss(params, critics, TEMPERATURE, batch, draws)

    loss, entropy = policy_loss(policy)
    bonus = TEMPERATURE * float(metrics["policy/entropy"])
    assert -float(metrics["policy/objective"]) - bonus == pytest.approx(loss, abs=1e-5)

    # Adam's first moment is a tenth of the first gradient.
    for moment, gradient in (
        (after.critics.optimiser.mu, differences(critic_loss, critics)),
        (after.policy.optimiser.mu, differences(lambda p: policy_loss(p)[0], policy)),
        (after.log_temperature.optimiser.mu, [TEMPERATURE * (entropy + ACTION)]),
    ):
        for a, b in zip(doubles(moment), gradient, strict=True):
            np.testing.assert_allclose(10 * a, b, rtol=1e-4, atol=1e-5)
    for slow, new, before in zip(
        doubles(after.critics.target), doubles(after.critics.online), target, strict=True
    ):
        np.testing.assert_allclose(slow, before + 0.005 * (new - before), atol=1e-6)


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


@pytest.mark.parametrize("members", [1, 2, 10, 100])
def test_the_bound_is_about_the_smallest_of_so_many_normal_draws(members: int) -> None:
    draws = np.random.default_rng(0).standard_normal((20_000, members))
    assert expected_minimum(members) == pytest.approx(draws.min(axis=1).mean(), abs=0.05)


def test_mixtures_are_convex_and_drawn_anew() -> None:
    one, other = (mixture(7, key=jax.random.key(seed)) for seed in (0, 1))
    for weights in (one, other):
        assert float(weights.sum()) == pytest.approx(1.0, abs=1e-6)
        assert bool((weights > 0.0).all())
    assert not np.allclose(one, other)
    assert mixture(1, key=jax.random.key(0)).tolist() == [1.0]


BAD_SETTINGS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no critic": (SACNConfig, {"members": 0}, "--members is 0, but must be at least 1"),
    "nothing to differ from": (EDACConfig, {"members": 1}, "at least 2, or --eta 0"),
    "alike": (EDACConfig, {"eta": -1.0}, "--eta is -1.0, but must be at least 0"),
    "no mixture": (REMConfig, {"members": 0}, "--members is 0"),
    "temperature": (SACNConfig, {"temperature": 0.0}, "--temperature is 0.0"),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_settings_that_make_no_sense(case: str) -> None:
    config, settings, words = BAD_SETTINGS[case]
    with pytest.raises(CharyError, match=words):
        config(**settings)
