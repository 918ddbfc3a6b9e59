import gzip
import struct
import sys
from pathlib import Path
from typing import Any

import crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tfrecord import example_pb2
from tfrecord.reader import tfrecord_loader

from chary.algos import ALGORITHMS
from chary.data import doctor, load
from chary.data.formats import tfrecord
from chary.data.sources import NAMED, rlu
from chary.envs.control import TASKS
from chary.errors import CharyError

CARTPOLE = "rlu-cartpole-swingup"
SHARDS = {
    "/": "rlu_control_suite-cartpole_swingup-train-00000-of-00001",
    ":": "rlu_rwrl-cartpole_swingup-episodes.tfrecord-00000-of-00001",
}
Features = dict[str, np.ndarray]


def episode(rows: int = 5, seed: int = 0, *, ends: bool = False) -> Features:
    """An episode of the walker, as RL Unplugged stores one."""
    rng = np.random.default_rng(seed)
    task = TASKS["rlu-walker-walk"]
    features = {
        f"observation/{key}": rng.standard_normal(rows * size)
        for key, size in task.observations.items()
    }
    return features | {
        "action": rng.uniform(-1.2, 1.2, rows * 6),
        "reward": np.append(np.nan, np.arange(1, rows)),
        "discount": np.array([np.nan] + [1.0] * (rows - 2) + [0.0 if ends else 1.0]),
        "step_type": np.array([0.0] + [1.0] * (rows - 2) + [2.0]),
        "episode_id": np.array([7]),
    }


def masked(content: bytes) -> bytes:
    crc = crc32c.crc32c(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return length + masked(length) + content + masked(content)


def serialised(features: Features) -> bytes:
    example = example_pb2.Example()  # pyright: ignore[reportAttributeAccessIssue]
    for key, values in features.items():
        feature = example.features.feature[key]
        kind = feature.float_list if values.dtype.kind == "f" else feature.int64_list
        kind.value.extend(values.tolist())
    example.features.feature["remark"].bytes_list.value.append(b"words")
    return example.SerializeToString()


def write(path: Path, *episodes: Features, compressed: bool = True) -> Path:
    content = b"".join(record(serialised(features)) for features in episodes)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, mtime=0) if compressed else content)
    return path


def test_the_catalogue() -> None:
    assert {name for name, entry in NAMED.items() if entry.source == "rlu"} == set(TASKS)
    for name in TASKS:
        entry = NAMED[name]
        assert entry.reward == (1.0, 0.0) and entry.download is None
        assert (entry.preset, entry.domain) == ("paper", "rlu")
        assert all("paper-rlu" in algorithm.presets for algorithm in ALGORITHMS.values())


@pytest.mark.parametrize("separator", SHARDS)
def test_real_shards(real_data: Path, separator: str) -> None:
    path = real_data / "rlu" / SHARDS[separator]
    dataset = load(CARTPOLE, data_file=path)
    compression = "gzip" if separator == "/" else None  # the package's own reader
    stored: Any
    (stored,) = tfrecord_loader(str(path), None, compression_type=compression)
    position = stored[f"observation{separator}position"].reshape(-1, 3)
    velocity = stored[f"observation{separator}velocity"].reshape(-1, 2)
    observations = np.concatenate([position, velocity], axis=1)
    assert dataset.name == CARTPOLE and dataset.size == len(observations) - 1 == 1000
    np.testing.assert_array_equal(dataset.observations, observations[:-1], strict=True)
    np.testing.assert_array_equal(dataset.next_observations, observations[1:], strict=True)
    np.testing.assert_array_equal(dataset.actions[:, 0], stored["action"][:-1])
    np.testing.assert_array_equal(dataset.rewards, stored["reward"][1:])
    assert dataset.timeouts.tolist() == [False] * 999 + [True]
    assert not dataset.terminals.any()
    # In the Real-World suite's file the next row's action explains a third of how the cart's velocity
    # changes, and the row's own 2%; it has delays and noise on purpose.
    late = {"/": [], ":": ["actions-late"]}[separator]
    assert [finding.rule for finding in doctor.check(CARTPOLE, data_file=path)] == late


def test_a_discount_of_zero_is_a_true_end(tmp_path: Path) -> None:
    path = write(tmp_path / "train-00000-of-00001", episode(5, 1, ends=True), episode(4, 2))
    dataset = load("rlu-walker-walk", data_file=path)
    assert dataset.episode_lengths.tolist() == [4, 3]
    assert np.flatnonzero(dataset.terminals).tolist() == [3]
    assert np.flatnonzero(dataset.timeouts).tolist() == [6]
    assert dataset.rewards.tolist() == [1, 2, 3, 4, 1, 2, 3]
    first = episode(5, 1)
    parts = [first[f"observation/{key}"] for key in ("orientations", "height", "velocity")]
    row = np.concatenate([part.reshape(5, -1)[2] for part in parts]).astype(np.float32)
    np.testing.assert_array_equal(dataset.observations[2], row)
    np.testing.assert_array_equal(dataset.next_observations[1], row)
    # Beyond the bounds MuJoCo takes the bound.
    raw = first["action"].reshape(5, 6)[:4].astype(np.float32)
    assert np.abs(raw).max() > 1
    np.testing.assert_array_equal(dataset.actions[:4], np.clip(raw, -1, 1))


def test_one_shard_a_folder_or_a_pattern(tmp_path: Path) -> None:
    for index in range(3):
        write(
            tmp_path / f"train-0000{index}-of-00003", episode(4, index), compressed=index % 2 == 0
        )
    (tmp_path / "README").write_text("not a shard")
    whole = load("rlu-walker-walk", data_file=tmp_path)
    assert whole.episode_lengths.tolist() == [3, 3, 3]
    pattern = load("rlu-walker-walk", data_file=f"{tmp_path}/train-*")
    assert pattern.fingerprint == whole.fingerprint
    with pytest.warns(UserWarning, match="1 of 3 shards"):
        one = load("rlu-walker-walk", data_file=tmp_path / "train-00001-of-00003")
    np.testing.assert_array_equal(one.observations, whole.observations[3:6])
    with pytest.raises(CharyError, match="no shards there"):
        load("rlu-walker-walk", data_file=f"{tmp_path}/valid-*")
    with pytest.raises(CharyError, match="no such file"):
        load("rlu-walker-walk", data_file=tmp_path / "nothing")


def test_where_shards_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHARY_CACHE", str(tmp_path))
    assert not NAMED["rlu-walker-walk"].present()
    with pytest.raises(CharyError) as caught:
        load("rlu-walker-walk")
    where = tmp_path / "datasets" / "rlu" / "walker_walk"
    assert "--data-file" in str(caught.value) and str(where) in str(caught.value)
    write(where / "train-00000-of-00001", episode())
    assert NAMED["rlu-walker-walk"].present()
    assert load("rlu-walker-walk").size == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"observation/height": None}, "no feature 'observation/height'; it has action"),
        ({"observation/velocity": np.zeros(44)}, "'observation/velocity' has 44 numbers, not 9"),
        ({"action": np.zeros(24)}, "unequal length"),
        ({"reward": np.array([np.nan, 1, np.nan, 1, 1])}, "rewards has NaN"),
        # A piece of two steps, as in the shards for SARSA.
        ({"step_type": np.ones(5)}, "not a whole episode.*dm_control_suite_episodes"),
        ({"step_type": np.array([])}, "not a whole episode"),
        ({"step_type": None}, "no feature 'step_type'"),
    ],
)
def test_an_episode_that_cannot_be_right(
    tmp_path: Path, change: dict[str, np.ndarray | None], message: str
) -> None:
    features = {key: array for key, array in (episode() | change).items() if array is not None}
    path = write(tmp_path / "train-00000-of-00001", features)
    with pytest.raises(CharyError, match=message) as caught:
        load("rlu-walker-walk", data_file=path)
    assert str(path) in str(caught.value)


def test_shards_of_another_task(real_data: Path) -> None:
    path = real_data / "rlu" / SHARDS["/"]
    for name in TASKS:
        if name != CARTPOLE:
            with pytest.raises(CharyError, match=r"record 0: "):
                load(name, data_file=path)


def test_a_shard_without_episodes(tmp_path: Path) -> None:
    with pytest.raises(CharyError, match="holds no episodes"):
        load("rlu-walker-walk", data_file=write(tmp_path / "train-00000-of-00001"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not a record at all", "checksum|middle"),
        (record(b"\xff\xff\xff"), "not a tf.Example"),
        (record(b"")[:-1], "middle of a record"),
        (record(b"abc")[:14], "middle of a record"),
        # A length that is sound by its checksum, and absurd.
        (struct.pack("<Q", 2**60) + masked(struct.pack("<Q", 2**60)) + b"abc", "bytes"),
        (gzip.compress(record(b"abc"), mtime=0)[:20], "not a readable TFRecord"),
        (gzip.compress(record(b""), mtime=0)[:12] + bytes(30), "not a readable TFRecord"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "train-00000-of-00001"
    path.write_bytes(content)
    with pytest.raises(CharyError, match=message) as caught:
        load("rlu-walker-walk", data_file=path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("compressed", [pytest.param(True, marks=pytest.mark.long), False])
def test_any_flipped_byte_is_noticed(tmp_path: Path, compressed: bool) -> None:
    path = write(tmp_path / "train-00000-of-00001", episode(), compressed=compressed)
    whole = path.read_bytes()
    expected = load("rlu-walker-walk", data_file=path).fingerprint

    @settings(max_examples=150, derandomize=True, database=None, deadline=None)
    @given(
        place=st.integers(0, len(whole) - 1) | st.integers(0, 20),
        change=st.integers(1, 255),
        keep=st.just(len(whole)) | st.integers(0, len(whole)),
    )
    def corrupt(place: int, change: int, keep: int) -> None:
        content = bytearray(whole)
        content[place] ^= change
        path.write_bytes(content[:keep])
        try:
            dataset = load("rlu-walker-walk", data_file=path)
        except CharyError:
            return
        # gzip's header holds a date and a system that no checksum covers.
        assert dataset.fingerprint == expected and compressed and place < 10

    corrupt()


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "train-00000-of-00001", episode())
    monkeypatch.setitem(sys.modules, "tfrecord.example_pb2", None)
    with pytest.raises(CharyError, match=r"pip install 'chary\[rlu\]'"):
        load("rlu-walker-walk", data_file=path)


def test_features_are_read_as_they_are(tmp_path: Path) -> None:
    stored = episode()
    (features,) = tfrecord.read(write(tmp_path / "shard", stored))
    assert set(features) == set(stored)  # words are passed over
    assert features["episode_id"].tolist() == [7]
    np.testing.assert_array_equal(features["action"], stored["action"].astype(np.float32))
    assert rlu.shards(tmp_path / "shard") == [tmp_path / "shard"]
