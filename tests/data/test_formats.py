import os
import zipfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chary.data import formats, load
from chary.data.columns import COLUMNS
from chary.data.dataset import Dataset
from chary.data.formats import FORMATS
from chary.errors import CharyError
from tests.conftest import make_columns

ENDINGS = [".hdf5", ".h5", ".npz"]


@pytest.fixture
def bounded() -> Dataset:
    """A small dataset with bounds and words of its own."""
    return Dataset.from_columns(
        make_columns(),
        name="tiny",
        action_low=np.array([-1.5, -1.0]),
        action_high=np.array([1.0, 2.5]),
        metadata={"collected_by": "nobody, with noise of ½", "fingerprint": "abc"},
    )


def assert_equal(first: Dataset, second: Dataset) -> None:
    for key in (*COLUMNS, "action_low", "action_high"):
        np.testing.assert_array_equal(getattr(first, key), getattr(second, key), strict=True)
    assert first.fingerprint == second.fingerprint
    assert first.name == second.name
    assert first.metadata == second.metadata


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_read_is_what_was_written(bounded: Dataset, tmp_path: Path, ending: str) -> None:
    path = tmp_path / "new" / f"other-name{ending}"
    formats.write(bounded, path)
    assert_equal(formats.read(path), bounded)
    assert_equal(load(path), bounded)
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("ending", ENDINGS)
def test_without_a_name_inside_the_file_name_counts(
    columns: dict[str, np.ndarray], tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"my-data{ending}"
    if ending == ".npz":
        np.savez(path, **columns)  # pyright: ignore[reportArgumentType]
    else:
        with h5py.File(path, "w") as file:
            for key, array in columns.items():
                file[key] = array
    dataset = formats.read(path)
    assert dataset.name == "my-data"
    assert dataset.metadata == {}
    assert dataset.fingerprint == Dataset.from_columns(columns, name="tiny").fingerprint


@pytest.mark.parametrize("ending", [ending.upper() for ending in ENDINGS])
def test_the_ending_may_be_in_capitals(ending: str, dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / f"data{ending}"
    formats.write(dataset, path)
    assert_equal(formats.read(path), dataset)
    assert list(tmp_path.iterdir()) == [path]


def test_other_parts_of_a_file_are_passed_over(dataset: Dataset, tmp_path: Path) -> None:
    """D4RL's files also hold groups and words."""
    path = tmp_path / "data.hdf5"
    formats.write(dataset, path)
    with h5py.File(path, "a") as file:
        file["infos/qpos"] = np.zeros((7, 2))
        file["remarks"] = "not a number"
        file.attrs["version"] = 3
        file.attrs["long"] = "text of variable length"
    assert_equal(formats.read(path), dataset)


def test_written_hdf5_holds_no_text_of_variable_length(bounded: Dataset, tmp_path: Path) -> None:
    """Damage to such text can hang or crash the HDF5 library, where no exception helps."""
    path = tmp_path / "data.hdf5"
    formats.write(bounded, path)
    with h5py.File(path) as file:
        kinds = {key: file.attrs.get_id(key).dtype.kind for key in file.attrs}
        assert kinds == {"name": "S", "collected_by": "S", "fingerprint": "S"}
        for key in file:
            item = file[key]
            assert isinstance(item, h5py.Dataset) and item.dtype.kind in "bf"


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("content", [b"", b"observations, actions\n1, 2\n", bytes(5000)])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, ending: str, content: bytes) -> None:
    path = tmp_path / f"data{ending}"
    path.write_bytes(content)
    with pytest.raises(CharyError, match="not a readable") as caught:
        formats.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("share", [0.05, 0.5, 0.99])
def test_a_truncated_file_is_refused(
    dataset: Dataset, tmp_path: Path, ending: str, share: float
) -> None:
    path = tmp_path / f"data{ending}"
    formats.write(dataset, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(CharyError, match="not a readable"):
        formats.read(path)


def test_a_single_array_is_no_archive(tmp_path: Path) -> None:
    np.save(tmp_path / "array.npy", np.zeros(3))
    path = (tmp_path / "array.npy").rename(tmp_path / "array.npz")
    with pytest.raises(CharyError, match="a single array, not an archive"):
        formats.read(path)


@pytest.mark.parametrize("member", ["actions", "action_low", "attributes", "rewards"])
def test_an_archive_member_that_is_no_array_is_refused(
    dataset: Dataset, tmp_path: Path, member: str
) -> None:
    formats.write(dataset, tmp_path / "whole.npz")
    path = tmp_path / "data.npz"
    with (
        zipfile.ZipFile(tmp_path / "whole.npz") as whole,
        zipfile.ZipFile(path, "w") as archive,
    ):
        for name in whole.namelist():
            content = b"no array" if name == f"{member}.npy" else whole.read(name)
            archive.writestr(name, content)
    with pytest.raises(CharyError):
        formats.read(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damage_inside_a_compressed_archive_is_refused(
    dataset: Dataset, tmp_path: Path, method: int
) -> None:
    formats.write(dataset, tmp_path / "whole.npz")
    path = tmp_path / "data.npz"
    with (
        zipfile.ZipFile(tmp_path / "whole.npz") as whole,
        zipfile.ZipFile(path, "w", method) as archive,
    ):
        for name in whole.namelist():
            archive.writestr(name, whole.read(name))
    assert_equal(formats.read(path), dataset)
    content = bytearray(path.read_bytes())
    content[60:120] = b"\xff" * 60
    path.write_bytes(content)
    with pytest.raises(CharyError, match="not a readable npz"):
        formats.read(path)


class Trap:
    """Unpickling this makes a folder."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("column", ["rewards", "infos", "attributes"])
def test_python_objects_are_never_unpickled(
    columns: dict[str, np.ndarray], tmp_path: Path, column: str
) -> None:
    marker, path = tmp_path / "marker", tmp_path / "data.npz"
    trapped: dict[str, Any] = {**columns, column: np.array([Trap(marker)] * 120, dtype=object)}
    np.savez(path, **trapped)
    # What nobody asks for stays in the file unread.
    with nullcontext() if column == "infos" else pytest.raises(CharyError, match="never loaded"):
        formats.read(path)
    assert not marker.exists()
    with np.load(path, allow_pickle=True) as archive:
        archive[column]  # the trap does work
    assert marker.exists()


def test_a_missing_file_a_folder_and_an_unknown_ending(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(CharyError, match="no such file"):
        formats.read(tmp_path / "nowhere.npz")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(CharyError, match="is a folder, not a dataset file"):
        formats.read(tmp_path / "folder.npz")
    (tmp_path / "data.txt").write_text("1,2\n")
    with pytest.raises(CharyError, match=r"cannot tell the format from '\.txt'.*\.hdf5"):
        formats.read(tmp_path / "data.txt")
    with pytest.raises(CharyError, match=r"cannot write '\.txt'.*\.hdf5"):
        formats.write(dataset, tmp_path / "data.txt")


@pytest.mark.parametrize("name", ["~nobody-of-this-name/data.npz", "x" * 300 + ".npz"])
def test_a_path_that_cannot_be_looked_up(name: str) -> None:
    with pytest.raises(CharyError, match="no such file"):
        load(name)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_missing_key_is_named(dataset: Dataset, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"data{ending}"
    arrays = {key: getattr(dataset, key) for key in COLUMNS if key != "rewards"}
    FORMATS[ending].write(path, arrays, {})
    with pytest.raises(CharyError, match="missing rewards") as caught:
        formats.read(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("bound", [np.zeros(3), np.zeros((1, 2)), np.array([True, False])])
def test_bounds_in_a_file_are_checked(
    dataset: Dataset, tmp_path: Path, ending: str, bound: np.ndarray
) -> None:
    path = tmp_path / f"data{ending}"
    arrays = {key: getattr(dataset, key) for key in COLUMNS}
    FORMATS[ending].write(path, {**arrays, "action_high": bound}, {})
    with pytest.raises(CharyError) as caught:
        formats.read(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("old", [False, True])
def test_a_failed_write_leaves_what_was_there(
    bounded: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, old: bool
) -> None:
    path = tmp_path / f"data{ending}"
    if old:
        path.write_bytes(b"as it was")

    def write_half(path: Path, arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> None:
        path.write_bytes(next(iter(arrays.values())).tobytes()[: 10 * len(attributes)])
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(formats.FORMATS, ending, FORMATS[ending]._replace(write=write_half))
    with pytest.raises(CharyError, match=r"cannot be written \(No space left on device"):
        formats.write(bounded, path)
    assert os.listdir(tmp_path) == ([path.name] if old else [])
    if old:
        assert path.read_bytes() == b"as it was"


def test_an_interrupted_write_leaves_no_temporary_file(
    bounded: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(path: Path, *_: object) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setitem(formats.FORMATS, ".npz", FORMATS[".npz"]._replace(write=interrupted))
    with pytest.raises(KeyboardInterrupt):
        formats.write(bounded, tmp_path / "data.npz")
    assert os.listdir(tmp_path) == []


def test_a_write_where_no_folder_can_be(dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CharyError, match="cannot be written"):
        formats.write(dataset, tmp_path / "file" / "data.npz")


@pytest.mark.parametrize("ending", [".hdf5", ".npz"])
def test_a_corrupted_file_is_read_or_refused(tmp_path: Path, ending: str) -> None:
    """Whatever happens to the bytes, the outcome is a dataset or the one kind of error."""
    path = tmp_path / f"data{ending}"
    formats.write(Dataset.from_columns(make_columns(episodes=2, length=4), name="tiny"), path)
    whole = path.read_bytes()
    # Bytes that say most about the rest come first in HDF5, last in npz.
    places = (
        st.integers(0, len(whole) - 1)
        | st.integers(0, 400)
        | st.integers(1, 400).map(lambda back: len(whole) - back)
    )
    outcomes = {"read": 0, "refused": 0}

    @settings(
        max_examples=100,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(
        flips=st.lists(st.tuples(places, st.integers(1, 255)), max_size=8),
        keep=st.just(len(whole)) | st.integers(0, len(whole)),
    )
    def corrupt(flips: list[tuple[int, int]], keep: int) -> None:
        content = bytearray(whole)
        for place, change in flips:
            content[place] ^= change
        path.write_bytes(content[:keep])
        try:
            assert isinstance(formats.read(path), Dataset)
            outcomes["read"] += 1
        except CharyError:
            outcomes["refused"] += 1

    corrupt()
    assert outcomes["refused"] > 20


def real_files(real_data: Path) -> list[Path]:
    files = sorted((real_data / "d4rl").glob("*.hdf5"))
    assert len(files) >= 10
    return files


def test_real_files_are_read_as_they_are(real_data: Path) -> None:
    for path in real_files(real_data):
        dataset = formats.read(path)
        with h5py.File(path) as file:
            columns = {key: np.asarray(file[key]) for key in COLUMNS if key in file}
        columns["rewards"] = columns["rewards"].reshape(-1)
        kept = np.ones(len(columns["rewards"]), bool)
        if "next_observations" not in columns:
            kept = ~columns["timeouts"].astype(bool) | columns["terminals"].astype(bool)
            kept[-1] &= bool(columns["terminals"][-1])
        for key in {"observations", "actions", "rewards", "terminals", "next_observations"}:
            if key in columns:
                expected = columns[key][kept].astype(getattr(dataset, key).dtype)
                np.testing.assert_array_equal(getattr(dataset, key), expected, err_msg=path.name)
        assert dataset.name == path.stem
        assert len(dataset.episode_ends) == 2, path.name


def test_no_real_transition_crosses_a_timeout(real_data: Path) -> None:
    files = [path for path in real_files(real_data) if path.name.startswith("antmaze")]
    assert len(files) == 4
    for path in files:
        dataset = formats.read(path)
        with h5py.File(path) as file:
            observations = np.asarray(file["observations"], np.float32)
            timeouts = np.flatnonzero(np.asarray(file["timeouts"]))
            assert "next_observations" not in file
            assert not np.asarray(file["terminals"]).any()
        inside = np.setdiff1d(np.arange(len(observations) - 1), timeouts)
        np.testing.assert_array_equal(dataset.observations, observations[inside])
        np.testing.assert_array_equal(dataset.next_observations, observations[inside + 1])
        lengths = np.diff(timeouts, prepend=-1) - 1
        assert dataset.episode_lengths.tolist() == lengths.tolist()
        assert dataset.timeouts.sum() == len(timeouts)
