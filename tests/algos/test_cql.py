"""CQL, as its authors and as the MSG paper's have it, against plain NumPy."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chary.algos import cql
from chary.algos.cql import CQLConfig
from chary.training import resolve as settings
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
    log_prob,
    make_batch,
    prepare,
    rate,
    sample,
    tanh_gaussian,
    td,
)


def test_cql() -> None:
    config = CQLConfig(
        hidden=(5, 4),
        discount=GAMMA,
        alpha=3.0,
        samples=3,
        lagrange_threshold=2.0,
        max_backup=True,
        warmup_steps=1,
        temperature=0.5,
    )
    update, state = prepare("cql", config)
    noise = double(cql.draw_noise(config, SIZE, ACTION, key=KEY))
    for step in (0, 1):  # cloning, and then climbing
        before = state._replace(step=jnp.int32(step))
        after, metrics = update(before, make_batch(), KEY)
        check_cql(step, double(before), double(after), metrics, noise)


def test_calibrated_values_are_no_less_than_the_returns() -> None:
    """Cal-QL: returns below all values change nothing; high ones lift the policy's actions alone."""
    config = CQLConfig(hidden=(5, 4), discount=GAMMA, samples=3, warmup_steps=0)
    update, state = prepare("cql", config)
    calibrated, same = prepare("cql", replace(config, calibrated=True))
    batch = make_batch()
    _, plain = update(state, batch, KEY)
    low, high = jnp.full(SIZE, -1e4), jnp.full(SIZE, 50.0)
    _, lowest = calibrated(same, batch._replace(returns=low), KEY)
    _, lifted = calibrated(same, batch._replace(returns=high), KEY)
    check(lowest, {"critic/gap": float(plain["critic/gap"])})
    noise = double(cql.draw_noise(config, SIZE, ACTION, key=KEY))
    ends = double(state)
    policy, data = ends.policy.params, double(batch)
    densities = [
        log_prob(law, sample(law, n))
        for place, draws in zip(
            (data.observations, data.next_observations), noise.proposals, strict=True
        )
        for law in [tanh_gaussian(policy, place)]
        for n in draws
    ]
    online = ends.critics.online
    uniform = [np.exp(critics(online, data.observations, a)) * 4.0 for a in noise.uniform]
    ours = [np.broadcast_to(np.exp(50.0 - d), uniform[0].shape) for d in densities]
    logged = critics(online, data.observations, data.actions)
    gap = np.log(np.mean([*uniform, *ours], axis=0)) - logged
    check(lifted, {"critic/gap": gap.mean()})


def check_cql(step: int, state: Any, after: Any, metrics: dict[str, Any], noise: Any) -> None:
    batch, policy = double(make_batch()), state.policy.params
    here = tanh_gaussian(policy, batch.observations)
    there = tanh_gaussian(policy, batch.next_observations)
    nexts = [
        critics(state.critics.target, batch.next_observations, sample(there, n))
        for n in noise.next_actions
    ]
    wanted = batch.rewards + GAMMA * batch.discounts * np.max(nexts, axis=0).min(axis=0)
    own = [sample(here, n) for n in noise.proposals[0]]
    following = [sample(there, n) for n in noise.proposals[1]]
    densities = (
        [np.full(SIZE, np.log(0.25))] * 3
        + [log_prob(here, a) for a in own]
        + [log_prob(there, a) for a in following]
    )

    def gaps(networks: Any) -> np.ndarray:
        actions = [*noise.uniform, *own, *following]
        weighed = [
            np.exp(critics(networks, batch.observations, a) - d)
            for a, d in zip(actions, densities, strict=True)
        ]
        logged = critics(networks, batch.observations, batch.actions)
        return (np.log(np.mean(weighed, axis=0)) - logged).mean(axis=-1)

    def critic_loss(networks: Any) -> float:
        values = critics(networks, batch.observations, batch.actions)
        return td(values, wanted) + 0.5 * 3.0 * gaps(networks).sum()

    def policy_loss(policy: Any) -> float:
        law = tanh_gaussian(policy, batch.observations)
        actions = sample(law, noise.policy_actions)
        q = critics(state.critics.online, batch.observations, actions).min(axis=0)
        climbed = log_prob(law, batch.actions) if step == 0 else q
        return (0.5 * log_prob(law, actions) - climbed).mean()

    values = critics(state.critics.online, batch.observations, batch.actions)
    gap = gaps(state.critics.online).mean()
    check(
        metrics,
        {
            "critic/gap": gap,
            "critic/td": td(values, wanted) / 2,
            "policy/loss": policy_loss(policy),
            "policy/temperature": 0.5,
        },
    )
    check_gradient(critic_loss, state.critics.online, after.critics.optimiser)
    check_gradient(policy_loss, policy, after.policy.optimiser)
    check_gradient(
        lambda x: np.exp(x) * (float(metrics["policy/entropy"]) + ACTION),
        state.log_temperature.params,
        after.log_temperature.optimiser,
    )
    check_gradient(
        lambda x: -np.exp(x) * (3.0 * (gap + np.log(9)) - 2.0),
        state.log_multiplier.params,
        after.log_multiplier.optimiser,
    )


# ---- the CQL of the MSG paper ------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["msg-paper-antmaze", "msg-paper-gym"])
def test_the_msg_papers_cql(preset: str) -> None:
    """Its authors' losses (jrl/agents/cql/learning.py), in its two phases."""
    config, _ = settings.configure("cql", preset, "")
    small = {"hidden": (5, 4), "discount": GAMMA, "alpha": 3.0, "samples": 3, "temperature": 0.5}
    config = replace(config, **small, warmup_steps=1)
    update, state = prepare("cql", config)
    noise = double(cql.draw_noise(config, SIZE, ACTION, key=KEY))
    for step in (0, 1):  # cloning, and then climbing
        before = state._replace(step=jnp.int32(step))
        after, metrics = update(before, make_batch(), KEY)
        check_msg_papers_critics(double(before), double(after), metrics, noise)
        check_msg_papers_policy(step == 0, before, after, metrics, noise)


def check_msg_papers_critics(state: Any, after: Any, metrics: dict[str, Any], noise: Any) -> None:
    """sum_i E[(Q_i(s, a) - y)^2] + alpha * mean_i E[log sum_k exp(Q_i(s, a_k) - log p_k) - Q_i(s, a)],
    with a_k of pi(s) and uniform ones, and p_k their densities."""
    batch = double(make_batch())
    here = tanh_gaussian(state.policy.params, batch.observations)
    there = tanh_gaussian(state.policy.params, batch.next_observations)
    next_actions = sample(there, noise.next_actions[0])
    next_values = critics(state.critics.target, batch.next_observations, next_actions)
    target = batch.rewards + GAMMA * batch.discounts * next_values.min(axis=0)
    own = [sample(here, n) for n in noise.proposals[0]]

    def gap(networks: Any) -> float:
        total = np.zeros((2, SIZE))
        for action in own:
            values = critics(networks, batch.observations, action)
            total += np.exp(values - log_prob(here, action))
        for action in noise.uniform:
            values = critics(networks, batch.observations, action)
            total += np.exp(values + ACTION * np.log(2.0))
        logged = critics(networks, batch.observations, batch.actions)
        return (np.log(total) - logged).mean()

    def loss(networks: Any) -> float:
        values = critics(networks, batch.observations, batch.actions)
        squares = ((values - target) ** 2).mean() * 2
        return squares + 3.0 * gap(networks)

    values = critics(state.critics.online, batch.observations, batch.actions)
    # chary divides the sum over the six draws by six, and halves both terms: no step of Adam sees it.
    found = {"critic/gap": gap(state.critics.online) - np.log(6)}
    check(metrics, found | {"critic/td": ((values - target) ** 2).mean() / 2})
    check_gradient(
        lambda networks: loss(networks) / 2, state.critics.online, after.critics.optimiser
    )
    assert rate(state.critics, after.critics) == pytest.approx(3e-4, rel=1e-2)


def check_msg_papers_policy(
    cloning: bool, state: Any, after: Any, metrics: dict[str, Any], noise: Any
) -> None:
    """-E[log pi(a | s)] alone, the temperature and its moments at rest; then SAC's."""
    batch, networks = double(make_batch()), double(state.critics.online)

    def loss(policy: Any) -> float:
        law = tanh_gaussian(policy, batch.observations)
        if cloning:
            return -log_prob(law, batch.actions).mean()
        actions = sample(law, noise.policy_actions)
        smaller = critics(networks, batch.observations, actions).min(axis=0)
        return (0.5 * log_prob(law, actions) - smaller).mean()

    check(metrics, {"policy/loss": loss(double(state.policy.params))})
    check_gradient(loss, state.policy.params, after.policy.optimiser)
    assert rate(state.policy, after.policy) == pytest.approx(3e-5, rel=1e-2)
    if cloning:
        for old, new in zip(
            jax.tree.leaves(state.log_temperature),
            jax.tree.leaves(after.log_temperature),
            strict=True,
        ):
            assert np.asarray(old).tobytes() == np.asarray(new).tobytes()
        return
    check_gradient(
        lambda x: np.exp(x) * (float(metrics["policy/entropy"]) + ACTION),
        state.log_temperature.params,
        after.log_temperature.optimiser,
    )
    assert rate(state.log_temperature, after.log_temperature) == pytest.approx(3e-4, rel=1e-2)


@pytest.mark.parametrize(("next_actions", "draws"), [(True, 9), (False, 6)])
def test_the_threshold_is_held_against_the_undivided_sum(next_actions: bool, draws: int) -> None:
    """Of as many draws as there are: the multiplier's gradient at alpha' = 1."""
    config = CQLConfig(
        hidden=(5, 4), samples=3, lagrange_threshold=2.0, gap_next_actions=next_actions
    )
    update, state = prepare("cql", config)
    after, metrics = update(state, make_batch(), KEY)
    gap = float(metrics["critic/gap"]) + np.log(draws)
    found = 10.0 * float(after.log_multiplier.optimiser.mu)
    assert found == pytest.approx(2.0 - 5.0 * gap, rel=1e-5)


# ---- what it is for ----------------------------------------------------------------------------------


@pytest.mark.long
def test_conservatism_closes_the_gap_on_logged_actions() -> None:
    """With alpha, logged actions end up worth more than others; without, nothing makes them so."""
    batch = make_batch(size=16)._replace(rewards=jnp.zeros(16))
    elsewhere = jnp.asarray(np.random.default_rng(1).uniform(-1, 1, (16, ACTION)), jnp.float32)
    config = CQLConfig(hidden=(32, 32), samples=4, critic_learning_rate=1e-2)
    algorithm = cql.make_cql(config, OBSERVATION, ACTION)
    update, start = jax.jit(algorithm.update), jax.jit(algorithm.init)(jax.random.key(0))
    assert algorithm.values is not None
    closed, better = {}, {}
    for alpha in (0.0, 5.0):  # an array in the state: one program serves both
        state = start._replace(hyper=start.hyper._replace(alpha=jnp.float32(alpha)))
        gaps: list[float] = []
        for step in range(150):
            state, metrics = update(state, batch, jax.random.key(step))
            gaps.append(float(metrics["critic/gap"]))
        logged, others = (
            float(algorithm.values(state, batch.observations, a).mean())
            for a in (batch.actions, elsewhere)
        )
        closed[alpha], better[alpha] = gaps[0] - float(np.mean(gaps[-10:])), logged - others
    assert closed[5.0] > 1.0 > abs(closed[0.0])
    assert better[5.0] > 1.0 > abs(better[0.0])
