from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

from chary.algos.bc import BCConfig, make_bc
from chary.data.scaling import RewardTransform, Scaling
from chary.data.tasks import find_task
from chary.envs import Task
from chary.envs.mazes import UMAZE, Maze, PointMaze
from chary.errors import CharyError
from chary.evaluation.agent import Agent
from chary.evaluation.rollouts import EvalResult, evaluate

SHORT = Maze(UMAZE, "reach", goal=(3, 1), start=(3, 2), horizon=60, radius=0.9)
"""The goal is so near that some episodes end early, and one or two at once."""


def make_agent(task: Task | None) -> Agent:
    """An untrained but real policy."""
    algorithm = make_bc(BCConfig(hidden=(16, 16)), 4, 2)
    scaling = Scaling(
        observation_mean=np.zeros(4, np.float32),
        observation_std=np.full(4, 0.1, np.float32),
        action_low=np.full(2, -1, np.float32),
        action_high=np.full(2, 1, np.float32),
        reward=RewardTransform(),
    )
    state = algorithm.init(jax.random.key(0))
    return Agent(algorithm, state, scaling, task, seed=0, folder=Path("nowhere"))


@pytest.fixture
def task() -> Task:
    return Task("short", lambda: PointMaze(SHORT), (0.0, 1.0), has_success=True, maze=SHORT)


class Counter(gymnasium.Env[np.ndarray, np.ndarray]):
    """Episodes of random length; rewards 1, 2, 3 and so on; actions must echo the observation."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.mark = float(self.np_random.integers(2**20))
        self.length = int(self.np_random.integers(1, 12))
        self.elapsed = 0
        return self.observation(), {}

    def observation(self) -> np.ndarray:
        return np.array([self.mark, self.elapsed], np.float32)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert action.tolist() == self.observation().tolist()
        self.elapsed += 1
        over = self.elapsed == self.length
        return self.observation(), float(self.elapsed), over, False, {"success": self.length > 5}


def count(episodes: int, **changes: Any) -> EvalResult:
    options: dict[str, Any] = {"seed": 0, **changes}
    task = Task("count", Counter, has_success=True)
    return evaluate(lambda rows, _: rows.copy(), task, episodes=episodes, **options)


def assert_same(first: EvalResult, second: EvalResult) -> None:
    np.testing.assert_array_equal(first.returns, second.returns)
    np.testing.assert_array_equal(first.lengths, second.lengths)
    np.testing.assert_array_equal(first.starts, second.starts)
    assert first.successes is not None and second.successes is not None
    np.testing.assert_array_equal(first.successes, second.successes)
    for mine, theirs in zip(
        first.rewards + first.paths, second.rewards + second.paths, strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)
    assert first.record() == second.record()


def test_results_do_not_depend_on_how_many_run_side_by_side(task: Task) -> None:
    agent = make_agent(task)
    alone, *others = (
        evaluate(
            lambda rows, _: agent.act(rows),
            task,
            episodes=7,
            seed=0,
            step=3,
            side_by_side=beside,
            paths=7,
        )
        for beside in (1, 3, 16)
    )
    for other in others:
        assert_same(alone, other)
    assert_same(alone, agent.evaluate(7, step=3, paths=7))
    assert len({path[-1].tobytes() for path in alone.paths}) == 7
    assert len(set(alone.lengths)) >= 3


@pytest.mark.parametrize("beside", [1, 3, 16, 50])
def test_every_episode_is_kept_whole(beside: int) -> None:
    result = count(40, side_by_side=beside, paths=5)
    assert len(result.returns) == len(result.lengths) == len(result.rewards) == 40
    assert result.lengths.min() >= 1 and len(set(result.lengths)) > 5
    for total, length, rewards in zip(result.returns, result.lengths, result.rewards, strict=True):
        assert rewards.tolist() == list(range(1, length + 1))
        assert total == length * (length + 1) / 2
    assert result.successes is not None
    np.testing.assert_array_equal(result.successes, result.lengths > 5)
    assert len(result.paths) == 5
    for start, length, path in zip(result.starts, result.lengths, result.paths, strict=False):
        assert path[:, 1].tolist() == list(range(length + 1))  # start and end included
        np.testing.assert_array_equal(path[0], start)
    assert_same(result, count(40, side_by_side=7, paths=5))


def test_an_episode_depends_on_seed_step_and_number_alone() -> None:
    base = count(12, step=5)
    assert len(np.unique(base.starts[:, 0])) == 12
    np.testing.assert_array_equal(count(12, step=5).starts, base.starts)
    np.testing.assert_array_equal(count(4, step=5).starts, base.starts[:4])
    for other in (count(12, step=6), count(12, step=5, seed=1)):
        assert not set(other.starts[:, 0]) & set(base.starts[:, 0])


def test_another_step_gives_other_starts_in_the_maze(task: Task) -> None:
    agent = make_agent(task)
    first, second = (agent.evaluate(3, step=step).starts for step in (0, 1))
    assert (first[:, :2] != second[:, :2]).all()


@pytest.mark.parametrize("calls", [1, 4])
def test_a_wish_to_stop_is_heard_between_steps(calls: int) -> None:
    heard: list[int] = []

    def stop_asked() -> bool:
        heard.append(len(heard))
        return len(heard) == calls

    with pytest.raises(KeyboardInterrupt):
        count(50, stop_asked=stop_asked)
    assert len(heard) == calls


def test_the_score_is_normalised_between_the_references(task: Task) -> None:
    returns = count(20).returns
    scored = evaluate(
        lambda rows, _: rows.copy(),
        Task("count", Counter, reference_scores=(10.0, 60.0)),
        episodes=20,
        seed=0,
    )
    assert scored.score == pytest.approx(100 * (returns.mean() - 10) / 50)
    assert scored.successes is None and scored.success is None and scored.steps_to_goal is None
    assert count(20).score is None
    reached = make_agent(task).evaluate(10)
    assert reached.success is not None
    assert reached.score == pytest.approx(100 * reached.success)


def test_the_summary_by_hand() -> None:
    result = count(30)
    good = [length for length in result.lengths if length > 5]
    summary = result.summary()
    assert summary["success"] == pytest.approx(len(good) / 30)
    assert summary["steps_to_goal"] == pytest.approx(sum(good) / len(good))
    assert summary["return"] == pytest.approx(sum(result.returns) / 30)
    assert summary["return_std"] == pytest.approx(np.std(result.returns))
    assert summary["length"] == pytest.approx(sum(result.lengths) / 30)
    record = result.record()
    assert record["returns"] == result.returns.tolist()
    assert record["lengths"] == result.lengths.tolist()


def test_nothing_reached_has_no_steps_to_the_goal() -> None:
    far = find_task("pointmaze-large")
    assert far is not None
    result = evaluate(lambda rows, _: np.zeros((len(rows), 2)), far, episodes=1, seed=0)
    assert (result.success, result.steps_to_goal, result.score) == (0.0, None, 0.0)
    assert result.lengths.tolist() == [800]


def test_without_a_simulator_there_is_nothing_to_evaluate() -> None:
    with pytest.raises(CharyError, match="no simulator"):
        make_agent(None).evaluate(1)
