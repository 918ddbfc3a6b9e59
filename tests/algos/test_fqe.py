"""Fitted Q-evaluation: its step against NumPy, whom it learns from, and values that are known."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chary.algos.fqe import FQEConfig, make_fqe
from chary.types import Batch

CONFIG = FQEConfig(members=3, hidden=(8,), batch_size=6, discount=0.9)
ALGORITHM = make_fqe(CONFIG, 3, 2)
UPDATE = jax.jit(ALGORITHM.update)
KEY = jax.random.key(1)


def batch(**changes: Any) -> Batch:
    rng = np.random.default_rng(0)
    shapes = ((6, 3), (6, 2), (6,), (6,), (6, 3), (6, 2))
    columns = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    made = Batch(*map(jnp.asarray, columns))._replace(discounts=jnp.array([1.0, 1, 0, 1, 1, 1]))
    return made._replace(**changes)


def begun() -> Any:
    """A state whose targets are not its critics."""
    state = ALGORITHM.init(jax.random.key(0))
    other = ALGORITHM.init(jax.random.key(2)).critics.target
    return state._replace(critics=state.critics._replace(target=other))


def test_each_member_has_its_own_target_at_the_policys_action() -> None:
    state, rows = begun(), batch()
    _, metrics = UPDATE(state, rows, KEY)
    values = ALGORITHM.values
    assert values is not None
    target = state._replace(critics=state.critics._replace(online=state.critics.target))
    after = np.asarray(values(target, rows.next_observations, rows.next_actions))
    y = np.asarray(rows.rewards) + 0.9 * np.asarray(rows.discounts) * after
    now = np.asarray(values(state, rows.observations, rows.actions))
    weights = np.asarray(jax.random.uniform(KEY, (3, 1, 6), maxval=2.0))[:, 0]
    np.testing.assert_allclose(metrics["critic/target"], y.mean(), rtol=1e-5)
    loss = 0.5 * (weights * (now - y) ** 2).mean()
    np.testing.assert_allclose(metrics["critic/td"], loss, rtol=1e-5)


def test_rows_without_a_next_action_teach_nothing() -> None:
    state, rows = begun(), batch()
    assert rows.next_actions is not None
    unknown = rows.next_actions.at[4].set(jnp.nan)
    first, _ = UPDATE(state, rows._replace(next_actions=unknown), KEY)
    rewards = rows.rewards.at[4].set(100.0)
    second, _ = UPDATE(state, rows._replace(next_actions=unknown, rewards=rewards), KEY)
    assert jax.tree.all(jax.tree.map(np.array_equal, first.critics, second.critics))
    # where the episode truly ends, no next action is needed
    ended = rows.next_actions.at[2].set(jnp.nan)
    third, _ = UPDATE(state, rows._replace(next_actions=ended), KEY)
    fourth, _ = UPDATE(state, rows, KEY)
    assert jax.tree.all(jax.tree.map(np.array_equal, third.critics, fourth.critics))


def test_members_are_independent() -> None:
    state, rows = begun(), batch()
    moved = jax.tree.map(lambda x: x.at[0].add(1.0), state.critics)
    before, _ = UPDATE(state, rows, KEY)
    after, _ = UPDATE(state._replace(critics=moved), rows, KEY)

    def others(state: Any) -> Any:
        return jax.tree.map(lambda x: np.asarray(x[1:]), state.critics)

    assert jax.tree.all(jax.tree.map(np.array_equal, others(before), others(after)))


def test_it_finds_the_value_of_a_policy_and_not_of_the_data() -> None:
    """Staying pays 1 for an action of 1 and 0 for -1; the data does both, the policy the first."""
    actions = jnp.asarray(np.tile([[1.0], [-1.0]], (32, 1)), jnp.float32)
    same = jnp.zeros((64, 1))
    config = FQEConfig(members=2, hidden=(8,), batch_size=64, discount=0.5, tau=0.2)
    algorithm = make_fqe(config, 1, 1)
    rows = Batch(same, actions, (actions[:, 0] + 1) / 2, jnp.ones(64), same, jnp.ones((64, 1)))
    update = jax.jit(
        lambda state: jax.lax.fori_loop(
            0, 2_000, lambda i, s: algorithm.update(s, rows, jax.random.key(i))[0], state
        )
    )
    state = update(algorithm.init(jax.random.key(0)))
    assert algorithm.values is not None
    found = algorithm.values(state, same[:2], jnp.array([[1.0], [-1.0]]))
    np.testing.assert_allclose(found, [[2.0, 1.0]] * 2, atol=0.05)
