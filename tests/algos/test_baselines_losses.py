"""IQL, CRR and F-BRC against plain NumPy: what they report, and the gradients they follow."""

from typing import Any

import jax
import numpy as np
import pytest

from chary import algos
from chary.algos import crr, fbrc
from chary.algos.crr import CRRConfig
from chary.algos.fbrc import FBRCConfig
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
    log_normal,
    log_prob,
    make_batch,
    mlp,
    one_step,
    prepare,
    sample,
    softplus,
    tanh_gaussian,
    td,
)


def test_iql() -> None:
    config = algos.entry("iql").config(
        hidden=(5, 4), discount=GAMMA, expectile=0.8, inverse_temperature=2.0, weight_limit=1.2
    )
    state, after, metrics, batch = one_step("iql", config)
    q = critics(state.critics.target, batch.observations, batch.actions).min(axis=0)

    def value_loss(value: Any) -> float:
        u = q - mlp(value, batch.observations)[:, 0]
        return (np.where(u < 0, 0.2, 0.8) * u**2).mean()

    # What comes after V is done with the V of this step.
    advantages = q - mlp(after.value.params, batch.observations)[:, 0]
    weights = np.minimum(np.exp(2.0 * advantages), 1.2)
    assert 0 < (weights == 1.2).sum() < SIZE
    wanted = (
        batch.rewards
        + GAMMA * batch.discounts * (mlp(after.value.params, batch.next_observations)[:, 0])
    )

    def policy_loss(policy: Any) -> float:
        loc = np.tanh(mlp(policy.loc, batch.observations))
        density = log_normal(batch.actions, loc, np.exp(policy.log_scale))
        return -(weights * density.sum(-1)).mean()

    def critic_loss(networks: Any) -> float:
        return td(critics(networks, batch.observations, batch.actions), wanted)

    check(
        metrics,
        {
            "value/loss": value_loss(state.value.params),
            "policy/loss": policy_loss(state.policy.params),
            "policy/weight": weights.mean(),
            "critic/td": critic_loss(state.critics.online) / 2,
            "critic/target": wanted.mean(),
        },
    )
    check_gradient(value_loss, state.value.params, after.value.optimiser)
    check_gradient(policy_loss, state.policy.params, after.policy.optimiser)
    check_gradient(critic_loss, state.critics.online, after.critics.optimiser)


@pytest.mark.parametrize(("weights", "advantage"), [("exp", "mean"), ("binary", "max")])
def test_crr(weights: Any, advantage: Any) -> None:
    config = CRRConfig(
        hidden=(5, 4),
        discount=GAMMA,
        weights=weights,
        advantage=advantage,
        samples=2,
        beta=0.5,
        weight_limit=1.5,
        target_period=2,
    )
    update, state = prepare("crr", config)
    batch, before = double(make_batch()), double(state)
    noise = double(crr.draw_noise(config, SIZE, ACTION, key=KEY))

    def q(actions: np.ndarray) -> np.ndarray:
        return critics(before.critics.online, batch.observations, actions).mean(axis=0)

    law = tanh_gaussian(before.policy.online, batch.observations)
    own = np.stack([q(sample(law, n)) for n in noise.own_actions])
    advantages = q(batch.actions) - (own.mean(0) if advantage == "mean" else own.max(0))
    exponential = np.minimum(np.exp(advantages / 0.5), 1.5)
    factors = exponential if weights == "exp" else (advantages > 0).astype(float)
    assert 0 < (factors == factors.max()).sum() < SIZE

    def policy_loss(policy: Any) -> float:
        likelihood = log_prob(tanh_gaussian(policy, batch.observations), batch.actions)
        return -(factors * likelihood).mean()

    expected = {
        "policy/loss": policy_loss(before.policy.online),
        "policy/advantage": advantages.mean(),
        "policy/weight": factors.mean(),
    }
    if weights == "binary":  # the rest is the same: without it, little is compiled
        check(jax.jit(lambda *inputs: update(*inputs)[1])(state, make_batch(), KEY), expected)
        return
    next_actions = sample(
        tanh_gaussian(before.policy.target, batch.next_observations), noise.next_actions
    )
    next_values = critics(before.critics.target, batch.next_observations, next_actions)
    wanted = batch.rewards + GAMMA * batch.discounts * next_values.min(axis=0)

    def critic_loss(networks: Any) -> float:
        return td(critics(networks, batch.observations, batch.actions), wanted)

    first, metrics = update(state, make_batch(), KEY)
    check(metrics, {**expected, "critic/td": critic_loss(before.critics.online) / 2})
    check_gradient(policy_loss, state.policy.online, first.policy.optimiser)
    check_gradient(critic_loss, state.critics.online, first.critics.optimiser)
    # Targets become what is trained at every second step.
    second, _ = update(first, make_batch(), KEY)
    for found, wanted in (
        (first.policy.target, state.policy.target),
        (first.critics.target, state.critics.target),
        (second.policy.target, second.policy.online),
        (second.critics.target, second.critics.online),
    ):
        for mine, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-7)


def mixture_log_prob(behaviour: Any, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
    outputs = mlp(behaviour.network, observations).reshape(len(observations), ACTION, 3, -1)
    logits, loc, raw_scale = (outputs[:, :, i] for i in range(3))
    share = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    raw = np.arctanh(actions)[..., None]
    density = share * np.exp(log_normal(raw, loc, softplus(raw_scale) + 0.01))
    return (np.log(density.sum(-1)) - np.log(1.0 - actions**2)).sum(-1)


def test_fbrc() -> None:
    config = FBRCConfig(
        hidden=(5, 4),
        behaviour_hidden=(6,),
        behaviour_parts=3,
        discount=GAMMA,
        fisher_weight=0.7,
        warmup_steps=1,
        temperature=0.5,
    )
    (update, first), raw_batch = prepare("fbrc", config), make_batch()
    second, metrics = update(first, raw_batch, KEY)
    batch = double(raw_batch)
    behaviour_noise = double(fbrc.draw_behaviour_noise(config, SIZE, ACTION, key=KEY))

    def behaviour_loss(behaviour: Any) -> float:
        outputs = mlp(behaviour.network, batch.observations).reshape(SIZE, ACTION, 3, -1)
        part = (outputs[:, :, 0] + behaviour_noise.choice).argmax(-1)[..., None]
        loc, raw_scale = (np.take_along_axis(outputs[:, :, i], part, -1)[..., 0] for i in (1, 2))
        own = np.tanh(loc + (softplus(raw_scale) + 0.01) * behaviour_noise.actions)
        likelihood = mixture_log_prob(behaviour, batch.observations, batch.actions)
        return -(likelihood - mixture_log_prob(behaviour, batch.observations, own)).mean()

    likelihood, entropy = metrics["behaviour/log_likelihood"], metrics["behaviour/entropy"]
    expected = behaviour_loss(double(first.behaviour.params))
    assert float(-likelihood - entropy) == pytest.approx(expected, rel=1e-5)
    check_gradient(behaviour_loss, first.behaviour.params, second.behaviour.optimiser)
    for part in ("policy", "critics", "log_temperature"):
        before, now = (jax.tree.leaves(getattr(s, part)) for s in (first, second))
        assert all((a == b).all() for a, b in zip(before, now, strict=True)), part

    third, metrics = update(second, raw_batch, KEY)
    check_second_phase(double(second), double(third), metrics)
    before, now = (jax.tree.leaves(s.behaviour) for s in (second, third))
    assert all((a == b).all() for a, b in zip(before, now, strict=True))
    values = fbrc.make_fbrc(config, OBSERVATION, ACTION).values
    assert values is not None
    offsets = critics(double(third.critics.online), batch.observations, batch.actions)
    log_mu = mixture_log_prob(double(third.behaviour.params), batch.observations, batch.actions)
    found = values(third, raw_batch.observations, raw_batch.actions)
    np.testing.assert_allclose(found, offsets + log_mu, rtol=1e-5, atol=1e-5)


def check_second_phase(state: Any, after: Any, metrics: dict[str, Any]) -> None:
    batch = double(make_batch())
    noise = double(fbrc.draw_noise(SIZE, ACTION, key=KEY))
    policy, behaviour = state.policy.params, state.behaviour.params

    def q(networks: Any, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return critics(networks, observations, actions) + mixture_log_prob(
            behaviour, observations, actions
        )

    next_actions = sample(tanh_gaussian(policy, batch.next_observations), noise.next_actions)
    next_values = q(state.critics.target, batch.next_observations, next_actions).min(axis=0)
    wanted = batch.rewards + GAMMA * batch.discounts * next_values
    at = sample(tanh_gaussian(policy, batch.observations), noise.penalty_actions)

    def penalties(networks: Any) -> np.ndarray:
        """The squared slope of each member in the action, by differences."""
        squares = np.zeros(2)
        for axis in range(ACTION):
            step = 1e-5 * np.eye(ACTION)[axis]
            above = critics(networks, batch.observations, at + step)
            below = critics(networks, batch.observations, at - step)
            squares += (((above - below) / 2e-5) ** 2).mean(axis=-1)
        return squares

    def critic_loss(networks: Any) -> float:
        values = q(networks, batch.observations, batch.actions)
        return td(values, wanted) + 0.5 * 0.7 * penalties(networks).sum()

    def policy_loss(policy: Any) -> float:
        law = tanh_gaussian(policy, batch.observations)
        actions = sample(law, noise.policy_actions)
        # The policy sees the critics of this step.
        climbed = q(after.critics.online, batch.observations, actions).min(axis=0)
        return (0.5 * log_prob(law, actions) - climbed).mean()

    values = q(state.critics.online, batch.observations, batch.actions)
    check(
        metrics,
        {
            "critic/penalty": penalties(state.critics.online).mean(),
            "critic/td": td(values, wanted) / 2,
            "policy/loss": policy_loss(policy),
        },
    )
    check_gradient(critic_loss, state.critics.online, after.critics.optimiser)
    check_gradient(policy_loss, policy, after.policy.optimiser)
