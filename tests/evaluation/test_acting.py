"""Evaluation by the mode and by samples: what an action depends on."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

import chary
from chary import algos
from chary.cli import main
from chary.data.scaling import RewardTransform, Scaling
from chary.envs import Task
from chary.errors import CharyError
from chary.evaluation import acting
from chary.evaluation.acting import MODE, SAMPLE
from chary.evaluation.agent import Agent
from chary.evaluation.rollouts import EvalResult, Moments, evaluate
from chary.training import resolve
from tests.evaluation.test_rollouts import assert_same

SIZES = 3, 2
"""Of observations and actions."""


class Echo(gymnasium.Env[np.ndarray, np.ndarray]):
    """Episodes of random length in which the reward is the action's first number."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (SIZES[0],), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (SIZES[1],), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.left = int(self.np_random.integers(1, 12))
        return self.observation(), {}

    def observation(self) -> np.ndarray:
        return self.np_random.standard_normal(SIZES[0]).astype(np.float32)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert action.shape == (SIZES[1],) and (np.abs(action) <= 1.0).all()
        self.left -= 1
        return self.observation(), float(action[0]), self.left == 0, False, {"success": False}


ECHO = Task("echo", Echo, reference_scores=(0.0, 1.0), has_success=True)


@cache
def make_agent(algorithm: str = "bc", *, seed: int = 0, **settings: Any) -> Agent:
    """An untrained but real policy."""
    entry = algos.entry(algorithm)
    made = entry.make(entry.config(hidden=(8,), **settings), *SIZES)
    scaling = Scaling(
        observation_mean=np.zeros(SIZES[0], np.float32),
        observation_std=np.ones(SIZES[0], np.float32),
        action_low=np.full(SIZES[1], -1, np.float32),
        action_high=np.full(SIZES[1], 1, np.float32),
        reward=RewardTransform(),
    )
    state = jax.jit(made.init)(jax.random.key(0))
    return Agent(made, state, scaling, ECHO, seed=seed, folder=Path("nowhere"))


def sampled(*, beside: int = 16, episodes: int = 9, step: int = 3, seed: int = 0) -> EvalResult:
    agent = make_agent(seed=seed)
    act = agent._acting(SAMPLE, step)
    return evaluate(
        act, ECHO, episodes=episodes, seed=seed, step=step, side_by_side=beside, paths=episodes
    )


def test_samples_do_not_depend_on_how_many_run_side_by_side() -> None:
    alone = sampled(beside=1)
    assert len(set(alone.lengths)) > 3  # some are over while others run
    for beside in (4, 16):
        assert_same(alone, sampled(beside=beside))
    few = sampled(beside=2, episodes=3)
    np.testing.assert_array_equal(few.returns, alone.returns[:3])
    # Seventeen rows are two blocks of the compiled policy.
    many, one = (sampled(beside=beside, episodes=17) for beside in (17, 1))
    assert_same(many, one)


def test_samples_depend_on_seed_step_episode_and_time() -> None:
    agent = make_agent()
    rows = np.zeros((4, SIZES[0]), np.float32)
    moments = Moments(np.array([0, 0, 1, 1], np.uint32), np.array([0, 1, 0, 1], np.uint32))
    drawn = agent._acting(SAMPLE, 0)(rows, moments)
    assert len({row.tobytes() for row in drawn}) == 4
    np.testing.assert_array_equal(agent._acting(SAMPLE, 0)(rows, moments), drawn)
    for other in (agent._acting(SAMPLE, 1), make_agent(seed=1)._acting(SAMPLE, 0)):
        assert (other(rows, moments) != drawn).all()
    mode = agent._acting(MODE, 0)(rows, moments)
    assert len({row.tobytes() for row in mode}) == 1  # the same state, the same action


def test_samples_are_the_policys() -> None:
    """atanh of a sample is normal with the policy's own mean and deviation, drawn anew each time."""
    agent = make_agent()
    row = np.array([0.3, -1.0, 0.5], np.float32)
    count = 4_000
    moments = Moments(
        np.arange(count, dtype=np.uint32) // 40, np.arange(count, dtype=np.uint32) % 40
    )
    drawn = np.arctanh(agent._acting(SAMPLE, 7)(np.tile(row, (count, 1)), moments).astype(float))
    policy: Any = agent.state.policy
    features = row
    for layer in policy.trunk.layers:
        features = np.maximum(features @ np.asarray(layer.weight) + np.asarray(layer.bias), 0.0)
    loc, raw = (
        features @ np.asarray(head.weight) + np.asarray(head.bias)
        for head in (policy.loc, policy.raw_scale)
    )
    scale = np.log1p(np.exp(raw)) + 0.01
    error = scale / np.sqrt(count)
    assert (np.abs(drawn.mean(axis=0) - loc) < 4 * error).all()
    assert (np.abs(drawn.std(axis=0) - scale) < 4 * error).all()
    noise = (drawn - loc) / scale
    for gap in (1, 40):  # the next time, and the same time of the next episode
        assert abs((noise[gap:] * noise[:-gap]).mean()) < 4 / np.sqrt(count)
    assert abs((noise[:, 0] * noise[:, 1]).mean()) < 4 / np.sqrt(count)


def test_mode_and_sample_differ_and_both_is_the_two_of_them() -> None:
    agent = make_agent()
    mode, sample, both = (
        agent.evaluate(9, act=act, step=3, paths=9) for act in ("mode", "sample", "both")
    )
    assert (mode.act, sample.act, both.act) == ("mode", "sample", "mode")
    assert_same(sample, replace(sampled(beside=2), act="sample"))
    assert (mode.returns != sample.returns).all()
    np.testing.assert_array_equal(mode.starts, sample.starts)
    np.testing.assert_array_equal(mode.returns, agent.evaluate(9, step=3).returns)  # the default
    assert both.sampled is not None and mode.sampled is sample.sampled is None
    np.testing.assert_array_equal(both.returns, mode.returns)
    np.testing.assert_array_equal(both.sampled.returns, sample.returns)
    record = both.record()
    assert record["act"] == "mode" and record["returns"] == mode.returns.tolist()
    assert record["sampled"]["returns"] == sample.returns.tolist()
    assert record["sampled"]["return"] == pytest.approx(np.mean(sample.returns))
    keys = {"score", "success", "steps_to_goal", "return", "returns", "lengths", "successes"}
    assert keys <= set(record["sampled"])
    assert sample.record()["act"] == "sample" and "sampled" not in sample.record()


def test_the_first_actions_are_kept() -> None:
    result = make_agent().evaluate(9, act="sample", step=3)
    for action, rewards in zip(result.first_actions, result.rewards, strict=True):
        assert action[0] == pytest.approx(rewards[0])


DETERMINISTIC = [("td3-bc", {}), ("rebrac", {}), ("bc", {"loss": "squared"})]
RANDOM = [(name, {}) for name in algos.ALGORITHMS if name not in ("td3-bc", "rebrac")]


@pytest.mark.parametrize(("name", "settings"), DETERMINISTIC)
def test_a_policy_of_one_action_a_state_is_the_same_by_samples(
    name: str, settings: dict[str, Any]
) -> None:
    both = make_agent(name, **settings).evaluate(3, act="both")
    assert both.sampled is not None and np.abs(both.returns).max() > 0.0
    np.testing.assert_array_equal(both.returns, both.sampled.returns)


@pytest.mark.parametrize(("name", "settings"), RANDOM)
def test_a_policy_of_many_actions_a_state_draws_them(name: str, settings: dict[str, Any]) -> None:
    both = make_agent(name, **settings).evaluate(3, act="both")
    assert both.sampled is not None
    assert (both.returns != both.sampled.returns).all()


def test_another_way_of_acting_is_refused(tmp_path: Path, maze_file: Path) -> None:
    message = (
        r"--act is 'median', but must be mode, sample, both, or best-of-N such as best-of-32\."
    )
    with pytest.raises(CharyError, match=message):
        make_agent().evaluate(1, act="median")
    with pytest.raises(CharyError, match=message):
        chary.train("bc", maze_file, run=tmp_path / "run", act="median")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", [["train", "bc"], ["study", "targets"]])
def test_a_wrong_option_is_one_message(
    command: list[str], maze_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--runs" if command[0] == "study" else "--run", str(tmp_path / "new")]
    assert main([*command, "--dataset", str(maze_file), "--act", "median", *where]) == 2
    found = capsys.readouterr()
    expected = (
        "chary: error: --act is 'median', but must be mode, sample, both, or best-of-N such as "
        "best-of-32.\n"
    )
    assert (found.out, found.err) == ("", expected)
    assert not (tmp_path / "new").exists()


def test_the_papers_presets_report_both() -> None:
    for preset in ("paper-antmaze", "paper-gym", "paper-maze2d", "paper-rlu", "no-ensemble"):
        assert resolve.configure("msg", preset, "")[1].act == "both"
    assert resolve.configure("msg", "small", "")[1].act == "mode"
    assert resolve.configure("iql", "paper-antmaze", "")[1].act == "mode"


def test_the_best_of_several_samples_is_the_one_with_the_largest_bound() -> None:
    agent = make_agent("msg", members=3)
    observations, key = np.random.default_rng(0).standard_normal((5, 3)), jax.random.key(3)
    chosen = agent.act(observations, key=key, best_of=8)
    for row, action in enumerate(chosen):
        own = jax.random.fold_in(jax.random.fold_in(key, row), 0)
        repeated = np.tile(observations[row], (8, 1))
        draws = agent.act(repeated, key=own)
        bounds = agent.uncertainty(repeated, draws).lcb
        np.testing.assert_allclose(action, draws[np.argmax(bounds)], rtol=1e-5, atol=1e-6)
    with pytest.raises(CharyError, match="no critics to choose the best by"):
        make_agent("bc").act(observations, best_of=8)


@pytest.mark.parametrize("act", ["best-of-0", "best-of-", "best-of-1.5", "best"])
def test_a_best_of_that_is_none(act: str) -> None:
    with pytest.raises(
        CharyError, match="must be mode, sample, both, or best-of-N such as best-of-32"
    ):
        acting.resolve(act)
