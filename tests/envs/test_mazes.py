import warnings
from collections import deque
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from chary.data.collect.mazes import _push
from chary.envs import antmaze, find_task
from chary.envs.mazes import MAZES, Cell, Maze, PointMaze
from chary.envs.physics import import_mujoco
from tests.envs.test_rendering import picture

REACH = ["pointmaze-umaze", "pointmaze-medium", "pointmaze-large"]
STAY = ["maze2d-umaze", "maze2d-medium", "maze2d-large"]
DENSE = [f"{name}-dense-v1" for name in STAY]
EACH = [*REACH, *STAY, *DENSE]


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


D4RL_MODEL = """
<mujoco>
  <compiler inertiafromgeom="true" angle="radian"/>
  <option timestep="0.01" gravity="0 0 0" iterations="20" integrator="Euler"/>
  <default>
    <joint damping="1" limited="false"/>
    <geom friction=".5 .1 .1" density="1000" margin="0.001" condim="1" contype="2" conaffinity="1"/>
  </default>
  <worldbody>
    <body pos="1.2 1.2 0">
      <geom type="sphere" size="0.1" contype="1"/>
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="y" type="slide" axis="0 1 0"/>
    </body>
    {walls}
  </worldbody>
  <actuator>
    <motor joint="x" ctrlrange="-1 1" ctrllimited="true" gear="100"/>
    <motor joint="y" ctrlrange="-1 1" ctrllimited="true" gear="100"/>
  </actuator>
</mujoco>
"""


@pytest.mark.parametrize("name", STAY)
def test_maze2d_is_the_model_that_d4rl_describes(name: str) -> None:
    """Built apart from the package, in D4RL's own numbers: walls one cell on, the ball at 1.2."""
    mujoco = import_mujoco()
    maze = MAZES[name]
    walls = [
        f'<geom type="box" pos="{i + 1} {j + 1} 0" size="0.5 0.5 0.2"/>' for i, j in maze.wall_cells
    ]
    model = mujoco.MjModel.from_xml_string(D4RL_MODEL.format(walls="".join(walls)))
    data = mujoco.MjData(model)
    environment = PointMaze(maze)
    observation, _ = environment.reset(seed=1)
    data.qpos[:], data.qvel[:] = environment.position, environment.velocity
    rng = np.random.default_rng(0)
    action, bounced = np.zeros(2, np.float32), 0
    for step in range(400):
        if step % 25 == 0:
            action = rng.uniform(-1, 1, 2).astype(np.float32)
        before = observation
        data.qvel[:] = np.clip(data.qvel, -5, 5)
        data.ctrl[:] = action
        mujoco.mj_step(model, data)
        observation = environment.step(action)[0]
        np.testing.assert_allclose(observation, [*data.qpos, *data.qvel], atol=1e-5)
        bounced += bool((before[2:] * observation[2:] < -0.09).any())
    assert bounced > 0


@pytest.mark.parametrize("name", EACH)
def test_each_maze_is_a_proper_environment(name: str) -> None:
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


@pytest.mark.parametrize("name", EACH)
def test_episodes_start_in_the_right_cell(name: str) -> None:
    maze = MAZES[name]
    environment = PointMaze(maze)
    starts = np.stack([environment.reset(seed=seed)[0] for seed in range(200)])
    cells = {maze.cell(position) for position in starts}
    if maze.task == "reach":
        assert (starts[:, 2:] == 0).all()
    else:  # D4RL gives the ball a little push
        assert starts[:, 2:].std() == pytest.approx(0.1, rel=0.2)
    assert len(np.unique(starts[:, :2], axis=0)) == 200
    if maze.task == "reach":
        assert cells == {maze.start}
    else:
        assert cells <= set(maze.free_cells) and len(cells) > len(maze.free_cells) / 2
    for start in starts:
        offset = np.abs(start[:2] - maze.point(maze.cell(start)))
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
        distance = np.linalg.norm(observation[:2] - maze.point(maze.goal))
        assert distance > maze.radius - 1e-5
        action = _push(maze, towards[maze.cell(observation)], observation, rng)
        observation, reward, terminated, truncated, info = environment.step(action)
        assert info["success"] == terminated
        rewards.append(reward)
    assert terminated and not truncated
    assert rewards[-1] == 1.0 and not any(rewards[:-1])
    assert np.linalg.norm(observation[:2] - maze.point(maze.goal)) <= maze.radius + 1e-5
    assert len(rewards) < maze.horizon


@pytest.mark.parametrize("name", EACH)
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
    goal = maze.point(maze.goal)
    way = maze.next_cells(maze.goal)
    beside = next(cell for cell in way if way[cell] == maze.goal and cell != maze.goal)
    environment.reset(options={"start": beside})
    rewards, was_there = [], environment.at_goal()
    for step in range(maze.horizon):
        target = goal if step < maze.horizon // 2 else maze.point(beside)
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


def test_dense_pays_for_the_distance_of_the_current_state() -> None:
    maze = MAZES["maze2d-umaze-dense-v1"]
    environment = PointMaze(maze)
    observation, _ = environment.reset(seed=0)
    for action in np.random.default_rng(0).uniform(-1, 1, (50, 2)).astype(np.float32):
        expected = np.exp(-np.linalg.norm(observation[:2] - maze.point(maze.goal)))
        observation, reward, terminated, _, _ = environment.step(action)
        assert reward == pytest.approx(expected, rel=1e-5)
        assert not terminated


def test_a_random_policy_earns_what_d4rl_says_it_does() -> None:
    """D4RL's lower reference return, which it measured in its own simulator."""
    environment = PointMaze(MAZES["maze2d-umaze-dense-v1"])
    rng = np.random.default_rng(0)
    returns = []
    for seed in range(25):
        environment.reset(seed=seed)
        actions = rng.uniform(-1, 1, (environment.maze.horizon, 2)).astype(np.float32)
        returns.append(sum(environment.step(action)[1] for action in actions))
    error = np.std(returns) / np.sqrt(len(returns))
    assert abs(np.mean(returns) - 68.537689) < 3 * error < 40


@pytest.mark.parametrize(
    ("name", "horizon", "low", "high"),
    [
        ("maze2d-umaze", 300, 23.85, 161.86),
        ("maze2d-umaze-v1", 300, 23.85, 161.86),
        ("maze2d-medium-v1", 600, 13.13, 277.39),
        ("maze2d-large-v1", 800, 6.7, 273.99),
        ("maze2d-umaze-dense-v1", 300, 68.537689, 193.66285642381482),
        ("maze2d-medium-dense-v1", 600, 44.264742, 297.4552547777125),
        ("maze2d-large-dense-v1", 800, 30.569041, 303.4857382709002),
    ],
)
def test_maze2d_has_the_horizons_and_reference_scores_of_d4rl(
    name: str, horizon: int, low: float, high: float
) -> None:
    task = find_task(name)
    assert task is not None and task.maze is not None
    assert task.maze is MAZES[name]
    assert task.maze.horizon == horizon and task.maze.radius == 0.5
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


@pytest.mark.parametrize("maze", [MAZES[name] for name in EACH] + list(antmaze.SIZES.values()))
def test_cells_and_centres_belong_together(maze: Maze) -> None:
    assert maze.goal in maze.free_cells
    assert maze.start is None or maze.start in maze.free_cells
    assert len(maze.free_cells) + len(maze.wall_cells) == len(maze.rows) * len(maze.rows[0])
    for cell in maze.free_cells + maze.wall_cells:
        for offset in ([0, 0], [0.49, 0.49], [-0.49, 0.49], [0.49, -0.49]):
            assert maze.cell(maze.centre(cell) + maze.size * np.array(offset)) == cell
        assert maze.cell(maze.point(cell)) == cell
    left, right, bottom, top = maze.extent
    middles = np.array([maze.centre(cell) for cell in maze.free_cells + maze.wall_cells])
    assert (left, bottom) == pytest.approx(middles.min(axis=0) - maze.size / 2)
    assert (right, top) == pytest.approx(middles.max(axis=0) + maze.size / 2)


def test_where_the_mazes_lie() -> None:
    assert MAZES["pointmaze-large"].centre((0, 0)).tolist() == [-5.5, 4.0]
    assert MAZES["pointmaze-large"].extent == (-6.0, 6.0, -4.5, 4.5)
    assert MAZES["maze2d-large"].point((7, 9)).tolist() == pytest.approx([7.0, 9.0])
    assert MAZES["maze2d-large"].extent == pytest.approx((-0.7, 8.3, -0.7, 11.3))
    large = antmaze.SIZES["large"]
    assert large.centre((1, 1)).tolist() == [0.0, 0.0]
    assert large.centre((7, 9)).tolist() == [32.0, 24.0]


@pytest.mark.parametrize("name", ["pointmaze-umaze", "maze2d-umaze"])
def test_a_picture_shows_ball_and_goal(name: str) -> None:
    environment = PointMaze(MAZES[name], render_mode="rgb_array")
    environment.reset(seed=0)
    first = picture(environment)
    environment.goal = environment.maze.point((1, 3))
    assert (picture(environment) != first).any()
    environment.close()
    environment.close()
    assert PointMaze(MAZES[name]).render() is None
