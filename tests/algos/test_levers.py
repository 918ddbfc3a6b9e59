"""What MSG can do beyond the paper, each piece against plain NumPy."""

from math import erf, sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chary.algos.msg import MSGState, make_msg
from chary.algos.msg_config import MSGConfig
from chary.algos.msg_noise import draw_noise
from chary.errors import CharyError
from chary.execution.config import Execution
from chary.networks.categorical import Bins
from tests.algos.double import (
    ACTION,
    GAMMA,
    KEY,
    OBSERVATION,
    SIZE,
    check_gradient,
    critics,
    double,
    log_prob,
    make_batch,
    mlp,
    prepare,
    sample,
    tanh_gaussian,
)

BETA, ALPHA, TEMPERATURE = -2.0, 0.7, 0.3
LOW, HIGH, BINS = -6.0, 5.0, 7


def config_of(**changes: Any) -> MSGConfig:
    defaults: dict[str, Any] = {
        "members": 3,
        "hidden": (5, 4),
        "beta": BETA,
        "alpha": ALPHA,
        "discount": GAMMA,
        "warmup_steps": 0,
        "batch_size": SIZE,
        "temperature": TEMPERATURE,
        "policy_learning_rate": 1e-3,
    }
    return MSGConfig(**{**defaults, **changes})


def one_step(config: MSGConfig, batch: Any = None) -> tuple[MSGState, MSGState, Any, Any, Any]:
    """States before and after in float32, and batch, noise and metrics in double precision."""
    update, state = prepare("msg", config)
    batch = batch or make_batch()
    after, metrics = update(state, batch, KEY)
    noise = draw_noise(config, SIZE, ACTION, shared=False, key=KEY)._replace(ensemble_key=None)
    return state, after, double(batch), double(noise), double(metrics)


# ---- the policy --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"bound": "relative", "regulariser_samples": "shared"},
        {"cloning": 0.4, "regulariser_samples": "own"},
        {"cloning": 0.4, "cloning_loss": "likelihood", "regulariser_samples": "shared"},
        {"cloning": 0.4, "bound": "relative", "entropy": "off", "regulariser_samples": "own"},
    ],
    ids=str,
)
def test_what_the_policy_climbs(changes: dict[str, Any]) -> None:
    config = config_of(**changes)
    state, after, batch, noise, metrics = one_step(config)
    before = double(state)
    logged = critics(before.critics.online, batch.observations, batch.actions)
    # E|Q|, or E|D| of the relative bound, has no gradient: it is of the policy before the step.
    first = tanh_gaussian(before.policy.params, batch.observations)
    at_first = critics(
        before.critics.online, batch.observations, sample(first, noise.policy_actions)
    )
    at_first = at_first - logged if config.bound == "relative" else at_first

    def loss(policy: Any) -> float:
        distribution = tanh_gaussian(policy, batch.observations)
        actions = sample(distribution, noise.policy_actions)
        q = critics(before.critics.online, batch.observations, actions)
        q = q - logged if config.bound == "relative" else q
        bound = q.mean(axis=0) + BETA * q.std(axis=0)
        bonus = -TEMPERATURE * log_prob(distribution, actions) if config.entropy != "off" else 0.0
        if not config.cloning:
            return -(bound + bonus).mean()
        squared = ((np.tanh(distribution[0]) - batch.actions) ** 2).sum(-1)
        unlikely = -log_prob(distribution, batch.actions)
        penalty = squared if config.cloning_loss == "squared" else unlikely
        return -(bound / np.abs(at_first).mean() + bonus - config.cloning * penalty).mean()

    check_gradient(loss, state.policy.params, after.policy.optimiser)
    distance = ((np.tanh(first[0]) - batch.actions) ** 2).sum(-1).mean()
    assert float(metrics["policy/distance"]) == pytest.approx(distance, rel=1e-4)


def test_repeating_the_logged_action_has_a_relative_bound_of_zero_whatever_the_offsets() -> None:
    """Members that are moved up or down by any number give the policy the same gradient."""
    config = config_of(bound="relative", alpha=0.0)
    update, state = prepare("msg", config)
    last = state.critics.online.layers[-1]
    lifted = jnp.asarray([7.0, -3.0, 0.5])[:, None, None]
    online = state.critics.online
    moved = jax.tree.map(lambda x: x, online)
    moved = type(online)((*online.layers[:-1], type(last)(last.weight, last.bias + lifted, None)))
    plain, metrics = update(state, make_batch(), KEY)
    offset, more = update(
        state._replace(critics=state.critics._replace(online=moved)), make_batch(), KEY
    )
    for a, b in zip(
        *(jax.tree.leaves(s.policy.optimiser.mu) for s in (plain, offset)), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    # An offset is spread that no action changes.
    assert float(more["policy/action_share"]) < float(metrics["policy/action_share"])


def test_the_shares_that_explain_the_spread() -> None:
    config = config_of(alpha=0.0)
    state, _, batch, noise, metrics = one_step(config)
    before = double(state)
    actions = sample(tanh_gaussian(before.policy.params, batch.observations), noise.policy_actions)
    q = critics(before.critics.online, batch.observations, actions)
    logged = critics(before.critics.online, batch.observations, batch.actions)
    changed, offset = (q - logged).var(axis=0).mean(), logged.var(axis=0).mean()
    assert metrics["policy/action_share"] == pytest.approx(changed / (changed + offset), rel=1e-4)
    weights = 1.0 + BETA * (q - q.mean(axis=0)) / q.std(axis=0)
    assert metrics["policy/pushed_down"] == pytest.approx((weights < 0).mean(), abs=1e-6)


def test_the_policy_moves_at_every_kth_update_and_the_critics_at_all() -> None:
    often, state = prepare("msg", config_of())
    seldom, _ = prepare("msg", config_of(policy_every=3))
    one = two = state
    for step in range(4):
        previous = two
        one, report = often(one._replace(policy=two.policy), make_batch(step), jax.random.key(step))
        two, metrics = seldom(two, make_batch(step), jax.random.key(step))
        moved = any(
            not np.array_equal(a, b)
            for a, b in zip(*map(jax.tree.leaves, (previous.policy, two.policy)), strict=True)
        )
        assert moved == (step % 3 == 0)
        for a, b in zip(*(jax.tree.leaves(s.critics) for s in (one, two)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        times = 3.0 if step % 3 == 0 else 0.0  # the mean over steps is the policy's own
        assert float(metrics["policy/q"]) == pytest.approx(
            times * float(report["policy/q"]), abs=1e-4
        )


def test_the_average_of_the_policy_acts() -> None:
    config = config_of(policy_average=0.25)
    algorithm = make_msg(config, OBSERVATION, ACTION)
    update, state = prepare("msg", config)
    state = state._replace(policy_average=state.policy.params)
    after, _ = update(state, make_batch(), KEY)
    assert after.policy_average is not None
    for slow, old, new in zip(
        *map(jax.tree.leaves, (after.policy_average, state.policy.params, after.policy.params)),
        strict=True,
    ):
        np.testing.assert_allclose(slow, 0.75 * old + 0.25 * new, rtol=1e-5, atol=1e-7)
    observations = make_batch().observations
    acted = algorithm.act(after, observations)
    np.testing.assert_allclose(acted, after.policy_average.act(observations), rtol=1e-6)
    assert not np.allclose(acted, after.policy.params.act(observations), rtol=1e-6, atol=0)


def test_a_deterministic_policy_and_the_clipped_noise_in_its_targets() -> None:
    config = config_of(
        policy="deterministic", entropy="off", alpha=0.0, target_noise=0.6, target_noise_clip=0.3
    )
    state, after, batch, noise, _ = one_step(config)
    before = double(state)

    def action(policy: Any, observations: np.ndarray) -> np.ndarray:
        return np.tanh(mlp(policy.network, observations))

    def policy_loss(policy: Any) -> float:
        q = critics(before.critics.online, batch.observations, action(policy, batch.observations))
        return -(q.mean(axis=0) + BETA * q.std(axis=0)).mean()

    def critic_loss(networks: Any) -> float:
        total = 0.0
        for i in range(3):
            shift = np.clip(0.6 * noise.member_actions[i], -0.3, 0.3)
            following = np.clip(
                action(before.policy.params, batch.next_observations) + shift, -1.0, 1.0
            )
            next_q = critics(before.critics.target, batch.next_observations, following)[i]
            y = batch.rewards + GAMMA * batch.discounts * next_q
            q = critics(networks, batch.observations, batch.actions)[i]
            total += 0.5 * (noise.weights[i, 0] * (q - y) ** 2).mean()
        return total

    check_gradient(policy_loss, state.policy.params, after.policy.optimiser)
    check_gradient(critic_loss, state.critics.online, after.critic_optimiser)


# ---- the critics --------------------------------------------------------------------------------------


def gaussian_share(low: float, high: float, mean: float, deviation: float) -> float:
    """What of a Gaussian falls between two numbers."""
    return 0.5 * (
        erf((high - mean) / (deviation * sqrt(2.0))) - erf((low - mean) / (deviation * sqrt(2.0)))
    )


def two_hot_free(y: float) -> np.ndarray:
    """A target as shares of bins, in a plain loop."""
    width = (HIGH - LOW) / BINS
    y = min(max(y, LOW), HIGH)
    shares = [
        gaussian_share(LOW + k * width, LOW + (k + 1) * width, y, 0.75 * width) for k in range(BINS)
    ]
    return np.array(shares) / sum(shares)


def test_a_target_becomes_a_distribution_whose_mean_it_is() -> None:
    bins = Bins(LOW, HIGH, BINS)
    targets = np.array([-9.0, -6.0, -0.3, 0.0, 2.2, 5.0])
    found = np.asarray(bins.distribution(jnp.asarray(targets, jnp.float32)))
    np.testing.assert_allclose(found, [two_hot_free(y) for y in targets], atol=1e-5)
    many = Bins(LOW, HIGH, 101)
    inside = jnp.asarray([-4.0, 0.0, 3.3])
    logits = jnp.log(many.distribution(inside) + 1e-20)
    np.testing.assert_allclose(many.value(logits), inside, atol=1e-3)


@pytest.mark.parametrize(
    "targets", ["independent", pytest.param("double-q", marks=pytest.mark.long)]
)
def test_critics_of_bins_learn_by_cross_entropy(targets: str) -> None:
    config = config_of(
        critic_loss="hl-gauss",
        value_range=(LOW, HIGH),
        bins=BINS,
        targets=targets,
        regulariser_samples="own",
    )
    state, after, batch, noise, metrics = one_step(config)
    before, heads = double(state), 2 if targets == "double-q" else 1
    centres = LOW + (np.arange(BINS) + 0.5) * (HIGH - LOW) / BINS

    def outputs(networks: Any, i: int, observations: Any, actions: Any) -> np.ndarray:
        """(head, batch, bin) logits of one member."""
        pairs = np.concatenate([observations, actions], axis=-1)
        return np.stack(
            [mlp(jax.tree.map(lambda x: x[i, h], networks), pairs) for h in range(heads)]
        )

    def value(logits: np.ndarray) -> np.ndarray:
        shares = np.exp(logits - logits.max(-1, keepdims=True))
        return (shares / shares.sum(-1, keepdims=True)) @ centres

    def loss(networks: Any) -> float:
        total = 0.0
        distribution = tanh_gaussian(before.policy.params, batch.observations)
        following = tanh_gaussian(before.policy.params, batch.next_observations)
        for i in range(3):
            draws = noise.member_actions[i]
            there = outputs(
                before.critics.target, i, batch.next_observations, sample(following, draws)
            )
            y = batch.rewards + GAMMA * batch.discounts * value(there).min(axis=0)
            logits = outputs(networks, i, batch.observations, batch.actions)
            log_shares = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
            wanted = np.stack([two_hot_free(t) for t in y])
            total += (noise.weights[i] * -(wanted * log_shares).sum(-1)).mean()
            own = outputs(networks, i, batch.observations, sample(distribution, draws))
            total += ALPHA * (value(own).min(axis=0) - value(logits).min(axis=0)).mean()
        return total

    check_gradient(loss, state.critics.online, after.critic_optimiser)
    logged = [
        value(outputs(before.critics.online, i, batch.observations, batch.actions))
        for i in range(3)
    ]
    assert float(metrics["critic/q"]) == pytest.approx(np.mean(logged), abs=1e-4)


@pytest.mark.parametrize(
    "ensemble",
    [
        "multihead",
        "batch",
        *(
            pytest.param(kind, marks=pytest.mark.long)
            for kind in ("mimo", "tree", "prior", "dropout")
        ),
    ],
)
def test_every_kind_of_ensemble_can_have_bins(ensemble: str) -> None:
    config = config_of(
        ensemble=ensemble, members=4, critic_loss="hl-gauss", value_range=(LOW, HIGH), bins=BINS
    )
    algorithm = make_msg(config, OBSERVATION, ACTION)
    assert algorithm.values is not None
    batch = make_batch()
    state = jax.jit(algorithm.init)(KEY)
    if ensemble in ("mimo", "batch"):  # whose rows are arranged for each member
        after, metrics = jax.jit(algorithm.update)(state, batch, KEY)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((after, metrics)))
        state = after
    else:  # compiling an update for each would show nothing more
        shapes, _ = jax.eval_shape(algorithm.update, state, batch, KEY)
        assert jax.tree.map(jnp.shape, shapes) == jax.tree.map(jnp.shape, state)
    values = jax.jit(algorithm.values)(state, batch.observations, batch.actions)
    assert values.shape == (4, SIZE)
    assert float(values.min()) >= LOW and float(values.max()) <= HIGH


@pytest.mark.long
def test_bins_in_windows_learn_what_they_learn_at_once() -> None:
    ends = []
    for window in (None, 2):
        config = config_of(
            members=4,
            critic_loss="hl-gauss",
            value_range=(LOW, HIGH),
            bins=BINS,
            targets="shared-lcb",
        )
        update, state = prepare("msg", config, Execution(window=window))
        ends.append(update(state, make_batch(), KEY)[0])
    for a, b in zip(*map(jax.tree.leaves, ends), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def test_the_authors_self_supervised_loss() -> None:
    """Their numbers: features as they are, temperature 1, half of it against the target networks."""
    config = config_of(sass=0.8, alpha=0.0, regulariser_samples="own")
    rng = np.random.default_rng(7)
    next_actions = rng.uniform(-0.9, 0.9, (SIZE, ACTION)).astype(np.float32)
    next_actions[1] = np.nan  # nothing was logged after the second row
    batch32 = make_batch()._replace(next_actions=jnp.asarray(next_actions))
    state, after, batch, noise, _ = one_step(config, batch32)
    before = double(state)
    ensemble_key = draw_noise(config, SIZE, ACTION, shared=False, key=KEY).ensemble_key
    assert ensemble_key is not None
    uniform = np.asarray(
        jax.random.uniform(jax.random.fold_in(ensemble_key, 1), (SIZE, ACTION), minval=-1.0),
        np.float64,
    )
    following = np.where(np.isfinite(batch.next_actions), batch.next_actions, uniform)
    following[SIZE // 2 :] = uniform[SIZE // 2 :]

    def features(networks: Any, i: int, observations: Any, actions: Any) -> np.ndarray:
        network = jax.tree.map(lambda x: x[i, 0], networks)
        units = np.concatenate([observations, actions], axis=-1)
        for layer in network.layers[:-1]:
            units = np.maximum(units @ layer.weight + layer.bias, 0.0)
        return units

    def contrast(first: np.ndarray, second: np.ndarray) -> float:
        rows = np.concatenate([first, second])
        similar, losses = rows @ rows.T, []
        for k in range(2 * SIZE):
            others = np.delete(similar[k], k)
            losses.append(np.log(np.exp(others).sum()) - similar[k, (k + SIZE) % (2 * SIZE)])
        return float(np.mean(losses))

    def loss(networks: Any) -> float:
        total = 0.0
        pi = tanh_gaussian(before.policy.params, batch.next_observations)
        for i in range(3):
            actions = sample(pi, noise.member_actions[i])
            next_q = critics(before.critics.target, batch.next_observations, actions)[i]
            y = batch.rewards + GAMMA * batch.discounts * next_q
            q = critics(networks, batch.observations, batch.actions)[i]
            total += 0.5 * (noise.weights[i, 0] * (q - y) ** 2).mean()
            here = features(networks, i, batch.observations, batch.actions)
            there = features(before.critics.target, i, batch.next_observations, following)
            total += 0.8 * 0.5 * (contrast(here, there) + contrast(here, here))
        return total

    check_gradient(loss, state.critics.online, after.critic_optimiser)
    assert make_msg(config, OBSERVATION, ACTION).wants_next_actions


# ---- wrong input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"policy": "deterministic"}, "--policy deterministic has no entropy.*--entropy off"),
        ({"cloning": -1.0}, "--cloning is -1.0, but must be at least 0"),
        ({"policy_every": 0}, "--policy-every is 0"),
        ({"policy_average": 1.5}, "--policy-average is 1.5"),
        ({"bins": 1}, "--bins is 1"),
        ({"value_range": (2.0, 1.0)}, "--value-range"),
        ({"sass": 1.0, "ensemble": "tree"}, "--sass cannot be combined with --ensemble tree"),
        (
            {"critic_loss": "hl-gauss", "ensemble": "a:B"},
            "hl-gauss cannot be combined with --ensemble a:B",
        ),
        (
            {"bound": "relative", "ensemble": "batch", "members": 4},
            "--bound relative cannot be combined with",
        ),
    ],
    ids=str,
)
def test_settings_that_make_no_sense(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(CharyError, match=words):
        config_of(**changes)


def test_bins_need_a_range() -> None:
    with pytest.raises(CharyError, match="--value-range LOW HIGH"):
        make_msg(config_of(critic_loss="hl-gauss"), OBSERVATION, ACTION)


def test_a_sample_of_a_deterministic_policy_has_the_noise_of_targets() -> None:
    config = config_of(
        policy="deterministic", entropy="off", target_noise=0.3, target_noise_clip=0.4
    )
    algorithm = make_msg(config, OBSERVATION, ACTION)
    state = algorithm.init(KEY)
    observations = make_batch().observations
    mode = np.asarray(algorithm.act(state, observations), np.float64)
    drawn = np.asarray(jax.random.normal(KEY, mode.shape), np.float64)
    expected = np.clip(mode + np.clip(0.3 * drawn, -0.4, 0.4), -1.0, 1.0)
    np.testing.assert_allclose(algorithm.act(state, observations, key=KEY), expected, atol=1e-6)
    assert not np.allclose(mode, expected)
