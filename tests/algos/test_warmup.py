"""What the policy learns while it warms up, and what afterwards, against plain NumPy."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chary import algos
from tests.algos.double import (
    KEY,
    check_gradient,
    critics,
    double,
    log_prob,
    make_batch,
    prepare,
    tanh_gaussian,
)

WARMUP, BETA = 2, -2.0
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "msg": ("msg", {"members": 3, "beta": BETA}),
    "cql": ("cql", {"samples": 2}),
    "cql by likelihood alone": ("cql", {"samples": 2, "warmup_entropy": False}),
}


def no_noise(key: Any, shape: tuple[int, ...] = (), dtype: Any = jnp.float32) -> jax.Array:
    """In place of normal draws: every action of the policy is the middle of its distribution."""
    del key
    return jnp.zeros(shape, dtype)


def policy_loss(case: str, step: int, state: Any, policy: Any) -> float:
    """At first the likelihood of logged actions, for CQL's authors with entropy; then the bound."""
    batch = double(make_batch())
    law = tanh_gaussian(policy, batch.observations)
    actions = np.tanh(law[0])
    bonus = -np.exp(state.log_temperature.params) * log_prob(law, actions)
    if step < WARMUP:
        likelihood = log_prob(law, batch.actions)
        return -(likelihood + (bonus if case == "cql" else 0.0)).mean()
    values = critics(state.critics.online, batch.observations, actions)
    bound = values.mean(axis=0) + BETA * values.std(axis=0) if case == "msg" else values.min(axis=0)
    return -(bound + bonus).mean()


@pytest.mark.parametrize("case", CASES)
def test_warming_up_ends_after_its_steps(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, own = CASES[case]
    config = algos.entry(name).config(
        hidden=(5, 4), warmup_steps=WARMUP, temperature=0.5, policy_learning_rate=1e-3, **own
    )
    update, state = prepare(name, config)
    monkeypatch.setattr(jax.random, "normal", no_noise)
    for step in range(WARMUP + 2):
        after, _ = update(state, make_batch(), KEY)
        before = double(state)

        def loss(policy: Any, step: int = step, before: Any = before) -> float:
            return policy_loss(case, step, before, policy)

        moments = state.policy.optimiser
        check_gradient(loss, state.policy.params, after.policy.optimiser, before=moments)
        # The temperature is tuned only where there is an entropy bonus.
        old, new = (jax.tree.leaves(s.log_temperature) for s in (state, after))
        rests = all((a == b).all() for a, b in zip(old, new, strict=True))
        assert rests == (step < WARMUP and case != "cql")
        state = after
