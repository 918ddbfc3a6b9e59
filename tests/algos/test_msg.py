"""MSG against plain NumPy, and the invariants that make its spread mean uncertainty."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chary
from chary import algos
from chary.algos import msg_parts
from chary.algos.bc import BCConfig, make_bc
from chary.algos.msg import MSGState, make_msg
from chary.algos.msg_config import MSGConfig
from chary.algos.msg_noise import Noise, draw_noise
from chary.data.dataset import Dataset
from chary.errors import CharyError
from chary.execution.config import Execution
from chary.networks.optimisers import Trained
from chary.networks.targets import TARGETS, lower_confidence_bound
from chary.runs.folder import RunFolder
from chary.training import resolve
from chary.types import Algorithm, Batch
from tests.conftest import forget_programs

OBSERVATION, ACTION, SIZE = 3, 2, 3
TINY = {"members": 2, "hidden": (4, 4), "warmup_steps": 0, "policy_learning_rate": 3e-4}


def make_batch(seed: int = 0, size: int = SIZE) -> Batch:
    rng = np.random.default_rng(seed)
    return Batch(
        observations=jnp.asarray(rng.standard_normal((size, OBSERVATION)), jnp.float32),
        actions=jnp.asarray(rng.uniform(-0.9, 0.9, (size, ACTION)), jnp.float32),
        rewards=jnp.asarray(rng.standard_normal(size), jnp.float32),
        discounts=jnp.asarray([1.0, 0.0, 1.0] * (size // 3), jnp.float32),
        next_observations=jnp.asarray(rng.standard_normal((size, OBSERVATION)), jnp.float32),
    )


def setup(**changes: Any) -> tuple[MSGConfig, Algorithm[MSGState], MSGState]:
    execution = Execution(window=changes.pop("window", None))
    config = MSGConfig(**{**TINY, **changes})
    algorithm = algos.build("msg", config, OBSERVATION, ACTION, execution)
    # Its first state is not compiled as a whole: the parts are the same for most settings.
    state = algorithm.init(jax.random.key(0))
    return config, replace(algorithm, update=jax.jit(algorithm.update)), state


def bits(tree: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]


# ---- the same algorithm in double precision, loops and all -----------------------------------------


class Reference:
    """One MSG step in NumPy; gradients by central differences, so no derivative is taken over."""

    def __init__(self, config: MSGConfig, heads: int):
        self.config = config
        self.heads = heads

    @staticmethod
    def network(layers: list[np.ndarray], inputs: np.ndarray) -> np.ndarray:
        for weight, bias in zip(layers[0:-2:2], layers[1:-2:2], strict=True):
            inputs = np.maximum(inputs @ weight + bias, 0.0)
        return inputs @ layers[-2] + layers[-1]

    def value(
        self, critics: list[np.ndarray], member: int, states: np.ndarray, actions: np.ndarray
    ) -> np.ndarray:
        """(head, batch) values of one member."""
        pairs = np.concatenate([states, actions], axis=1)
        return np.stack(
            [
                self.network([p[member, head] for p in critics], pairs)[:, 0]
                for head in range(self.heads)
            ]
        )

    def policy(self, policy: list[np.ndarray], states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        *trunk, loc, loc_bias, scale, scale_bias = policy
        features = np.maximum(self.network(trunk, states), 0.0)
        return features @ loc + loc_bias, np.log1p(np.exp(features @ scale + scale_bias)) + 0.01

    def critic_loss(
        self,
        critics: list[np.ndarray],
        target: list[np.ndarray],
        policy: list[np.ndarray],
        batch: Any,
        noise: Any,
    ) -> float:
        total = 0.0
        next_loc, next_scale = self.policy(policy, batch.next_observations)
        loc, scale = self.policy(policy, batch.observations)
        draws = np.broadcast_to(noise.member_actions, (self.config.members, SIZE, ACTION))
        next_values = []
        for i in range(self.config.members):
            next_actions = np.tanh(next_loc + next_scale * draws[i])
            both = self.value(target, i, batch.next_observations, next_actions)
            next_values.append(both.min(axis=0))
        if self.config.targets == "shared-min":
            next_values = [np.min(next_values, axis=0)] * self.config.members
        if self.config.targets == "shared-lcb":
            assert self.config.target_beta is not None
            bound = np.mean(next_values, 0) + self.config.target_beta * np.std(next_values, 0)
            next_values = [bound] * self.config.members
        for i, next_value in enumerate(next_values):
            wanted = batch.rewards + self.config.discount * batch.discounts * next_value
            q = self.value(critics, i, batch.observations, batch.actions)
            # Half the mean over batch and both networks, each with weights of its own.
            total += 0.5 * np.mean(noise.weights[i] * (q - wanted) ** 2)
            shared = self.config.regulariser_samples == "shared"
            policy_actions = np.tanh(loc + scale * (noise.policy_actions if shared else draws[i]))
            q_policy = self.value(critics, i, batch.observations, policy_actions)
            total += self.config.alpha * np.mean(q_policy.min(axis=0) - q.min(axis=0))
        return total

    def policy_loss(
        self,
        policy: list[np.ndarray],
        critics: list[np.ndarray],
        temperature: float,
        batch: Any,
        noise: Any,
    ) -> tuple[float, float]:
        loc, scale = self.policy(policy, batch.observations)
        raw = loc + scale * noise.policy_actions
        actions = np.tanh(raw)
        density = np.exp(-0.5 * ((raw - loc) / scale) ** 2) / (scale * np.sqrt(2 * np.pi))
        log_prob = (np.log(density) - np.log(1 - actions**2)).sum(axis=1)
        q = np.stack(
            [
                self.value(critics, i, batch.observations, actions).min(axis=0)
                for i in range(self.config.members)
            ]
        )
        spread = np.sqrt(((q - q.mean(axis=0)) ** 2).mean(axis=0))
        bound = q.mean(axis=0) + self.config.beta * spread
        if self.config.targets == "shared-min":
            bound = q.min(axis=0) if self.config.min_over == "members" else q.min()
        if self.config.bound == "expectation":
            means = q.mean(axis=1)
            bound = means.mean() + self.config.beta * np.sqrt(((means - means.mean()) ** 2).mean())
        return float(-np.mean(bound - temperature * log_prob)), float(-log_prob.mean())


def differences(
    loss: Callable[[list[np.ndarray]], float], params: list[np.ndarray]
) -> list[np.ndarray]:
    """Central finite differences of a scalar loss."""
    gradients = [np.zeros_like(p) for p in params]
    for param, gradient in zip(params, gradients, strict=True):
        for index in np.ndindex(param.shape):
            kept = param[index]
            param[index] = kept + 1e-6
            above = loss(params)
            param[index] = kept - 1e-6
            gradient[index] = (above - loss(params)) / 2e-6
            param[index] = kept
    return gradients


def numpy_adam(
    params: list[np.ndarray], gradients: list[np.ndarray], moments: list[Any], rate: float, t: int
) -> list[np.ndarray]:
    updated = []
    for k, (param, gradient) in enumerate(zip(params, gradients, strict=True)):
        m, v = moments[k]
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        moments[k] = (m, v)
        direction = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        updated.append(param - rate * direction)
    return updated


def doubles(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(tree)]


def away_from_kinks(state: MSGState) -> MSGState:
    """Random biases: at zero ones some units sit exactly where ReLU has no derivative."""
    rng = np.random.default_rng(0)

    def jiggle(tree: Any) -> Any:
        return jax.tree.map(lambda x: x + 0.2 * rng.standard_normal(x.shape, np.float32), tree)

    critics = state.critics._replace(
        online=jiggle(state.critics.online), target=jiggle(state.critics.target)
    )
    policy = state.policy._replace(params=jiggle(state.policy.params))
    return state._replace(policy=policy, critics=critics)


@pytest.mark.parametrize(
    ("targets", "samples", "more"),
    [
        ("independent", "own", {}),
        ("double-q", "shared", {"bound": "expectation"}),
        ("shared-lcb", "own", {"next_actions": "own"}),
        ("shared-min", "shared", {"next_actions": "shared"}),
        ("shared-min", "own", {"min_over": "batch"}),
    ],
)
def test_two_updates_equal_a_plain_numpy_computation(
    targets: str, samples: str, more: dict[str, Any]
) -> None:
    config, algorithm, state = setup(
        **more,
        targets=targets,
        alpha=0.5,
        regulariser_samples=samples,
        beta=-2.0,
        target_beta=-1.3,
        temperature=0.3,
    )
    state = away_from_kinks(state)
    reference = Reference(config, heads=2 if targets == "double-q" else 1)
    critics, target = doubles(state.critics.online), doubles(state.critics.target)
    policy, log_temperature = doubles(state.policy.params), float(state.log_temperature.params)
    moments = {
        name: [(np.zeros_like(p), np.zeros_like(p)) for p in params]
        for name, params in (
            ("critics", critics),
            ("policy", policy),
            ("temperature", [np.zeros(())]),
        )
    }
    for t in (1, 2):  # the second step shows the size of the gradients, not only their sign
        batch, key = make_batch(seed=t), jax.random.key(t)
        shared = more.get("next_actions") == "shared"
        noise = draw_noise(config, SIZE, ACTION, shared=shared, key=key)
        batch64, noise64 = (
            jax.tree.map(lambda a: np.asarray(a, np.float64), x)
            for x in (batch, noise._replace(ensemble_key=None))
        )
        state, metrics = algorithm.update(state, batch, key)

        def critic_loss(params: list[np.ndarray]) -> float:
            return reference.critic_loss(params, target, policy, batch64, noise64)

        def policy_loss(params: list[np.ndarray]) -> tuple[float, float]:
            return reference.policy_loss(params, critics, np.exp(log_temperature), batch64, noise64)

        td = 2 * float(metrics["critic/td"]) + 2 * 0.5 * float(metrics["critic/regulariser"])
        assert td == pytest.approx(critic_loss(critics), abs=1e-5)
        loss, entropy = policy_loss(policy)
        bonus = float(metrics["policy/temperature"]) * float(metrics["policy/entropy"])
        assert -float(metrics["policy/objective"]) - bonus == pytest.approx(loss, abs=1e-5)
        assert float(metrics["policy/entropy"]) == pytest.approx(entropy, abs=1e-5)

        critic_gradient = differences(critic_loss, critics)
        policy_gradient = differences(lambda p: policy_loss(p)[0], policy)
        # The target entropy is minus the number of actions.
        temperature_gradient = np.asarray(np.exp(log_temperature) * (entropy + ACTION))
        critics = numpy_adam(critics, critic_gradient, moments["critics"], 3e-4, t)
        policy = numpy_adam(policy, policy_gradient, moments["policy"], 3e-4, t)
        (log_t,) = numpy_adam(
            [np.asarray(log_temperature)], [temperature_gradient], moments["temperature"], 3e-4, t
        )
        log_temperature = float(log_t)
        target = [slow + 0.005 * (new - slow) for slow, new in zip(target, critics, strict=True)]

    for mine, theirs in (
        (state.critics.online, critics),
        (state.critics.target, target),
        (state.policy.params, policy),
        (state.log_temperature.params, [np.asarray(log_temperature)]),
        (state.critic_optimiser.mu, [m for m, _ in moments["critics"]]),
        (state.critic_optimiser.nu, [v for _, v in moments["critics"]]),
        (state.policy.optimiser.mu, [m for m, _ in moments["policy"]]),
    ):
        for a, b in zip(doubles(mine), theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "targets", [pytest.param("double-q", marks=pytest.mark.long), "shared-mean"]
)
def test_one_backward_pass_for_two_purposes_equals_one_for_each(
    targets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where every member's own sample happens to be the policy's, the two ways are the same update."""
    results = []
    for samples in ("shared", "own"):
        forget_programs()
        config, algorithm, state = setup(members=3, targets=targets, regulariser_samples=samples)
        noise = draw_noise(config, SIZE, ACTION, shared=False, key=jax.random.key(1))
        each = jnp.broadcast_to(noise.policy_actions, noise.member_actions.shape)
        noise = noise._replace(member_actions=each)
        monkeypatch.setattr(msg_parts, "draw_noise", lambda *_, noise=noise, **__: noise)
        results.append(algorithm.update(away_from_kinks(state), make_batch(), jax.random.key(1)))
    shared, own = results
    for a, b in zip(doubles(shared), doubles(own), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


# ---- independence ------------------------------------------------------------------------------------


def member_of(state: MSGState, index: int) -> Any:
    trees = (
        state.critics.online,
        state.critics.target,
        state.critic_optimiser.mu,
        state.critic_optimiser.nu,
    )
    return jax.tree.map(lambda x: x[index], trees)


@pytest.mark.parametrize("targets", ["independent", "double-q"])
def test_changing_one_member_leaves_every_other_update_unchanged_to_the_bit(targets: str) -> None:
    _, algorithm, state = setup(members=3, targets=targets)
    online, target = (jax.tree.map(lambda x: x.at[1].add(0.7), tree) for tree in state.critics)
    changed = state._replace(critics=state.critics._replace(online=online, target=target))
    plain, _ = algorithm.update(state, make_batch(), jax.random.key(5))
    other, _ = algorithm.update(changed, make_batch(), jax.random.key(5))
    for index in (0, 2):
        assert bits(member_of(plain, index)) == bits(member_of(other, index))
    assert bits(member_of(plain, 1)) != bits(member_of(other, 1))
    assert bits(plain.policy) != bits(other.policy)


def test_permuting_members_with_their_draws_permutes_the_update(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order = np.array([2, 0, 1])
    config, algorithm, state = setup(members=3)
    key = jax.random.key(1)
    straight, _ = algorithm.update(state, make_batch(), key)
    noise = draw_noise(config, SIZE, ACTION, shared=False, key=key)
    shuffled = Noise(
        noise.member_actions[order],
        noise.policy_actions,
        noise.weights[order],
    )
    monkeypatch.setattr(msg_parts, "draw_noise", lambda *_, **__: shuffled)
    forget_programs()
    _, algorithm, _ = setup(members=3)  # traced again, with the shuffled draws
    critics = jax.tree.map(lambda x: x[order], state.critics)
    permuted, _ = algorithm.update(state._replace(critics=critics), make_batch(), key)
    for mine, theirs in (
        (straight.critics, permuted.critics),
        (
            straight.policy.params,
            permuted.policy.params,
        ),
    ):
        rows = order if mine is straight.critics else slice(None)
        for a, b in zip(doubles(mine), doubles(theirs), strict=True):
            np.testing.assert_allclose(a[rows], b, rtol=1e-5, atol=1e-6)


def test_a_members_gradient_does_not_depend_on_how_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forget_programs()
    config, many, state = setup(members=3)
    noise = draw_noise(config, SIZE, ACTION, shared=False, key=jax.random.key(1))
    monkeypatch.setattr(msg_parts, "draw_noise", lambda *_, **__: noise)
    together, _ = many.update(state, make_batch(), jax.random.key(1))
    _, one, alone_state = setup(members=1)
    first = Noise(
        noise.member_actions[:1],
        noise.policy_actions,
        noise.weights[:1],
    )
    monkeypatch.setattr(msg_parts, "draw_noise", lambda *_, **__: first)
    alone_state = alone_state._replace(
        critics=jax.tree.map(lambda x: x[:1], state.critics), policy=state.policy
    )
    alone, _ = one.update(alone_state, make_batch(), jax.random.key(1))
    for a, b in zip(
        doubles(together.critic_optimiser.mu), doubles(alone.critic_optimiser.mu), strict=True
    ):
        np.testing.assert_allclose(a[:1], b, rtol=1e-5, atol=1e-7)


def test_members_start_different_and_targets_start_equal_to_them() -> None:
    _, _, state = setup(members=3)
    first = state.critics.online.layers[0].weight
    assert len({w.tobytes() for w in np.asarray(first)}) == 3
    assert bits(state.critics.online) == bits(state.critics.target)


# ---- the parts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("members", [1, 3])
def test_the_policy_gradient_is_finite_for_one_member_and_for_identical_ones(members: int) -> None:
    _, algorithm, state = setup(members=members, beta=-4.0)
    same = jax.tree.map(lambda x: jnp.broadcast_to(x[:1], x.shape), state.critics)
    after, metrics = algorithm.update(state._replace(critics=same), make_batch(), jax.random.key(0))
    assert float(metrics["policy/std"]) == pytest.approx(0.0, abs=1e-6)
    assert all(np.isfinite(leaf).all() for leaf in doubles(after))
    assert bits(after.policy) != bits(state.policy)


def test_warming_up_is_behavioural_cloning_while_the_critics_learn_as_usual() -> None:
    _, warm, state = setup(warmup_steps=10)
    _, cold, _ = setup(warmup_steps=0)
    warmed, _ = warm.update(state, make_batch(), jax.random.key(2))
    usual, _ = cold.update(state, make_batch(), jax.random.key(2))
    assert bits(warmed.critics) == bits(usual.critics)
    assert bits(warmed.log_temperature) == bits(state.log_temperature)
    cloning = make_bc(BCConfig(hidden=(4, 4), learning_rate=3e-4), OBSERVATION, ACTION)
    fresh = cloning.init(jax.random.key(0))
    start = fresh._replace(policy=state.policy.params, optimiser=state.policy.optimiser)
    cloned, _ = jax.jit(cloning.update)(start, make_batch(), jax.random.key(3))
    for a, b in zip(doubles(warmed.policy.params), doubles(cloned.policy), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    assert bits(usual.policy) != bits(warmed.policy)


@pytest.mark.parametrize(("mode", "moves"), [("tuned", True), ("fixed", False), ("off", False)])
def test_only_a_tuned_temperature_moves(mode: str, moves: bool) -> None:
    _, algorithm, state = setup(entropy=mode)
    after, _ = algorithm.update(state, make_batch(), jax.random.key(0))
    assert (bits(after.log_temperature) != bits(state.log_temperature)) == moves


def test_the_temperature_falls_while_the_policy_is_more_random_than_asked() -> None:
    _, algorithm, state = setup()
    for target_entropy, falls in ((-50.0, True), (50.0, False)):
        asked = state.hyper._replace(target_entropy=jnp.float32(target_entropy))
        state = state._replace(hyper=asked)
        after, _ = algorithm.update(state, make_batch(), jax.random.key(0))
        assert bool(after.log_temperature.params < state.log_temperature.params) == falls


def test_without_the_bonus_entropy_does_not_enter_the_policy_update() -> None:
    _, off, state = setup(entropy="off")
    hot = state._replace(log_temperature=Trained.of(jnp.log(jnp.float32(9.0))))
    a, _ = off.update(state, make_batch(), jax.random.key(0))
    b, _ = off.update(hot, make_batch(), jax.random.key(0))
    assert bits(a.policy) == bits(b.policy)


def test_no_regulariser_is_the_limit_of_a_small_one() -> None:
    _, without, state = setup(alpha=0.0)
    _, little, _ = setup()
    little_state = state._replace(hyper=state.hyper._replace(alpha=jnp.float32(1e-12)))
    a, metrics = without.update(state, make_batch(), jax.random.key(0))
    b, _ = little.update(little_state, make_batch(), jax.random.key(0))
    assert float(metrics["critic/regulariser"]) == 0.0
    for x, y in zip(doubles(a.critic_optimiser.mu), doubles(b.critic_optimiser.mu), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-8)


def test_the_regulariser_pulls_policy_actions_below_data_actions() -> None:
    _, algorithm, state = setup(alpha=100.0, critic_learning_rate=1e-2)
    batch = make_batch(size=30)
    _, before = algorithm.update(state, batch, jax.random.key(0))
    metrics = before
    for step in range(20):
        state, metrics = algorithm.update(state, batch, jax.random.key(step))
    assert metrics["critic/regulariser"] < before["critic/regulariser"]


def test_random_weights_are_drawn_from_zero_to_two_for_each_member() -> None:
    config = MSGConfig(**TINY)
    weights = draw_noise(config, 4000, ACTION, shared=False, key=jax.random.key(0)).weights
    assert weights.shape == (2, 1, 4000)
    assert float(weights.min()) >= 0.0 and float(weights.max()) <= 2.0
    assert float(weights.mean()) == pytest.approx(1.0, abs=0.03)
    assert not np.array_equal(weights[0], weights[1])
    pairs = MSGConfig(**TINY, targets="double-q")
    drawn = draw_noise(pairs, 9, ACTION, shared=False, key=jax.random.key(0)).weights
    assert drawn.shape == (2, 2, 9) and not np.array_equal(drawn[:, 0], drawn[:, 1])
    plain = MSGConfig(**TINY, random_weights=False)
    assert bool(
        (draw_noise(plain, 9, ACTION, shared=False, key=jax.random.key(0)).weights == 1).all()
    )


def test_shared_noise_is_one_sample_for_all_members() -> None:
    noise = draw_noise(MSGConfig(**TINY), 5, ACTION, shared=True, key=jax.random.key(0))
    assert noise.member_actions.shape == (5, ACTION)
    own = draw_noise(MSGConfig(**TINY), 5, ACTION, shared=False, key=jax.random.key(0))
    assert not np.array_equal(own.member_actions[0], own.member_actions[1])


def test_settings_are_traced_so_one_program_serves_every_value() -> None:
    _, algorithm, state = setup(beta=-4.0)
    traces = 0

    def counted(state: MSGState, batch: Batch, key: jax.Array) -> Any:
        nonlocal traces
        traces += 1
        return algorithm.update(state, batch, key)

    update = jax.jit(counted)
    other = state._replace(hyper=state.hyper._replace(beta=jnp.float32(-8.0)))
    a, _ = update(state, make_batch(), jax.random.key(0))
    b, _ = update(other, make_batch(), jax.random.key(0))
    assert traces == 1
    assert bits(a.policy) != bits(b.policy)
    assert bits(a.critics) == bits(b.critics)


def test_the_temperature_is_tuned_only_after_the_warm_up() -> None:
    _, algorithm, state = setup(warmup_steps=2)
    start = state.log_temperature
    for step in range(2):
        state, _ = algorithm.update(state, make_batch(), jax.random.key(step))
        assert bits(state.log_temperature) == bits(start)
    state, _ = algorithm.update(state, make_batch(), jax.random.key(2))
    moved = abs(float(state.log_temperature.params - start.params))
    assert moved == pytest.approx(3e-4, rel=1e-3)  # Adam's first step, whatever the gradient


@pytest.mark.parametrize("rate", [0.0, -1e-3, float("nan"), float("inf")])
def test_a_learning_rate_that_would_not_learn(rate: float) -> None:
    told = rf"must be above 0{'' if np.isfinite(rate) else ' and finite'}\.$"
    with pytest.raises(CharyError, match=told):
        MSGConfig(critic_learning_rate=rate)
    with pytest.raises(CharyError, match=told):
        BCConfig(learning_rate=rate)


def test_the_target_entropy_is_minus_the_number_of_actions_unless_given() -> None:
    for given, found in (("auto", -ACTION), (-0.5, -0.5), (0.0, 0.0)):
        _, _, state = setup(target_entropy=given)
        assert float(state.hyper.target_entropy) == found
    assert MSGConfig().target_entropy == "auto"


@pytest.mark.long
def test_a_run_records_the_number_of_its_target_entropy(dataset: Dataset, tmp_path: Path) -> None:
    tiny = {"members": 2, "hidden": (4,), "batch_size": 8, "warmup_steps": 0, "steps": 1}
    run = tmp_path / "run"
    chary.train("msg", dataset, preset="small", run=run, final_episodes=0, **tiny)
    assert RunFolder.open(run).config["settings"]["target_entropy"] == -2.0
    for preset in ("paper-antmaze", "paper-gym", "small"):
        spec = resolve.resolve("msg", "tiny", preset, None, tiny)
        assert resolve.complete(spec, dataset)[0].config.target_entropy == -2.0


def test_the_targets_pessimism_is_the_policys_unless_given() -> None:
    for given, found in ((None, -4.0), (-1.0, -1.0), (0.0, 0.0)):
        algorithm = make_msg(MSGConfig(**TINY, beta=-4.0, target_beta=given), OBSERVATION, ACTION)
        assert float(algorithm.init(jax.random.key(0)).hyper.target_beta) == found


BAD_SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "optimistic targets": ({"target_beta": 0.5}, "--target-beta is 0.5, but must be at most 0"),
    "unknown ensemble": ({"ensemble": "dep"}, "unknown ensemble 'dep'. Did you mean deep"),
    "deep trunk": ({"ensemble": "tree", "shared_layers": 4}, "number of hidden layers .3."),
    "less than none": ({"shared_layers": -1}, "--shared-layers is -1"),
    "repetition": ({"mimo_repetition": 1.5}, "--mimo-repetition is 1.5"),
    "prior": ({"prior_scale": -1.0}, "--prior-scale is -1.0"),
    "no dropout": ({"dropout": 0.0}, "--dropout is 0.0, but must be above 0 and below 1"),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_settings_of_targets_and_ensembles_that_make_no_sense(case: str) -> None:
    settings, words = BAD_SETTINGS[case]
    with pytest.raises(CharyError, match=words):
        MSGConfig(**settings)


# ---- a few members at a time -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("targets", "samples", "alpha", "ensemble"),
    [
        pytest.param("double-q", "shared", 0.5, "prior", marks=pytest.mark.long),
        ("shared-lcb", "own", 0.5, "deep"),
    ],
)
def test_windows_of_members_learn_what_all_learn_at_once(
    targets: str, samples: str, alpha: float, ensemble: str
) -> None:
    """Equal but for rounding: a product of fewer matrices may be added up in another order.

    Windows of one member, with other settings: `tests/execution/test_plain.py`.
    """
    settings = {
        "members": 4,
        "hidden": (4,),
        "targets": targets,
        "regulariser_samples": samples,
        "alpha": alpha,
        "ensemble": ensemble,
    }
    ends = []
    for window in (None, 2):
        _, algorithm, state = setup(**settings, window=window)
        state, metrics = away_from_kinks(state), {}
        for step in range(3):
            state, metrics = algorithm.update(state, make_batch(step), jax.random.key(step))
        ends.append((state, metrics))
    for a, b in zip(*map(doubles, ends), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("samples", "alpha", "layer_norm"),
    [("shared", 0.5, False), pytest.param("own", 0.0, True, marks=pytest.mark.long)],
)
def test_the_policys_actions_beside_the_others_teach_the_critics_nothing(
    samples: str, alpha: float, layer_norm: bool
) -> None:
    """One batch for all purposes, and the same networks as an ensemble of one's own, of which it is not
    known how they learn: there the policy takes a gradient by itself. Equal but for rounding."""
    settings = {"regulariser_samples": samples, "alpha": alpha, "layer_norm": layer_norm}
    ends = []
    for ensemble in ("deep", "chary.ensembles.deep:make_deep"):
        _, algorithm, state = setup(**settings, ensemble=ensemble)
        state = away_from_kinks(state)
        for step in range(3):
            state, _ = algorithm.update(state, make_batch(step), jax.random.key(step))
        ends.append(doubles(state))
    for a, b in zip(*ends, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def test_alpha_must_not_vanish() -> None:
    with pytest.raises(CharyError, match="--alpha is 1e-20, but must be 0, or at least 1e-12"):
        MSGConfig(alpha=1e-20)


@pytest.mark.parametrize(
    ("targets", "expected"),
    [("independent", -3.0), ("shared-lcb", -3.0), ("shared-mean", 0.0), ("shared-min", -1.0)],
)
def test_the_bound_that_is_told_is_the_one_that_is_climbed(targets: str, expected: float) -> None:
    """With two members the smaller value is one deviation below the mean."""
    _, algorithm, state = setup(targets=targets, members=2, beta=-3.0)
    assert algorithm.beta is not None and algorithm.values is not None
    assert float(algorithm.beta(state)) == pytest.approx(expected, abs=1e-6)
    batch = make_batch(0)
    values = algorithm.values(state, batch.observations, batch.actions)
    climbed = TARGETS[targets].objective(values, state.hyper.beta)
    told = lower_confidence_bound(values, algorithm.beta(state))
    np.testing.assert_allclose(told, climbed, rtol=1e-4, atol=1e-5)
