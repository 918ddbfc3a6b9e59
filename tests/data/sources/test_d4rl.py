from pathlib import Path

import h5py
import numpy as np
import pytest

from chary.algos import ALGORITHMS
from chary.data import formats, load, sources
from chary.data.dataset import Dataset
from chary.data.formats import hdf5
from chary.data.sources import NAMED, d4rl
from chary.errors import CharyError

ANTMAZE = [f"antmaze-{kind}-v0" for kind in ("umaze", "umaze-diverse", "medium-play", "large-play")]


def raw(path: Path) -> dict[str, np.ndarray]:
    """Everything in the file that we compare against, read by h5py alone."""
    with h5py.File(path) as file:
        columns = {k: np.asarray(v) for k, v in file.items() if isinstance(v, h5py.Dataset)}
        return columns | {key: np.asarray(file[key]) for key in d4rl.INFOS}


def write(path: Path, columns: dict[str, np.ndarray]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for key, array in columns.items():
            file[key] = array
    return path


def assert_no_transition_crosses_a_reset(dataset: Dataset) -> None:
    inside = np.setdiff1d(np.arange(dataset.size - 1), dataset.episode_ends)
    np.testing.assert_allclose(
        dataset.next_observations[inside], dataset.observations[inside + 1], atol=1e-4
    )


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """D4RL's folder and chary's cache, both empty."""
    monkeypatch.setenv("D4RL_DATASET_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("CHARY_CACHE", str(tmp_path / "cache"))
    return d4rl.folders()


def test_the_catalogue() -> None:
    # 6 antmazes in two versions; 3 mazes with two rewards; 4 robots with 6 kinds in v1, v2 and 5 in v0.
    assert len(d4rl.PUBLISHED) == 6 * 2 + 3 * 2 + 4 * (6 + 6 + 5)
    assert len({path.rsplit("/")[-1] for path in d4rl.PUBLISHED.values()}) == len(d4rl.PUBLISHED)
    for name in d4rl.PUBLISHED:
        entry = NAMED[name]
        assert entry.name == name and entry.source == "d4rl" and entry.download is not None
        assert entry.preset == "paper" and f"paper-{entry.domain}" in ALGORITHMS["msg"].presets
    for name, path in {
        "antmaze-umaze-v0": "ant_maze_new/Ant_maze_u-maze_noisy_multistart_False_multigoal_False_sparse",
        "antmaze-large-diverse-v2": "ant_maze_v2/Ant_maze_hardest-maze_noisy_multistart_True"
        "_multigoal_True_sparse_fixed",
        "maze2d-medium-v1": "maze2d/maze2d-medium-sparse-v1",
        "maze2d-large-dense-v1": "maze2d/maze2d-large-dense-v1",
        "walker2d-medium-replay-v0": "gym_mujoco/walker_mixed",
        "ant-medium-replay-v0": "gym_mujoco/ant_mixed",
        "halfcheetah-medium-expert-v0": "gym_mujoco/halfcheetah_medium_expert",
        "hopper-full-replay-v2": "gym_mujoco_v2/hopper_full_replay-v2",
    }.items():
        assert d4rl.PUBLISHED[name] == f"{path}.hdf5"
    scale, shift = NAMED["antmaze-umaze-v2"].reward
    assert (scale * (0 + shift), scale * (1 + shift)) == (-2.0, 2.0)
    assert NAMED["hopper-medium-v2"].reward == NAMED["maze2d-large-v1"].reward == (1.0, 0.0)


@pytest.mark.parametrize("name", ANTMAZE)
def test_real_antmaze_rows_are_all_kept_and_cut_at_the_real_resets(
    real_data: Path, name: str
) -> None:
    path = real_data / "d4rl" / f"{name}.hdf5"
    file, dataset = raw(path), load(path)
    assert dataset.name == name and dataset.size == len(file["rewards"])
    for column in ("observations", "actions", "rewards"):
        expected = file[column].astype(np.float32)
        np.testing.assert_array_equal(getattr(dataset, column), expected, strict=True)
    # The simulator's state after a step is bit for bit the next row, but for one row: the reset.
    states = np.concatenate([file["infos/qpos"], file["infos/qvel"]], axis=1)
    np.testing.assert_array_equal(dataset.next_observations, states, strict=True)
    apart = (states[:-1] != file["observations"][1:]).any(axis=1)
    reset = 700 if name == "antmaze-umaze-v0" else 1000
    assert np.flatnonzero(apart).tolist() == [reset]
    assert dataset.episode_ends.tolist() == [reset, dataset.size - 1]
    with h5py.File(path) as whole:  # the goal of the collection changes just there
        goals = np.asarray(whole["infos/goal"])
    assert np.flatnonzero((goals[1:] != goals[:-1]).any(axis=1)).tolist() == [reset]
    assert not dataset.terminals.any()
    assert_no_transition_crosses_a_reset(dataset)


def test_the_flags_of_real_antmaze_drift(real_data: Path) -> None:
    """What would go wrong if they were believed."""
    for name in ANTMAZE[1:]:
        flags = np.flatnonzero(raw(real_data / "d4rl" / f"{name}.hdf5")["timeouts"])
        assert flags.tolist() == [998, 1997]


@pytest.mark.parametrize("name", ANTMAZE)
def test_antmaze_without_states_is_cut_where_the_ant_jumps(
    real_data: Path, tmp_path: Path, name: str
) -> None:
    file = raw(real_data / "d4rl" / f"{name}.hdf5")
    columns = {key: array for key, array in file.items() if key not in d4rl.INFOS}
    del columns["timeouts"]
    dataset = load(name, data_file=write(tmp_path / "other.hdf5", columns))
    assert dataset.name == name
    # The rows before the jump and at the end are left out: what followed them is not known.
    assert dataset.size == len(file["rewards"]) - 2
    assert len(dataset.episode_ends) == 2
    assert_no_transition_crosses_a_reset(dataset)
    steps = np.abs(dataset.next_observations - dataset.observations)[:, :2]
    assert steps.max() < d4rl.JUMP


def test_states_from_before_the_step_are_not_taken_for_the_next(
    real_data: Path, tmp_path: Path
) -> None:
    file = raw(real_data / "d4rl" / "antmaze-umaze-v0.hdf5")
    file["infos/qpos"], file["infos/qvel"] = np.split(file["observations"], [15], axis=1)
    dataset = load(write(tmp_path / "antmaze-umaze-v0.hdf5", file))
    assert_no_transition_crosses_a_reset(dataset)
    assert (dataset.next_observations != dataset.observations).any(axis=1).all()


def test_antmaze_terminals_are_true_ends_while_the_run_goes_on(
    real_data: Path, tmp_path: Path
) -> None:
    """The ant stays at the goal for a while: every row there is paid, and ends an episode."""
    file = raw(real_data / "d4rl" / "antmaze-umaze-v0.hdf5")
    at_goal = np.zeros(len(file["rewards"]), bool)
    at_goal[300:303] = at_goal[700] = True
    file["terminals"], file["rewards"] = at_goal, at_goal.astype(float)
    path = write(tmp_path / "antmaze-umaze-v2.hdf5", file)
    dataset = load(path)
    assert dataset.size == len(at_goal)
    np.testing.assert_array_equal(dataset.terminals, at_goal)
    # In row 700 the task ends and the time is up: the task's own end is the stronger word.
    assert np.flatnonzero(dataset.timeouts).tolist() == [dataset.size - 1]
    assert dataset.episode_lengths.tolist() == [301, 1, 1, 398, 701]
    np.testing.assert_array_equal(dataset.next_observations[300], file["observations"][301])


@pytest.mark.parametrize(
    ("file_name", "name", "ends", "true_ends"),
    [
        ("hopper_medium-v2", "hopper-medium-v2", [469, 910], 2),
        ("halfcheetah_medium-v2", "halfcheetah-medium-v2", [999, 1999], 0),
        ("walker2d_medium-v2", "walker2d-medium-v2", [999, 1999], 0),
        ("hopper_random-v1", "hopper-random-v1", [30, 49], 2),
        ("halfcheetah_random-v1", "halfcheetah-random-v1", [999, 1999], 0),
        ("walker2d_medium_replay-v1", "walker2d-medium-replay-v1", [9, 30], 2),
    ],
)
def test_real_gym_files(
    real_data: Path, file_name: str, name: str, ends: list[int], true_ends: int
) -> None:
    path = real_data / "d4rl" / f"{file_name}.hdf5"
    file, dataset = raw(path), load(path)
    assert dataset.name == name
    assert dataset.episode_ends.tolist() == ends and dataset.terminals.sum() == true_ends
    for column in ("observations", "actions", "rewards", "next_observations"):
        array = file[column].reshape(getattr(dataset, column).shape)
        np.testing.assert_array_equal(getattr(dataset, column), array.astype(np.float32))
    assert_no_transition_crosses_a_reset(dataset)
    assert load(name, data_file=path).fingerprint == dataset.fingerprint


@pytest.mark.parametrize("with_next", [True, False])
def test_a_reset_that_no_flag_tells_of(real_data: Path, tmp_path: Path, with_next: bool) -> None:
    """As where D4RL joined two files; with next observations it shows."""
    file = raw(real_data / "d4rl" / "hopper_medium-v2.hdf5")
    file["terminals"][469] = False
    if not with_next:
        del file["next_observations"]
        file["timeouts"][469] = True
    dataset = load("hopper-medium-expert-v2", data_file=write(tmp_path / "f.hdf5", file))
    assert dataset.episode_ends.tolist() == ([469, 910] if with_next else [468, 909])
    assert dataset.timeouts.sum() == 1
    assert_no_transition_crosses_a_reset(dataset)


def gym_columns(rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "observations": rng.standard_normal((rows, 3)).astype(np.float32),
        "actions": rng.uniform(-1, 1, (rows, 2)).astype(np.float32),
        "rewards": rng.standard_normal(rows).astype(np.float32),
        "terminals": np.zeros(rows, bool),
    }


def test_without_timeouts_a_gym_episode_has_its_thousand_steps(tmp_path: Path) -> None:
    columns = gym_columns(2_600)
    columns["terminals"][[299, 1_299]] = True  # the second just at the limit
    dataset = load(write(tmp_path / "hopper_mixed.hdf5", columns))
    assert dataset.name == "hopper-medium-replay-v0"
    # A cut row is left out, because what followed it is not in the file.
    assert dataset.episode_lengths.tolist() == [300, 1_000, 999, 299]
    assert dataset.terminals.sum() == 2
    inside = np.setdiff1d(np.arange(dataset.size), dataset.episode_ends)
    np.testing.assert_array_equal(
        dataset.next_observations[inside], dataset.observations[inside + 1]
    )


@pytest.mark.parametrize("timeouts", [None, False])
def test_maze2d_is_one_run_that_ends_with_the_data(tmp_path: Path, timeouts: bool | None) -> None:
    columns = gym_columns(500)
    if timeouts is not None:
        columns["timeouts"] = np.full(500, timeouts)
    path = write(tmp_path / "maze2d-umaze-sparse-v1.hdf5", columns)
    dataset = load(path)
    assert dataset.name == "maze2d-umaze-v1"
    assert dataset.episode_ends.tolist() == [498] and not dataset.terminals.any()
    np.testing.assert_array_equal(dataset.observations, columns["observations"][:-1])
    np.testing.assert_array_equal(dataset.next_observations, columns["observations"][1:])
    np.testing.assert_array_equal(dataset.rewards, columns["rewards"][:-1])


def test_maze2d_never_truly_ends_and_leaves_out_what_was_logged_twice(tmp_path: Path) -> None:
    columns = gym_columns(100)
    columns["terminals"][20] = True  # a target was reached
    columns["observations"][51] = columns["observations"][50]
    dataset = load("maze2d-large-dense-v1", data_file=write(tmp_path / "file.hdf5", columns))
    assert not dataset.terminals.any()
    kept = np.setdiff1d(np.arange(99), [20, 50])
    np.testing.assert_array_equal(dataset.observations, columns["observations"][kept])
    np.testing.assert_array_equal(dataset.next_observations, columns["observations"][kept + 1])


def test_where_files_are_looked_for(folders: tuple[Path, Path], tmp_path: Path) -> None:
    name, columns = "maze2d-umaze-v1", gym_columns(10)
    entry = sources.find(name)
    assert entry is not None and not entry.present()
    with pytest.raises(CharyError) as caught:
        load(name)
    for part in ("--data-file", str(folders[0]), f"chary data download {name}", "sparse-v1.hdf5"):
        assert part in str(caught.value)

    def first_reward() -> float:
        return float(load(name).rewards[0])

    # From the last place to the first: each goes before those that came earlier.
    places = (
        folders[1] / f"{name}.hdf5",
        folders[1] / "maze2d-umaze-sparse-v1.hdf5",
        folders[0] / f"{name}.hdf5",
        folders[0] / "maze2d-umaze-sparse-v1.hdf5",
    )
    for index, place in enumerate(places):
        columns["rewards"][0] = index
        write(place, columns)
        assert entry.present() and first_reward() == index
    columns["rewards"][0] = 9
    assert load(name, data_file=write(tmp_path / "x.hdf5", columns)).rewards[0] == 9


def test_a_file_may_also_be_an_npz_or_one_that_chary_wrote(real_data: Path, tmp_path: Path) -> None:
    dataset = load(real_data / "d4rl" / "antmaze-umaze-v0.hdf5")
    for ending in (".npz", ".h5"):
        path = tmp_path / f"copy{ending}"
        formats.write(dataset, path)
        again = load("antmaze-umaze-v0", data_file=path)
        assert again.fingerprint == dataset.fingerprint and again.name == dataset.name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"terminals": None}, "missing terminals"),
        ({"observations": None}, "missing observations"),
        ({"observations": np.zeros(50)}, "observations has shape"),
        ({"observations": np.full((50, 3), np.inf)}, "NaN or infinite"),
        ({"terminals": np.full(50, 2)}, "must be True/False"),
        ({"terminals": np.zeros(49)}, "unequal length"),
        ({"next_observations": np.zeros((50, 2))}, "next_observations"),
        ({"actions": np.full((50, 2), 3.0)}, "outside"),
    ],
)
@pytest.mark.parametrize("name", ["antmaze-umaze-v0", "maze2d-umaze-v1", "hopper-medium-v0"])
def test_a_file_that_cannot_be_right_is_refused_in_the_usual_words(
    tmp_path: Path, name: str, change: dict[str, np.ndarray | None], message: str
) -> None:
    columns = gym_columns(50) | {"timeouts": np.arange(50) == 30} | change
    kept = {key: array for key, array in columns.items() if array is not None}
    with pytest.raises(CharyError, match=message) as caught:
        load(write(tmp_path / f"{name}.hdf5", kept))
    assert str(tmp_path / f"{name}.hdf5") in str(caught.value)


def test_extra_arrays_are_read_only_when_asked_for(real_data: Path) -> None:
    path = real_data / "d4rl" / "hopper_medium-v2.hdf5"
    plain, _ = hdf5.read(path)
    assert not any("/" in key for key in plain)
    wanted = ("infos/qpos", "infos/nothing", "nothing/at/all", "metadata")
    arrays, _ = hdf5.read(path, wanted)
    assert set(arrays) == {"infos/qpos"}
    np.testing.assert_array_equal(arrays["infos/qpos"], raw(path)["infos/qpos"])


def test_a_true_end_of_halfcheetah_is_a_cut(tmp_path: Path) -> None:
    """v0 of halfcheetah-medium has one terminal, though the task never ends."""
    rng = np.random.default_rng(0)
    columns = {
        "observations": rng.standard_normal((40, 17)).astype(np.float32),
        "actions": rng.uniform(-1, 1, (40, 6)).astype(np.float32),
        "rewards": rng.standard_normal(40).astype(np.float32),
        "terminals": np.arange(40) == 11,
        "timeouts": np.arange(40) == 39,
    }
    path = tmp_path / "halfcheetah_medium.hdf5"
    hdf5.write(path, columns, {})
    with pytest.warns(UserWarning, match=r"1 row\(s\) \(11\), but halfcheetah never ends"):
        dataset = load("halfcheetah-medium-v0", data_file=path)
    assert not dataset.terminals.any()
    # What followed the cut is not known, so its row is left out.
    assert dataset.episode_lengths.tolist() == [11, 27]
    hopper = load("hopper-medium-v0", data_file=path)
    assert hopper.terminals.sum() == 1
