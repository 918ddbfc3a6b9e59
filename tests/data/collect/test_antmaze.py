import os
from pathlib import Path

import h5py
import numpy as np
import pytest

from chary.data import formats
from chary.data.collect import antmaze
from chary.data.collect.antmaze import (
    PLAY_GOALS,
    Guide,
    Job,
    collect_antmaze,
    collect_block,
    evaluation_goal,
    passed_cell,
)
from chary.data.collect.controllers import Controller, Layer
from chary.envs.antmaze import MAZES, SIZES, AntMaze
from chary.errors import CharyError

SLICES = ("umaze", "umaze-diverse", "medium-play", "large-play")


def still(observation_size: int = 29, action_size: int = 8) -> Controller:
    """An ant that does nothing of its own."""
    size = observation_size, action_size
    layer = Layer(np.zeros(size, np.float32), np.zeros(action_size, np.float32))
    return Controller((), layer, None, squashed=True, normaliser=None)


def reaches(size: str, controller: Controller, *, episodes: int, noise: float = 0.2) -> int:
    """Evaluation episodes that end at the goal."""
    environment = AntMaze(SIZES[size])
    rng = np.random.default_rng(0)
    reached = 0
    for episode in range(episodes):
        observation, _ = environment.reset(seed=episode)
        guide, over = Guide(environment.maze, environment.goal), False
        while not over:
            action = controller.act(guide.view(observation, rng), rng)
            action = np.clip(action + noise * rng.standard_normal(8), -1, 1)
            observation, _, ended, cut, _ = environment.step(action)
            over = ended or cut
        reached += environment.at_goal()
    return reached


def test_a_cell_begins_at_its_centre() -> None:
    maze = SIZES["medium"]
    for row, column in maze.free_cells:
        centre = maze.centre((row, column))
        for offset in (0.01, 1.9, 3.9):
            assert passed_cell(maze, centre + offset) == (row, column)
        assert passed_cell(maze, centre - 0.01) == (max(row - 1, 1), max(column - 1, 1))


@pytest.mark.parametrize("size", SIZES)
def test_waypoints_lead_from_everywhere_to_the_goal(size: str) -> None:
    maze = SIZES[size]
    inside = [
        (row, column)
        for row in range(1, len(maze.rows) - 1)
        for column in range(1, len(maze.rows[0]) - 1)
    ]
    for target in maze.free_cells:
        guide = Guide(maze, maze.centre(target) + 0.5)
        assert guide.target == target
        for cell in inside:  # the cell that was passed last may be a wall
            for _ in range(len(inside)):
                after = guide.towards[cell]
                assert after in maze.free_cells
                assert sum(np.abs(np.subtract(after, cell))) == 1 or cell == after == target
                cell = after
            assert cell == target


def test_what_the_controller_sees() -> None:
    maze, rng = SIZES["umaze"], np.random.default_rng(0)
    guide = Guide(maze, np.array([0.5, 8.5]))
    observation = np.arange(29, dtype=np.float32)
    observation[:2] = 0.5, 0.5  # in the start cell: the next one is at (4, 0)
    for _ in range(20):
        view = guide.view(observation, rng)
        assert view.shape == (29,) and view.dtype == np.float32
        np.testing.assert_array_equal(view[:27], observation[2:])
        assert np.linalg.norm(view[27:]) == pytest.approx(10, rel=1e-5)
        assert 3.5 / 4.6 < view[27] / 10 <= 1 and abs(view[28] / view[27]) < 0.5 / 3.5 + 1e-6
    observation[:2] = 4.5, 8.5  # beside the goal's cell: the goal itself, without noise
    np.testing.assert_allclose(guide.view(observation, rng)[27:], [-10, 0], atol=1e-5)


@pytest.mark.parametrize("name", SLICES)
def test_the_waypoints_explain_what_d4rls_ant_did(
    name: str, ant: Controller, real_data: Path
) -> None:
    with h5py.File(real_data / "d4rl" / f"antmaze-{name}-v0.hdf5") as file:
        columns = ("observations", "actions", "infos/goal")
        observations, actions, goals = (np.asarray(file[key])[::3] for key in columns)
    maze, rng = MAZES[f"antmaze-{name}-v0"], np.random.default_rng(0)
    guides = {tuple(goal): Guide(maze, goal) for goal in np.unique(goals, axis=0)}
    rows = zip(observations, goals, strict=True)
    views = np.stack([guides[tuple(goal)].view(observation, rng) for observation, goal in rows])

    def error(ways: np.ndarray) -> float:
        predicted = ant.act(np.concatenate([observations[:, 2:], ways], axis=1))
        return float(np.square(actions - predicted).sum(axis=1).mean())

    straight = goals - observations[:, :2]
    straight *= 10 / np.linalg.norm(straight, axis=1, keepdims=True)
    # Eight actions, each sampled and with noise: about 3 in all; 4 to 9 for other ways through the maze.
    assert error(views[:, 27:]) < min(4.0, error(straight))
    assert error(-views[:, 27:]) > 8


def test_the_controller_reaches_the_goal(ant: Controller) -> None:
    """15 of 20 episodes where this was written; `docs/collecting.md` has all mazes."""
    assert reaches("umaze", ant, episodes=4) >= 2
    assert reaches("umaze", still(), episodes=1) == 0


@pytest.mark.parametrize("name", ["umaze", "medium-play"])
def test_a_block_is_as_d4rl_would_have_it(name: str, ant: Controller) -> None:
    name = f"antmaze-{name}-v2"
    maze = MAZES[name]
    size = maze.horizon + 150
    block = collect_block(Job(name, ant, 0.2, False, size, seed=0, block=0))
    assert {len(column) for column in block.values()} == {size}
    assert np.flatnonzero(block["timeouts"]).tolist() == [maze.horizon - 1, size - 1]
    going_on = ~block["timeouts"][:-1]
    following = block["next_observations"]
    np.testing.assert_array_equal(following[:-1][going_on], block["observations"][1:][going_on])
    np.testing.assert_array_equal(block["infos/qpos"], following[:, :15])
    np.testing.assert_array_equal(block["infos/qvel"], following[:, 15:])
    assert np.abs(block["actions"]).max() == 1 and (np.abs(block["actions"]) < 1).mean() > 0.4
    assert len(np.unique(block["infos/goal"], axis=0)) == 2  # one an episode


def test_rewards_are_those_of_one_goal_and_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    np.testing.assert_allclose(evaluation_goal(SIZES["umaze"]), [0.75, 8.75])
    monkeypatch.setattr(antmaze, "evaluation_goal", lambda _: np.array([0.3, 0.3]))
    block = collect_block(Job("antmaze-umaze-v2", still(), 0.5, False, 300, seed=0, block=0))
    distance = np.linalg.norm(block["infos/qpos"][:, :2] - 0.3, axis=1)
    assert 0 < (distance <= 0.5).sum() < 300
    np.testing.assert_array_equal(block["terminals"], distance <= 0.5)
    np.testing.assert_array_equal(block["rewards"], block["terminals"])
    assert np.flatnonzero(block["timeouts"]).tolist() == [299]


def test_where_each_dataset_starts_and_goes() -> None:
    rng = np.random.default_rng(0)

    def episodes(name: str, count: int = 60) -> tuple[list[np.ndarray], list[np.ndarray]]:
        environment = AntMaze(MAZES[name])
        environment.reset(seed=0)
        new = [antmaze._new_episode(environment, name, rng) for _ in range(count)]
        return [observation[:2] for observation, _ in new], [guide.goal for _, guide in new]

    for name in ("antmaze-umaze-v2", "antmaze-medium-play-v2", "antmaze-medium-diverse-v2"):
        maze = MAZES[name]
        starts, goals = episodes(name)
        start_cells = {maze.cell(start - 0.5) for start in starts}
        goal_cells = {passed_cell(maze, goal) for goal in goals}
        if "umaze" in name:
            assert np.abs(starts).max() <= 0.1 and goal_cells == {maze.goal}
        else:
            assert len(start_cells) > 0.7 * len(maze.free_cells)
            assert start_cells <= set(maze.free_cells)
        if "play" in name:
            assert goal_cells == set(PLAY_GOALS["medium"])
        if "diverse" in name:
            assert len(goal_cells) > 0.7 * len(maze.free_cells)
        offsets = np.array([goal - maze.centre(passed_cell(maze, goal)) for goal in goals])
        assert offsets.min() >= 0 and offsets.max() <= 3
        assert offsets.mean() == pytest.approx(1.5, abs=0.2)
    for size, goals in PLAY_GOALS.items():
        assert set(goals) <= set(SIZES[size].free_cells)


def test_the_file_is_the_same_on_any_number_of_cores(
    ant: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(antmaze, "BLOCK_EPISODES", 1)
    found = []
    for cores in (1, 2):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        out = tmp_path / f"{cores}.hdf5"
        found.append(collect_antmaze("antmaze-umaze-v2", ant, out=out, transitions=800, seed=3))
    assert found[0].fingerprint == found[1].fingerprint
    dataset = formats.read(out)
    assert (dataset.name, dataset.size) == ("antmaze-umaze-v2", 800)
    assert ant.fingerprint[:12] in dataset.metadata["collected_by"]
    with h5py.File(out) as file:
        assert np.asarray(file["infos/goal"]).shape == (800, 2)
        np.testing.assert_array_equal(file["infos/qpos"], dataset.next_observations[:, :15])


@pytest.mark.usefixtures("in_process")
def test_seed_noise_and_determinism_decide_the_data(tmp_path: Path) -> None:
    def actions(noise: float, seed: int = 0, deterministic: bool = False) -> np.ndarray:
        out = tmp_path / "data.npz"
        return collect_antmaze(
            "antmaze-umaze-v2",
            still(),
            out=out,
            transitions=20,
            noise=noise,
            seed=seed,
            deterministic=deterministic,
        ).actions

    assert not actions(noise=0.0).any()
    noisy = actions(noise=0.5)
    assert 0.35 < noisy.std() < 0.55
    np.testing.assert_array_equal(noisy, actions(noise=0.5, deterministic=True))
    assert (noisy != actions(noise=0.5, seed=1)).any()


def test_another_robots_policy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CharyError, match=r"takes 27 numbers and gives 8, but the ant needs .* 29"):
        collect_antmaze("antmaze-umaze-v2", still(27), out=tmp_path / "data.npz")
    assert not any(tmp_path.iterdir())
