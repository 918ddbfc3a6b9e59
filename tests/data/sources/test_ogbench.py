import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import ogbench
import pytest

from chary.data import load
from chary.data.sources import find
from chary.data.sources import ogbench as source
from chary.envs import find_task
from chary.envs.ogbench import make, make_original, parse
from chary.errors import CharyError
from chary.evaluation.rollouts import evaluate

NAME = "ogbench-pointmaze-medium-navigate-singletask-task1-v0"
LENGTH = 30


@pytest.fixture(scope="module")
def data_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four trajectories in OGBench's layout, made by its own environment; one stands at the goal."""
    environment = make_original(NAME)
    columns: dict[str, list[np.ndarray | bool]] = {
        key: [] for key in ("observations", "actions", "terminals", "qpos", "qvel")
    }
    rng = np.random.default_rng(0)
    maze: Any = environment.unwrapped
    for trajectory in range(4):
        state, _ = environment.reset(seed=trajectory)
        if trajectory == 2:
            state = np.array(maze.cur_goal_xy) - 1.5
            maze.set_xy(state)
        for step in range(LENGTH):
            action = rng.uniform(-1, 1, 2) if trajectory != 2 else np.array([0.4, 0.4])
            qpos, qvel = maze.data.qpos.copy(), maze.data.qvel.copy()
            row = (state, action, step == LENGTH - 1, qpos, qvel)
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
            state = environment.step(action)[0]
    environment.close()
    path = tmp_path_factory.mktemp("ogbench") / "pointmaze-medium-navigate-v0.npz"
    arrays: dict[str, Any] = {key: np.asarray(values) for key, values in columns.items()}
    np.savez(path, **arrays)
    os.link(path, path.with_name("pointmaze-medium-navigate-v0-val.npz"))
    return path


def test_data_is_what_ogbench_itself_makes_of_it(data_file: Path) -> None:
    dataset = load(NAME, data_file=data_file)
    made: Any = ogbench.make_env_and_datasets(
        NAME.removeprefix("ogbench-"), dataset_path=str(data_file)
    )
    theirs = made[1]
    for mine, column in (
        (dataset.observations, "observations"),
        (dataset.actions, "actions"),
        (dataset.next_observations, "next_observations"),
        (dataset.rewards, "rewards"),
        (1.0 - dataset.terminals, "masks"),
    ):
        np.testing.assert_array_equal(mine, theirs[column])
    assert dataset.size == 4 * (LENGTH - 1)
    cuts = np.flatnonzero(theirs["terminals"])
    np.testing.assert_array_equal(
        np.flatnonzero(dataset.timeouts | dataset.terminals)[-1], cuts[-1]
    )
    assert set(cuts) <= set(dataset.episode_ends)
    assert dataset.timeouts[cuts[0]]


def test_rewards_and_ends_are_those_of_the_named_task(data_file: Path) -> None:
    dataset = load(NAME, data_file=data_file)
    assert set(dataset.rewards.tolist()) == {-1.0, 0.0}
    np.testing.assert_array_equal(dataset.terminals, dataset.rewards == 0.0)
    assert 0 < dataset.terminals.sum() < 30
    other = load(NAME.replace("task1", "task2"), data_file=data_file)
    assert not other.terminals.any() and (other.rewards == -1.0).all()
    np.testing.assert_array_equal(other.observations, dataset.observations)
    assert other.episode_lengths.tolist() == [LENGTH - 1] * 4


def test_the_file_is_looked_for_in_ogbenchs_folder(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "FOLDER", tmp_path)
    entry = find(NAME)
    assert entry is not None and not entry.present()
    with pytest.raises(CharyError, match=f"chary data download {NAME}"):
        load(NAME)
    os.link(data_file, tmp_path / data_file.name)
    assert entry.present()
    assert load(NAME).fingerprint == load(NAME, data_file=data_file).fingerprint


def test_a_task_is_the_same_for_the_same_seed_whatever_else_runs() -> None:
    task = find_task(NAME)
    assert task is not None and task.has_success and task.reference_scores is None
    first, second = task.make(), task.make()
    np.random.seed(0)
    expected = np.random.uniform()
    np.random.seed(0)
    start, _ = first.reset(seed=5)
    assert np.random.uniform() == expected
    again, _ = second.reset(seed=5)
    np.testing.assert_array_equal(start, again)
    assert start.dtype == np.float32 and first.observation_space.contains(start)
    assert (first.reset(seed=6)[0] != start).any()
    for environment in (first, second):
        environment.close()


def test_success_comes_from_the_environment() -> None:
    task = find_task(NAME)
    assert task is not None
    environment = task.make()
    environment.reset(seed=0)
    maze: Any = environment.unwrapped
    maze.set_xy(np.array(maze.cur_goal_xy) - 1.2)
    told = []
    for _ in range(20):
        _, reward, terminated, _, info = environment.step(np.array([0.5, 0.5]))
        told.append((bool(info["success"]), reward, terminated))
        if terminated:
            break
    assert len(told) > 2 and told[-1] == (True, 0.0, True)
    assert set(told[:-1]) == {(False, -1.0, False)}
    environment.close()


def test_evaluation_runs_to_the_horizon_and_back() -> None:
    task = find_task(NAME)
    assert task is not None
    result = evaluate(lambda rows, _: np.zeros((len(rows), 2)), task, episodes=1, seed=0)
    assert result.success == 0.0 and result.lengths.tolist() == [1000]
    assert result.returns.tolist() == [-1000.0] and result.score is None


def test_making_an_environment_leaves_no_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        make(NAME).close()
    assert os.listdir(tmp_path) == []
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 1


def test_names_are_taken_apart() -> None:
    parts = parse("ogbench-humanoidmaze-giant-stitch-singletask-v0")
    assert (parts["environment"], parts["kind"], parts["task"]) == (
        "humanoidmaze-giant", "stitch", None,
    )  # fmt: skip
    assert source.path_of("ogbench-cube-double-play-singletask-task4-v0").name == (
        "cube-double-play-v0.npz"
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ogbench-antmaze-large-navigate-v0", "ogbench-antmaze-large-navigate-singletask-v0"),
        (
            "ogbench-scene-play-oraclerep-v0",
            "take one of its tasks: ogbench-scene-play-singletask-v0",
        ),
        ("ogbench-visual-cube-single-play-singletask-v0", "observes images"),
        ("ogbench-powderworld-easy-play-v0", "observes images"),
    ],
)
def test_other_names_are_refused_with_the_right_one(name: str, words: str) -> None:
    with pytest.raises(CharyError, match=words):
        load(name)
    with pytest.raises(CharyError, match=words):
        find_task(name)


def test_an_unknown_environment_gets_the_nearest(data_file: Path) -> None:
    with pytest.raises(CharyError, match="Did you mean pointmaze-medium-singletask"):
        load("ogbench-pointmaze-median-navigate-singletask-v0", data_file=data_file)


def test_a_file_of_something_else_is_refused(data_file: Path, tmp_path: Path) -> None:
    with pytest.raises(CharyError, match="this file is of another environment"):
        load("ogbench-antmaze-medium-navigate-singletask-v0", data_file=data_file)
    with np.load(data_file) as archive:
        columns = dict(archive)
    path = tmp_path / "other.npz"
    np.savez(path, observations=columns["observations"], actions=columns["actions"])
    with pytest.raises(CharyError, match="missing terminals, qpos"):
        load(NAME, data_file=path)
    np.savez(path, **{**columns, "qpos": columns["qpos"][:-1]})
    with pytest.raises(CharyError, match="unequal length"):
        load(NAME, data_file=path)
    np.savez(path, **{**columns, "terminals": np.ones(4 * LENGTH)})
    with pytest.raises(CharyError, match="holds no transitions"):
        load(NAME, data_file=path)
    path.write_bytes(data_file.read_bytes()[:500])
    with pytest.raises(CharyError, match="not a readable npz"):
        load(NAME, data_file=path)


def test_without_ogbench_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ogbench", None)
    with pytest.raises(CharyError, match=r"pip install 'chary\[ogbench\]'"):
        make(NAME)


def test_a_download_goes_to_ogbenchs_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, Path]] = []

    def fake(url: str, target: Path, *, signature: bytes) -> Path:
        assert signature == b"PK"
        asked.append((url, target))
        return target

    monkeypatch.setattr("chary.data.download.download_file", fake)
    monkeypatch.setattr(source, "FOLDER", tmp_path)
    entry = find(NAME)
    assert entry is not None and entry.download is not None
    file = "pointmaze-medium-navigate-v0.npz"
    assert entry.download(None) == tmp_path / file
    assert asked == [(f"{source.ADDRESS}/{file}", tmp_path / file)]
