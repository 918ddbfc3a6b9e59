import warnings
from collections import deque
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from chary.data.collect.mazes import _push
from chary.envs import find_task
from chary.envs.mazes import MAZES, Cell, Maze, PointMaze

REACH = ["pointmaze-umaze", "pointmaze-medium", "pointmaze-large"]
STAY = ["maze2d-umaze", "maze2d-medium", "maze2d-large"]


def reference_maze(maze: Maze) -> Any:
    """Gymnasium-Robotics' own environment with the same map."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from gymnasium_robotics.envs.maze.point_maze import PointMazeEnv

        rows: Any = [[1 if symbol == "#" else 0 for symbol in row] for row in maze.rows]
        environment = PointMazeEnv(maze_map=rows, continuing_task=True, reset_target=False)
        environment.reset(seed=0)
    return environment.point_env


@pytest.mark.parametrize("name", REACH)
def test_physics_is_that_of_gymnasium_robotics(name: str) -> None:
    """From one common state on, through long pushes that end in walls."""
    maze = MAZES[name]
    mine, theirs = PointMaze(maze), reference_maze(maze)
    rng = np.random.default_rng(0)
    mine.reset(seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.reset(seed=0)
        theirs.set_state(mine.position.copy(), mine.velocity.copy())
        action = np.zeros(2, np.float32)
        moved, stopped = 0.0, 0
        for step in range(400):
            if step % 25 == 0:
                action = rng.uniform(-1.5, 1.5, 2).astype(np.float32)
            before = mine.observation()
            expected = theirs.step(np.clip(action, -1, 1))[0]
            observation = mine.step(action)[0]
            np.testing.assert_allclose(observation, expected, atol=1e-5)
            moved += float(np.linalg.norm(observation[:2] - before[:2]))
            stopped += bool(
                (np.abs(before[2:]) > 0.3).any() and (observation[2:] * before[2:] < 0).any()
            )
    assert moved > 2.0
    assert stopped > 0  # it did bounce off a wall


def test_speed_is_limited_as_in_gymnasium_robotics() -> None:
    maze = MAZES["pointmaze-large"]
    mine, theirs = PointMaze(maze), reference_maze(maze)
    mine.reset(seed=0)
    speed = np.array([8.0, -7.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.reset(seed=0)
        theirs.set_state(mine.position.copy(), speed)
        mine.velocity[:] = speed
        for _ in range(20):
            action = np.array([1.0, -1.0], np.float32)
            observation = mine.step(action)[0]
            np.testing.assert_allclose(observation, theirs.step(action)[0], atol=1e-5)
            assert np.abs(observation[2:]).max() < 5.3  # limited before the push


@pytest.mark.parametrize("name", MAZES)
def test_each_maze_is_a_proper_environment(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(PointMaze(MAZES[name]), skip_render_check=True)


@pytest.mark.parametrize("name", ["pointmaze-umaze", "maze2d-large"])
def test_a_seed_decides_an_episode(name: str) -> None:
    actions = np.random.default_rng(0).uniform(-1, 1, (50, 2)).astype(np.float32)

    def episode(environment: PointMaze, seed: int) -> np.ndarray:
        first, _ = environment.reset(seed=seed)
        return np.stack([first, *(environment.step(action)[0] for action in actions)])

    used = PointMaze(MAZES[name])
    first = episode(used, 5)
    np.testing.assert_array_equal(episode(PointMaze(MAZES[name]), 5), first)
    np.testing.assert_array_equal(episode(used, 5), first)  # nothing is left of the last episode
    assert (episode(used, 6)[0] != first[0]).any()


@pytest.mark.parametrize("name", MAZES)
def test_episodes_start_at_rest_in_the_right_cell(name: str) -> None:
    maze = MAZES[name]
    environment = PointMaze(maze)
    starts = np.stack([environment.reset(seed=seed)[0] for seed in range(200)])
    cells = {maze.cell(position) for position in starts}
    assert (starts[:, 2:] == 0).all()
    assert len(np.unique(starts[:, :2], axis=0)) == 200
    if maze.task == "reach":
        assert cells == {maze.start}
    else:
        assert cells <= set(maze.free_cells) and len(cells) > len(maze.free_cells) / 2
    for start in starts:
        offset = np.abs(start[:2] - maze.centre(maze.cell(start)))
        assert offset.max() <= maze.start_noise + 1e-6
    chosen, _ = environment.reset(options={"start": maze.goal})
    assert maze.cell(chosen) == maze.goal


@pytest.mark.parametrize("name", REACH)
def test_reaching_ends_with_reward_one_at_the_goal(name: str) -> None:
    maze = MAZES[name]
    environment = PointMaze(maze)
    towards = maze.next_cells(maze.goal)
    rng = np.random.default_rng(0)
    observation, info = environment.reset(seed=0)
    assert info == {"success": False}
    rewards, terminated, truncated = [], False, False
    while not (terminated or truncated):
        distance = np.linalg.norm(observation[:2] - maze.centre(maze.goal))
        assert distance > maze.radius - 1e-5
        action = _push(maze, towards[maze.cell(observation)], observation, rng)
        observation, reward, terminated, truncated, info = environment.step(action)
        assert info["success"] == terminated
        rewards.append(reward)
    assert terminated and not truncated
    assert rewards[-1] == 1.0 and not any(rewards[:-1])
    assert np.linalg.norm(observation[:2] - maze.centre(maze.goal)) <= maze.radius + 1e-5
    assert len(rewards) < maze.horizon


@pytest.mark.parametrize("name", MAZES)
def test_the_horizon_cuts_an_episode(name: str) -> None:
    maze = MAZES[name]
    environment = PointMaze(maze)
    environment.reset(seed=0)
    for step in range(1, maze.horizon + 1):
        _, _, terminated, truncated, _ = environment.step(np.zeros(2, np.float32))
        assert not terminated
        assert truncated == (step == maze.horizon)
    environment.reset()
    assert not environment.step(np.zeros(2, np.float32))[3]


def test_reaching_the_goal_in_the_last_step_is_no_cut() -> None:
    maze = MAZES["pointmaze-umaze"]
    environment = PointMaze(maze)
    environment.reset(options={"start": maze.goal})
    environment.elapsed = maze.horizon - 1
    _, reward, terminated, truncated, _ = environment.step(np.zeros(2, np.float32))
    assert (reward, terminated, truncated) == (1.0, True, False)


@pytest.mark.parametrize("name", STAY)
def test_staying_pays_for_the_current_state_and_never_ends(name: str) -> None:
    """Through the goal and out again: the reward follows one step behind success."""
    maze = MAZES[name]
    environment = PointMaze(maze)
    environment.reset(seed=0)
    goal = maze.centre(maze.goal)
    way = maze.next_cells(maze.goal)
    beside = next(cell for cell in way if way[cell] == maze.goal and cell != maze.goal)
    environment.reset(options={"start": beside})
    rewards, was_there = [], environment.at_goal()
    for step in range(maze.horizon):
        target = goal if step < maze.horizon // 2 else maze.centre(beside)
        position, velocity = environment.position, environment.velocity
        action = np.clip(10 * (target - position) - velocity, -1, 1).astype(np.float32)
        observation, reward, terminated, truncated, info = environment.step(action)
        assert reward == float(was_there)
        assert not terminated
        assert truncated == (step == maze.horizon - 1)
        was_there = bool(np.linalg.norm(environment.position - goal) <= 0.5)
        assert info["success"] == was_there
        assert observation.dtype == np.float32
        rewards.append(reward)
    assert np.abs(np.diff(rewards)).sum() == 2  # in once, out once
    assert 20 < sum(rewards) < maze.horizon - 20


@pytest.mark.parametrize(
    ("name", "horizon", "low", "high"),
    [
        ("maze2d-umaze", 300, 23.85, 161.86),
        ("maze2d-medium", 600, 13.13, 277.39),
        ("maze2d-large", 800, 6.7, 273.99),
    ],
)
def test_maze2d_has_the_horizons_and_reference_scores_of_d4rl(
    name: str, horizon: int, low: float, high: float
) -> None:
    task = find_task(name)
    assert task is not None
    assert MAZES[name].horizon == horizon and MAZES[name].radius == 0.5
    assert task.reference_scores == (low, high)
    assert not task.has_success
    assert task.normalise(low) == pytest.approx(0.0)
    assert task.normalise(high) == pytest.approx(100.0)


@pytest.mark.parametrize("name", REACH)
def test_reach_tasks_score_their_rate_of_success(name: str) -> None:
    task = find_task(name)
    assert task is not None and task.maze is MAZES[name]
    assert task.has_success
    assert task.normalise(0.25) == 25.0


def test_there_is_no_task_of_an_unknown_name() -> None:
    assert find_task("hopper_medium-v2") is None


def distances_from(maze: Maze, target: Cell) -> dict[Cell, int]:
    """Steps to the target, counted apart from the package by a breadth-first search."""
    walls = {(i, j) for i, row in enumerate(maze.rows) for j, c in enumerate(row) if c == "#"}
    distances, queue = {target: 0}, deque([target])
    while queue:
        row, column = queue.popleft()
        for near in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
            if near not in walls and near not in distances:
                distances[near] = distances[row, column] + 1
                queue.append(near)
    return distances


@pytest.mark.parametrize("name", REACH)
def test_next_cells_lead_every_cell_to_the_target_by_a_shortest_way(name: str) -> None:
    maze = MAZES[name]
    for target in maze.free_cells:
        towards, distances = maze.next_cells(target), distances_from(maze, target)
        assert set(towards) == set(distances) == set(maze.free_cells)
        assert towards[target] == target
        for cell, following in towards.items():
            if cell != target:
                assert abs(cell[0] - following[0]) + abs(cell[1] - following[1]) == 1
                assert distances[following] == distances[cell] - 1


@pytest.mark.parametrize("name", MAZES)
def test_cells_and_centres_belong_together(name: str) -> None:
    maze = MAZES[name]
    assert maze.goal in maze.free_cells
    assert maze.start is None or maze.start in maze.free_cells
    for cell in maze.free_cells:
        for offset in ([0, 0], [0.49, 0.49], [-0.49, 0.49], [0.49, -0.49]):
            assert maze.cell(maze.centre(cell) + offset) == cell
