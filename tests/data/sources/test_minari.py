import json
import socket
import tempfile
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import jax
import minari
import numpy as np
import pytest
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage

from chary.cli import main
from chary.data import formats, load
from chary.data.collect.mazes import Job, collect_block
from chary.data.columns import COLUMNS
from chary.data.dataset import Dataset
from chary.data.sources import find
from chary.data.sources import minari as source
from chary.data.tasks import find_task
from chary.envs.flatten import FlatObservation, flatten, vector_space
from chary.envs.mazes import PointMaze
from chary.errors import CharyError
from chary.evaluation.rollouts import evaluate
from chary.training.start import train
from tests.conftest import make_columns


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of Minari's, and no network."""

    def no_network(*_: object, **__: object) -> None:
        raise AssertionError("no connection was asked for")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path / "minari"


Episode = dict[str, Any]


def record(
    name: str, environment: str, episodes: int, steps: int, **metadata: Any
) -> list[Episode]:
    """Make a local dataset with random actions, and return what was seen on the way."""
    seen: list[Episode] = []
    made = gymnasium.make(environment, max_episode_steps=steps)
    made.action_space.seed(0)
    for seed in range(episodes):
        observation, _ = made.reset(seed=seed)
        episode: Episode = {
            key: [] for key in ("actions", "rewards", "terminations", "truncations")
        }
        episode["observations"] = [observation]
        while not any(episode["terminations"] + episode["truncations"]):
            action = made.action_space.sample()
            observation, reward, terminated, truncated, _ = made.step(action)
            row = (action, float(reward), terminated, truncated, observation)
            for column, value in zip(episode.values(), row, strict=True):
                column.append(value)
        seen.append(episode)
    buffers = [
        EpisodeBuffer(**{**e, "observations": jax.tree.map(lambda *o: list(o), *e["observations"])})
        for e in seen
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Minari wishes for an author, a licence and more
        minari.create_dataset_from_buffers(name, buffers, env=made, **metadata)
    made.close()
    return seen


def test_box_observations_are_read_step_by_step(root: Path) -> None:
    seen = record("pendulum/random-v0", "Pendulum-v1", episodes=3, steps=7)
    dataset = load("minari:pendulum/random-v0")
    assert dataset.name == "minari:pendulum/random-v0"
    assert dataset.action_low.tolist() == [-2.0] and dataset.action_high.tolist() == [2.0]
    assert dataset.episode_lengths.tolist() == [7, 7, 7]
    assert not dataset.terminals.any() and dataset.timeouts.sum() == 3
    for rows, episode in zip(dataset.episodes(), seen, strict=True):
        observations = np.asarray(episode["observations"], np.float32)
        np.testing.assert_array_equal(dataset.observations[rows], observations[:-1])
        np.testing.assert_array_equal(dataset.next_observations[rows], observations[1:])
        np.testing.assert_array_equal(dataset.actions[rows], np.asarray(episode["actions"]))
        np.testing.assert_array_equal(dataset.rewards[rows], np.float32(episode["rewards"]))
    entry = find("minari:pendulum/random-v0")
    assert entry is not None and entry.present() and entry.source == "Minari"
    # The folder may also be given by hand.
    moved = root.rename(root.with_name("elsewhere")) / "pendulum" / "random-v0"
    assert not entry.present()
    assert load("minari:pendulum/random-v0", data_file=moved).fingerprint == dataset.fingerprint


@pytest.mark.usefixtures("root")
def test_goal_observations_are_flattened_as_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gymnasium_robotics

    gymnasium.register_envs(gymnasium_robotics)
    seen = record(
        "maze/random-v3", "PointMaze_UMaze-v3", 2, 6, ref_min_score=1.0, ref_max_score=3.0
    )
    dataset = load("minari:maze/random-v3")
    first = seen[0]["observations"][0]
    expected = np.concatenate([first["desired_goal"], first["observation"]]).astype(np.float32)
    np.testing.assert_array_equal(dataset.observations[0], expected)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    task = find_task("minari:maze/random-v3")
    assert task is not None and task.has_success
    assert task.reference_scores == (1.0, 3.0) and task.normalise(2.0) == 50.0
    environment = task.make()
    observation, _ = environment.reset(seed=0)
    np.testing.assert_array_equal(observation, dataset.observations[0])
    assert environment.observation_space.contains(observation)
    environment.close()
    result = evaluate(lambda rows, _: np.zeros((len(rows), 2)), task, episodes=2, seed=0)
    assert result.lengths.tolist() == [6, 6] and result.successes is not None
    assert not any((tmp_path / "temporary").iterdir())


def test_flattening_follows_gymnasium() -> None:
    space = spaces.Dict(
        {
            "z": spaces.Box(-1, 1, (2, 2)),
            "a": spaces.Dict({"y": spaces.Box(0, 5, (3,)), "x": spaces.Box(-np.inf, np.inf, ())}),
        }
    )
    space.seed(0)
    samples = [space.sample() for _ in range(4)]
    rows = np.stack([flatten(space, sample) for sample in samples])
    expected = np.stack([np.asarray(spaces.flatten(space, sample)) for sample in samples])
    np.testing.assert_array_equal(rows, expected)
    batch = {
        "z": np.stack([sample["z"] for sample in samples]),
        "a": {key: np.stack([sample["a"][key] for sample in samples]) for key in ("x", "y")},
    }
    np.testing.assert_array_equal(flatten(space, batch, rows=4), rows)
    flat = vector_space(space, "toy")
    assert flat.shape == (8,) and all(flat.contains(row) for row in rows)
    goal = spaces.Dict({**space.spaces, "achieved_goal": spaces.Box(0, 1, (2,))})
    assert vector_space(goal, "toy").shape == (8,)
    sample = {**samples[0], "achieved_goal": np.ones(2)}
    np.testing.assert_array_equal(flatten(goal, sample), rows[0])


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Discrete(4), "the observation is Discrete"),
        (spaces.Box(0, 255, (8, 8, 3), np.uint8), "the observation is an image"),
        (spaces.Dict({"camera": spaces.Box(0, 1, (4, 4, 3))}), "camera is an image"),
        (spaces.Dict({"a": spaces.Dict({"b": spaces.Text(3)})}), "a/b is Text"),
        (spaces.Dict({"achieved_goal": spaces.Box(0, 1, (2,))}), "are empty"),
    ],
)
def test_spaces_without_vectors_are_refused(space: spaces.Space[Any], words: str) -> None:
    with pytest.raises(CharyError, match=words):
        vector_space(space, "toy")


@pytest.mark.usefixtures("root")
def test_discrete_actions_are_refused() -> None:
    record("cart/random-v0", "CartPole-v1", 1, 5)
    with pytest.raises(CharyError, match=r"its actions are Discrete\(2\)"):
        load("minari:cart/random-v0")


def test_what_is_not_there_is_not_downloaded(root: Path) -> None:
    with pytest.raises(CharyError, match=r"chary data download minari:D4RL/pen/human-v2"):
        load("minari:D4RL/pen/human-v2")
    assert not root.exists()
    with pytest.warns(UserWarning, match="nothing is evaluated"):
        assert find_task("minari:D4RL/pen/human-v2") is None


@pytest.mark.parametrize("name", ["minari:", "minari:pen", "minari:../../etc-v0", "minari:/a-v0"])
def test_a_malformed_id_is_refused(name: str) -> None:
    with pytest.raises(CharyError, match="not a Minari dataset id"):
        load(name)


@pytest.mark.parametrize("file", ["metadata.json", "main_data.hdf5"])
def test_a_damaged_dataset_is_one_message(root: Path, file: str) -> None:
    record("pendulum/random-v0", "Pendulum-v1", 1, 5)
    path = root / "pendulum" / "random-v0" / "data" / file
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CharyError, match=r"cannot be read from|not a readable HDF5 file") as caught:
        load("minari:pendulum/random-v0")
    assert "\n" not in str(caught.value) and "pendulum/random-v0" in str(caught.value)


def test_an_environment_that_cannot_be_made_is_told_once(root: Path) -> None:
    record("pendulum/random-v0", "Pendulum-v1", 1, 5)
    path = root / "pendulum" / "random-v0" / "data" / "metadata.json"
    text = path.read_text().replace("gymnasium.envs.classic_control", "no_such_package")
    assert "no_such_package" in text
    path.write_text(text)
    with pytest.warns(UserWarning, match="nothing is evaluated") as caught:
        assert find_task("minari:pendulum/random-v0") is None
    assert len(caught) == 1 and "no_such_package" in str(caught[0].message)
    assert load("minari:pendulum/random-v0").size == 5


def change(root: Path, name: str = "pendulum/random-v0", **changes: Any) -> None:
    """Put other words into a dataset's metadata, or into the environment that it names."""
    path = root / name / "data" / "metadata.json"
    metadata = json.loads(path.read_text())
    spec = json.loads(metadata["env_spec"])
    inner = {key: changes.pop(key) for key in list(changes) if key in spec}
    metadata |= {"env_spec": json.dumps(spec | inner), **changes}
    path.write_text(json.dumps({k: v for k, v in metadata.items() if v is not None}))


RUN = {"entry_point": "subprocess:run", "kwargs": {"args": ["mkdir", "marker"]}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (RUN, "asks for 'subprocess:run', which may run anything"),
        (
            {"eval_env_spec": json.dumps({"id": "A-v0", "additional_wrappers": [], **RUN})},
            "asks for 'subprocess:run'",
        ),
        ({"entry_point": "gymnasium.envs.registration:load_env_creator"}, "may run anything"),
        (
            {"additional_wrappers": [{"name": "W", "entry_point": "os:mkdir", "kwargs": {}}]},
            "the wrapper 'os:mkdir'",
        ),
        (
            {
                "additional_wrappers": [
                    {
                        "name": "RecordVideo",
                        "entry_point": "gymnasium.wrappers.rendering:RecordVideo",
                        "kwargs": {"video_folder": "marker"},
                    }
                ]
            },
            "RecordVideo",
        ),
        ({"kwargs": {"xml_file": "/etc/model.xml"}}, "the argument xml_file='/etc/model.xml'"),
        ({"kwargs": {"frame_skip": 10**12}}, "the argument frame_skip"),
    ],
)
def test_metadata_runs_nothing(
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    record("pendulum/random-v0", "Pendulum-v1", 4, 5)
    change(root, **changes)
    with pytest.warns(UserWarning, match="nothing is evaluated") as caught:
        assert find_task("minari:pendulum/random-v0") is None
    assert words in str(caught[0].message) and "--trust-environment" in str(caught[0].message)
    for command in (["show"], ["check"], ["export", "--out", "data.npz"]):
        assert main(["data", command[0], "minari:pendulum/random-v0", *command[1:]]) == 0
    assert not (tmp_path / "marker").exists()
    capsys.readouterr()


def test_an_environment_is_made_where_the_user_trusts_it(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(source.TRUST, "")  # put back afterwards
    record("pendulum/random-v0", "Pendulum-v1", 2, 5)
    change(root, **RUN)
    command = ["data", "export", "minari:pendulum/random-v0", "--to", "minari", "--id"]
    assert main([*command, "mine/first-v0"]) == 0
    assert "may run anything" in capsys.readouterr().err and not (tmp_path / "marker").exists()
    assert main([*command, "mine/second-v0", "--trust-environment"]) == 0
    assert "must inherit from" in capsys.readouterr().err and (tmp_path / "marker").exists()


def test_an_argument_of_plain_numbers_and_words_is_kept(root: Path) -> None:
    record("pendulum/random-v0", "Pendulum-v1", 1, 5)
    change(root, kwargs={"g": 3.0, "render_mode": "human"}, max_episode_steps=7)
    task = find_task("minari:pendulum/random-v0")
    assert task is not None
    environment = task.make()
    made: Any = environment.unwrapped
    assert made.g == 3.0 and made.render_mode is None
    assert environment.spec is not None and environment.spec.max_episode_steps == 7
    environment.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"observation_space": None, **RUN}, "has no observation_space"),
        ({"total_episodes": 10**12}, "says that there are 1000000000000 episodes"),
        ({"total_episodes": "many"}, "says that there are many episodes"),
        (
            {"action_space": '{"type": "Box", "shape": [1000000, 1000000], "low": 0, "high": 1}'},
            "a space of shape",
        ),
        ({"action_space": "[" * 10**5}, "nested too deeply"),
        ({"author": json.loads("[" * 30 + "]" * 30)}, "nested too deeply"),
    ],
)
def test_metadata_that_asks_for_too_much(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    record("pendulum/random-v0", "Pendulum-v1", 1, 5)
    change(root, **changes)
    with pytest.raises(CharyError, match=words) as caught:
        load("minari:pendulum/random-v0")
    assert "\n" not in str(caught.value) and not (tmp_path / "marker").exists()


def test_a_dataset_does_not_lead_out_of_its_folder(root: Path, tmp_path: Path) -> None:
    record("pendulum/random-v0", "Pendulum-v1", 1, 5)
    data = root / "pendulum" / "random-v0" / "data"
    numbers = data / "main_data.hdf5"
    with h5py.File(tmp_path / "secret.hdf5", "w") as file:
        file["rewards"] = np.ones(5)
    with h5py.File(numbers, "a") as file:
        file["episode_0/infos/big"] = h5py.ExternalLink(str(tmp_path / "secret.hdf5"), "rewards")
    assert load("minari:pendulum/random-v0").size == 5  # infos are not read
    with h5py.File(numbers, "a") as file:
        del file["episode_0/rewards"]
        file["episode_0/rewards"] = h5py.ExternalLink(str(tmp_path / "secret.hdf5"), "rewards")
    with pytest.raises(CharyError, match="'episode_0/rewards' is a link to another file"):
        load("minari:pendulum/random-v0")
    numbers.rename(tmp_path / "elsewhere.hdf5")
    numbers.symlink_to(tmp_path / "elsewhere.hdf5")
    with pytest.raises(CharyError, match="is a link, which may lead anywhere"):
        load("minari:pendulum/random-v0")


def test_episodes_that_do_not_fit_each_other(root: Path) -> None:
    record("pendulum/random-v0", "Pendulum-v1", 2, 5)
    with h5py.File(root / "pendulum" / "random-v0" / "data" / "main_data.hdf5", "a") as file:
        del file["episode_0/observations"]
        file["episode_0/observations"] = np.zeros((6, 5), np.float32)
    with pytest.raises(CharyError, match="its episodes do not fit each other"):
        load("minari:pendulum/random-v0")


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("data_format", ["arrow", "parquet"])
def test_minaris_other_formats_are_read(data_format: str) -> None:
    seen = record("pendulum/random-v0", "Pendulum-v1", 2, 5, data_format=data_format)
    dataset = load("minari:pendulum/random-v0")
    expected = np.concatenate([np.asarray(e["rewards"], np.float32) for e in seen])
    np.testing.assert_array_equal(dataset.rewards, expected)


def test_actions_beyond_the_bounds_are_cut_and_told(root: Path) -> None:
    record("pendulum/random-v0", "Pendulum-v1", 1, 5)
    path = root / "pendulum" / "random-v0" / "data" / "metadata.json"
    metadata = json.loads(path.read_text())
    space = json.loads(metadata["action_space"])
    metadata["action_space"] = json.dumps({**space, "low": [-0.1], "high": [0.1]})
    path.write_text(json.dumps(metadata))
    with pytest.warns(UserWarning, match="cut at its bounds"):
        dataset = load("minari:pendulum/random-v0")
    assert np.abs(dataset.actions).max() == np.float32(0.1)


def test_without_minari_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "minari", None)
    with pytest.raises(CharyError, match=r"pip install 'chary\[minari\]'"):
        source.open_dataset("minari:a-v0", Path("nowhere"))


def maze_data() -> Dataset:
    columns = collect_block(Job("pointmaze-umaze", 400, seed=0, block=0))
    return Dataset.from_columns(columns, name="pointmaze-umaze")


@pytest.mark.usefixtures("root")
def test_a_written_dataset_is_read_back_and_is_one_of_minaris() -> None:
    dataset = maze_data()
    folder = source.write(dataset, "mine/maze-v1")
    assert sorted(path.name for path in folder.parent.iterdir()) == [
        "maze-v1",
        "namespace_metadata.json",
    ]
    assert list(minari.list_local_datasets()) == ["mine/maze-v1"]
    theirs = minari.load_dataset("mine/maze-v1")
    assert theirs.total_steps == 400 and theirs.storage.metadata["ref_max_score"] == 1.0
    back = load("minari:mine/maze-v1")
    for column in (*COLUMNS, "action_low", "action_high"):
        np.testing.assert_array_equal(getattr(back, column), getattr(dataset, column), strict=True)
    with pytest.raises(CharyError, match="already there"):
        source.write(dataset, "mine/maze-v1")


def test_minaris_folder_may_be_a_relative_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", "here")
    assert source.write(maze_data(), "mine/maze-v1") == tmp_path / "here" / "mine" / "maze-v1"
    assert load("minari:mine/maze-v1").size == 400


@pytest.mark.usefixtures("root")
def test_an_environment_of_charys_own_goes_with_the_data() -> None:
    source.write(maze_data(), "mine/maze-v1")
    task = find_task("minari:mine/maze-v1")
    assert task is not None and task.has_success and task.reference_scores == (0.0, 1.0)
    environment = task.make()
    assert isinstance(environment.unwrapped, PointMaze)
    environment.close()


@pytest.mark.usefixtures("root")
def test_a_registered_environment_goes_with_the_data() -> None:
    record("pendulum/random-v0", "Pendulum-v1", 2, 5)
    source.write(load("minari:pendulum/random-v0"), "mine/pendulum-v0")
    task = find_task("minari:mine/pendulum-v0")
    assert task is not None
    environment = task.make()
    assert isinstance(environment, FlatObservation)
    assert environment.spec is not None and environment.spec.id == "Pendulum-v1"
    environment.close()


def test_data_that_minari_cannot_hold_is_refused(root: Path) -> None:
    broken = Dataset.from_columns(make_columns(), name="tiny")
    with pytest.raises(
        CharyError, match="next observation of row 0 is not the observation of row 1"
    ):
        source.write(broken, "mine/tiny-v0")
    assert not root.exists()


def test_a_failed_write_leaves_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(MinariStorage, "update_metadata", full)
    with pytest.raises(CharyError, match=r"cannot be written .*No space left"):
        source.write(maze_data(), "mine/maze-v1")
    assert [path.name for path in (root / "mine").iterdir()] == ["namespace_metadata.json"]


@pytest.mark.usefixtures("root")
def test_a_download_is_left_to_minari(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(minari, "download_dataset", asked.append)
    entry = find("minari:D4RL/door/human-v2")
    assert entry is not None and entry.download is not None
    path = entry.download(None)
    assert asked == ["D4RL/door/human-v2"] and path.parts[-3:] == ("D4RL", "door", "human-v2")

    def unreachable(_: str) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(minari, "download_dataset", unreachable)
    with pytest.raises(CharyError, match=r"could not download it .no route to host"):
        entry.download(None)


def test_a_file_that_came_from_minari_keeps_its_task(root: Path, tmp_path: Path) -> None:
    record("pendulum/random-v0", "Pendulum-v1", 2, 5)
    formats.write(load("minari:pendulum/random-v0"), tmp_path / "data.npz")
    assert root.exists()
    task = find_task(load(tmp_path / "data.npz").name)
    assert task is not None and task.reference_scores is None and not task.has_success


def test_training_by_name_evaluates_in_the_recovered_environment(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record("pendulum/random-v0", "Pendulum-v1", 4, 5)
    monkeypatch.chdir(root)
    agent = train(
        "bc", "minari:pendulum/random-v0", steps=5, hidden=(8,), batch_size=8, final_episodes=2
    )
    # One folder, whatever the name has in it.
    assert agent.folder == Path("runs/bc-minari-pendulum-random-v0-0")
    (line,) = (agent.folder / "evals.jsonl").read_text().splitlines()
    assert json.loads(line)["lengths"] == [5, 5]
