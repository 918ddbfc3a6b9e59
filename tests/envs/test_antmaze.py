from pathlib import Path

import h5py
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from chary.envs import find_task
from chary.envs.antmaze import KINDS, MAZES, SIZES, AntMaze

STILL = np.zeros(8, np.float32)


@pytest.fixture
def umaze() -> AntMaze:
    environment = AntMaze(SIZES["umaze"])
    environment.reset(seed=0)
    return environment


@pytest.mark.parametrize("kind", ["umaze", "umaze-diverse", "medium-play", "large-play"])
def test_real_data_is_replayed(kind: str, real_data: Path) -> None:
    """Every third step of real episodes, each from its own recorded state."""
    with h5py.File(real_data / "d4rl" / f"antmaze-{kind}-v0.hdf5") as file:
        observations, actions, following = (
            np.asarray(file[key]) for key in ("observations", "actions", "infos/qpos")
        )
    environment = AntMaze(MAZES[f"antmaze-{kind}-v0"])
    # Between episodes, what follows a row is not the next row.
    same_episode = np.abs(following[:-1] - observations[1:, :15]).max(axis=1) < 1e-4
    assert (~same_episode).sum() == 1
    errors = []
    for row in np.flatnonzero(same_episode)[::3]:
        environment.set_state(observations[row, :15], observations[row, 15:])
        after, *_ = environment.step(actions[row])
        errors.append(np.abs(after - observations[row + 1]))
    position, velocity = np.split(np.array(errors), [15], axis=1)
    assert len(errors) > 400
    assert np.median(position.max(axis=1)) < 1e-6
    assert np.median(velocity.max(axis=1)) < 2e-6
    assert np.quantile(position.max(axis=1), 0.99) < 1e-4


def test_there_are_d4rls_twelve_tasks() -> None:
    assert len(MAZES) == 12
    for kind in KINDS:
        for version in ("v0", "v2"):
            task = find_task(f"antmaze-{kind}-{version}")
            assert task is not None and task.maze is not None
            assert task.reference_scores == (0.0, 1.0) and task.has_success
            assert task.maze.horizon == (700 if kind.startswith("umaze") else 1000)
            assert task.maze.start == (1, 1) and task.maze.radius == 0.5
    assert {size: maze.goal for size, maze in SIZES.items()} == {
        "umaze": (3, 1),
        "medium": (6, 6),
        "large": (7, 9),
    }
    assert find_task("antmaze-umaze-v1") is None


@pytest.mark.parametrize("size", SIZES)
def test_it_is_a_proper_environment(size: str) -> None:
    environment = AntMaze(SIZES[size])
    check_env(environment, skip_render_check=True)
    assert environment.observation_space.shape == (29,)
    assert environment.action_space.shape == (8,)


def test_episodes_start_around_the_start_with_a_goal_drawn_anew(umaze: AntMaze) -> None:
    starts, goals = [], []
    for seed in range(300):
        starts.append(umaze.reset(seed=seed)[0])
        goals.append(umaze.goal)
    starts, goals = np.array(starts), np.array(goals)
    assert np.abs(starts[:, :2]).max() <= 0.1
    assert np.abs(starts[:, 2] - 0.75).max() <= 0.1 + 1e-6
    np.testing.assert_allclose(np.linalg.norm(starts[:, 3:7], axis=1), 1.0, atol=1e-6)
    assert starts[:, 15:].std() == pytest.approx(0.1, rel=0.1)
    # The sum of draws up to 1 and up to 0.5, beyond the centre of the goal's cell.
    spread = goals - [0.0, 8.0]
    assert spread.min() >= 0 and spread.max() <= 1.5
    assert spread.mean() == pytest.approx(0.75, abs=0.05)
    assert spread.std() == pytest.approx(np.sqrt((1.0 + 0.25) / 12), rel=0.1)


def test_a_seed_decides_an_episode(umaze: AntMaze) -> None:
    actions = np.random.default_rng(0).uniform(-1, 1, (20, 8)).astype(np.float32)

    def episode(environment: AntMaze, seed: int) -> np.ndarray:
        first, _ = environment.reset(seed=seed)
        return np.stack([first, *(environment.step(action)[0] for action in actions)])

    first = episode(umaze, 5)
    np.testing.assert_array_equal(episode(AntMaze(SIZES["umaze"]), 5), first)
    np.testing.assert_array_equal(episode(umaze, 5), first)  # nothing is left of the last episode
    assert (episode(umaze, 6)[0] != first[0]).any()


def test_start_and_goal_can_be_chosen_as_cells_or_points(umaze: AntMaze) -> None:
    start, _ = umaze.reset(seed=0, options={"start": (3, 3), "goal": (1, 3)})
    assert np.abs(start[:2] - [8.0, 8.0]).max() <= 0.1 + 1e-6
    assert (umaze.goal >= [8.0, 0.0]).all() and (umaze.goal <= [9.5, 1.5]).all()
    start, _ = umaze.reset(seed=0, options={"start": (7.5, 0.25), "goal": np.array([8.0, 4.0])})
    np.testing.assert_allclose(start[:2], [7.5, 0.25])
    np.testing.assert_array_equal(umaze.goal, [8.0, 4.0])
    umaze.reset(seed=0)  # chosen for one episode only
    assert np.abs(umaze.position[:2]).max() <= 0.1


def test_reaching_the_goal_ends_the_episode_with_reward_one(umaze: AntMaze) -> None:
    _, info = umaze.reset(seed=0, options={"goal": (0.6, 0.0)})
    assert info == {"success": False}
    assert umaze.step(STILL)[1:] == (0.0, False, False, {"success": False})
    umaze.reset(seed=0, options={"goal": (0.3, 0.0)})
    umaze.elapsed = umaze.maze.horizon - 1  # also in the last step
    assert umaze.step(STILL)[1:] == (1.0, True, False, {"success": True})


def test_the_horizon_cuts_an_episode(umaze: AntMaze) -> None:
    umaze.elapsed = umaze.maze.horizon - 2
    assert not umaze.step(STILL)[3]
    assert umaze.step(STILL)[1:] == (0.0, False, True, {"success": False})
    umaze.reset()
    assert not umaze.step(STILL)[3]


@pytest.mark.parametrize("size", SIZES)
def test_walls_are_where_the_map_has_them(size: str) -> None:
    environment = AntMaze(SIZES[size])
    pose = environment.model.qpos0.copy()
    for cells, blocked in (
        (environment.maze.wall_cells, True),
        (environment.maze.free_cells, False),
    ):
        for cell in cells:
            pose[:2] = environment.maze.centre(cell)
            environment.set_state(pose, np.zeros(14))
            assert (environment.data.ncon > 0) == blocked


def test_actions_beyond_the_bounds_count_as_the_bounds(umaze: AntMaze) -> None:
    action = np.array([3.0, -3.0] * 4, np.float32)
    umaze.reset(seed=0)
    beyond = umaze.step(action)[0]
    umaze.reset(seed=0)
    np.testing.assert_array_equal(umaze.step(np.sign(action))[0], beyond)
