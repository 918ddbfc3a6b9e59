"""Batches from files are the batches from memory."""

from pathlib import Path

import h5py
import jax
import numpy as np
import pytest

import chary
from chary.algos.bc import BCConfig, make_bc
from chary.data import formats
from chary.data.dataset import Dataset
from chary.data.scaling import RewardTransform, Scaling
from chary.execution import batches as feed
from chary.execution.batches import Feed, make_feed
from chary.execution.program import initial_carry
from chary.runs.folder import RunFolder

QUICK = {"hidden": (8, 8), "batch_size": 16, "log_every": 10, "eval_every": 0}
BATCH = 16


@pytest.fixture
def mapped(dataset: Dataset, tmp_path: Path) -> Dataset:
    formats.write(dataset, tmp_path / "data.columns")
    return chary.load(tmp_path / "data.columns")


def both(dataset: Dataset, mapped: Dataset) -> list[Feed]:
    algorithm = make_bc(BCConfig(hidden=(8,)), 3, 2)
    scaling = Scaling.of(dataset, RewardTransform(2.0, 1.0), normalise_observations=True)
    return [make_feed(algorithm, data, scaling, BATCH, seeds=[3]) for data in (dataset, mapped)]


def test_a_folder_of_columns_stays_on_disk_and_holds_the_same_data(
    dataset: Dataset, mapped: Dataset
) -> None:
    assert mapped.is_mapped and not dataset.is_mapped
    assert isinstance(mapped.next_observations, np.memmap)
    assert mapped.fingerprint == dataset.fingerprint and mapped.name == dataset.name
    assert np.array_equal(mapped.episode_ends, dataset.episode_ends)


def test_files_and_memory_feed_the_same_batches(
    dataset: Dataset, mapped: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "BLOCK", 7)
    memory, files = both(dataset, mapped)
    algorithm = make_bc(BCConfig(hidden=(8,)), 3, 2)
    ends = []
    for source in (memory, files):
        carry, step = initial_carry(algorithm, BATCH, 3, 2, seed=3), 0
        while step < 20:
            stop = min(20, source.reach(step))
            carry, step = source.advance(carry, step, stop), stop
        ends.append([np.asarray(leaf) for leaf in jax.tree.leaves(carry)])
    assert files.reach(6) == 7 and files.reach(7) == 14
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


def test_rows_by_number(dataset: Dataset, mapped: Dataset) -> None:
    indices = np.array([5, 3, 3, 90, 0])
    memory, files = (source.rows(indices) for source in both(dataset, mapped))
    for one, other in zip(memory, files, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.long
def test_a_run_from_files_stopped_and_resumed_ends_in_the_same_bits(
    mapped: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "BLOCK", 8)
    whole = chary.train("bc", mapped, run=tmp_path / "whole", steps=30, **QUICK)
    chary.train("bc", mapped, run=tmp_path / "cut", steps=20, **QUICK)
    resumed = chary.resume(tmp_path / "cut", steps=30)  # the folder is found again by itself
    for one, other in zip(
        jax.tree.leaves(whole.state), jax.tree.leaves(resumed.state), strict=True
    ):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    logs = [RunFolder.open(tmp_path / run).read("metrics") for run in ("whole", "cut")]
    assert logs[0] == logs[1]


def test_mapped_data_is_checked_piece_by_piece(
    columns: dict[str, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chary.data import columns as module

    folder = tmp_path / "data.columns"
    formats.write(Dataset.from_columns(columns, name="tiny"), folder)
    broken = columns["observations"].copy()
    broken[77, 1] = np.nan
    np.save(folder / "observations.npy", broken)
    monkeypatch.setattr(module, "PIECE", 10)
    with pytest.raises(chary.CharyError, match="first in row 77"):
        chary.load(folder)


def test_a_folder_is_replaced_as_a_whole(dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "data.columns"
    for _ in range(2):
        formats.write(dataset, path)
    assert formats.read(path).fingerprint == dataset.fingerprint
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_holds_something_else(tmp_path: Path) -> None:
    folder = tmp_path / "data.columns"
    folder.mkdir()
    np.save(folder / "observations.npy", np.array([{}], dtype=object))
    with pytest.raises(chary.CharyError, match="not a readable folder of columns"):
        chary.load(folder)


def test_an_hdf5_file_of_any_size_becomes_a_folder(
    dataset: Dataset, columns: dict[str, np.ndarray], tmp_path: Path
) -> None:
    source, folder = tmp_path / "big.hdf5", tmp_path / "big.columns"
    formats.write(dataset, source)
    spread = formats.spread_out(source, folder)
    assert spread is not None and spread.is_mapped and spread.fingerprint == dataset.fingerprint
    with h5py.File(source, "a") as file:
        file["rewards"][4] = np.nan  # pyright: ignore[reportIndexIssue]
    with pytest.raises(chary.CharyError, match="first in row 4"):
        formats.spread_out(source, tmp_path / "other.columns")
    del columns["next_observations"]
    np_file = tmp_path / "short.hdf5"
    with h5py.File(np_file, "w") as file:
        for key, array in columns.items():
            file[key] = array
    assert formats.spread_out(np_file, tmp_path / "short.columns") is None
    assert {path.name for path in tmp_path.iterdir()} == {"big.hdf5", "big.columns", "short.hdf5"}
