"""Files that lead out of themselves, never end, or claim more than they have."""

import io
import json
import os
import resource
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from chary.data import doctor, formats, load
from chary.data.dataset import Dataset
from chary.data.formats import guard, hdf5, npz, tfrecord
from chary.data.formats.tables import Layout, read_tables
from chary.errors import CharyError
from tests.conftest import make_columns

ROWS = 15


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A sound file, without rewards yet."""
    path = tmp_path / "data.hdf5"
    with h5py.File(path, "w") as file:
        for key, array in make_columns(episodes=3, length=5).items():
            if key != "rewards":
                file[key] = array
    return path


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Another file of the user's, in every form that a dataset could lead to."""
    with h5py.File(tmp_path / "secret.hdf5", "w") as file:
        file["rewards"] = np.full(ROWS, 42.0, np.float32)
    (tmp_path / "secret.raw").write_bytes(np.full(ROWS, 42.0, np.float32).tobytes())
    return tmp_path / "secret.hdf5"


def refused(path: Path, words: str) -> None:
    """Loading and the doctor refuse the file, in one line."""
    for read in (load, doctor.check):
        with pytest.raises(CharyError, match=words) as caught:
            read(path)
        assert "\n" not in str(caught.value) and str(caught.value).startswith(str(path))


def external_link(file: h5py.File, secret: Path) -> None:
    file["rewards"] = h5py.ExternalLink(str(secret), "rewards")


def link_to_a_link(file: h5py.File, secret: Path) -> None:
    file["other"] = h5py.ExternalLink(str(secret), "/")
    file["rewards"] = h5py.SoftLink("/other/rewards")


def external_storage(file: h5py.File, secret: Path) -> None:
    raw = [(str(secret.with_suffix(".raw")), 0, h5py.h5f.UNLIMITED)]
    file.create_dataset("rewards", (ROWS,), "f4", external=raw)


def virtual(file: h5py.File, secret: Path) -> None:
    layout = h5py.VirtualLayout((ROWS,), "f4")
    layout[:] = h5py.VirtualSource(str(secret), "rewards", (ROWS,))
    file.create_virtual_dataset("rewards", layout)


def virtual_of_itself(file: h5py.File, _: Path) -> None:
    layout = h5py.VirtualLayout((ROWS,), "f4")
    layout[:] = h5py.VirtualSource(".", "rewards", (ROWS,))
    file.create_virtual_dataset("rewards", layout)


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (external_link, "'rewards' is a link to another file; only numbers in the file itself"),
        (link_to_a_link, "'rewards' is a link to another file"),
        (external_storage, "'rewards' is stored in another file"),
        (virtual, "'rewards' is a virtual dataset"),
        (virtual_of_itself, "'rewards' is a virtual dataset"),
    ],
)
def test_numbers_outside_an_hdf5_file_are_refused(
    path: Path, secret: Path, plant: Callable[[h5py.File, Path], None], words: str
) -> None:
    with h5py.File(path, "a") as file:
        plant(file, secret)
    refused(path, words)
    layout = Layout(("observations",), ("actions",), "rewards", timeout="timeouts")
    with pytest.raises(CharyError, match=words):
        read_tables([path], layout)
    with pytest.raises(CharyError, match=words):
        formats.spread_out(path, path.with_suffix(".columns"))


def test_links_inside_an_hdf5_file_are_followed(path: Path) -> None:
    rewards = np.arange(ROWS, dtype=np.float32)
    with h5py.File(path, "a") as file:
        file["kept/here"] = rewards
        file["kept/again"] = h5py.SoftLink("here")
        file["rewards"] = h5py.SoftLink("/kept/./again")
    np.testing.assert_array_equal(load(path).rewards, rewards)
    with h5py.File(path, "a") as file:
        del file["kept/again"]
        file["kept/again"] = h5py.SoftLink("/rewards")
    refused(path, "'rewards' is a chain of links")


@pytest.mark.parametrize("ending", [".hdf5", ".npz", ".csv", ".parquet", ".tfrecord"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"data{ending}"
    os.mkfifo(path)
    layout = Layout(("o",), ("a",), "r", timeout="t")
    table = ending in (".csv", ".parquet")
    read: Any = partial(read_tables, layout=layout) if table else lambda paths: load(*paths)
    if ending == ".tfrecord":
        read = lambda paths: list(tfrecord.read(*paths))  # noqa: E731
    with pytest.raises(CharyError, match="is a pipe"):
        read([path])


def columns_folder(path: Path) -> Path:
    formats.write(Dataset.from_columns(make_columns(episodes=3, length=5), name="tiny"), path)
    return path


@pytest.mark.parametrize("name", ["rewards.npy", "attributes.json"])
@pytest.mark.parametrize("what", ["link", "dangling", "pipe"])
def test_a_folder_of_columns_does_not_lead_out(tmp_path: Path, name: str, what: str) -> None:
    file = columns_folder(tmp_path / "data.columns") / name
    other = file.rename(tmp_path / name)
    if what == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to(other)
    if what == "dangling":
        other.unlink()
    with pytest.raises(CharyError, match="is a pipe" if what == "pipe" else "is a link"):
        load(tmp_path / "data.columns")


def test_a_users_own_link_to_a_dataset_is_followed(tmp_path: Path) -> None:
    columns_folder(tmp_path / "data.columns")
    (tmp_path / "mine.columns").symlink_to(tmp_path / "data.columns")
    formats.write(load(tmp_path / "data.columns"), tmp_path / "data.npz")
    (tmp_path / "mine.npz").symlink_to(tmp_path / "data.npz")
    assert load(tmp_path / "mine.columns").size == load(tmp_path / "mine.npz").size == ROWS


MANY = 2**27
"""Bytes that are read only by mistake."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with hardly any memory."""
    monkeypatch.setattr(guard, "host_memory", lambda: MANY / 4)


@pytest.mark.usefixtures("small")
def test_only_the_columns_in_use_are_read(path: Path) -> None:
    with h5py.File(path, "a") as file:
        file["rewards"] = np.arange(ROWS)
        big = file.create_dataset("big", (MANY,), "u1", compression="gzip", fillvalue=0)
        big[0] = 1
        for link in range(100):
            file[f"big_{link}"] = big
    assert load(path).size == ROWS
    assert [finding.severity for finding in doctor.check(path) if finding.severity == "error"] == []
    assert len(hdf5.names(path)) == 101 + 6
    columns: dict[str, Any] = make_columns(episodes=3, length=5)
    packed = path.with_suffix(".npz")
    np.savez_compressed(packed, **columns, big=np.zeros(MANY, "u1"))
    assert load(packed).size == ROWS and "big" in npz.names(packed)
    with pytest.raises(CharyError, match=r"needs 0\.3 GB of memory, but 0\.0 GB are free"):
        npz.read(packed)


def test_one_array_under_many_names_is_refused(path: Path) -> None:
    with h5py.File(path, "a") as file:
        file["rewards"] = np.arange(ROWS)
        one = file.create_dataset("s_0", data=np.zeros((2**20, 4), "f4"))
        for link in range(1, 300):
            file[f"s_{link}"] = one
    layout = Layout(("s_*",), ("actions",), "rewards", timeout="timeouts")
    with pytest.raises(CharyError, match="several are the same bytes"):
        read_tables([path], layout)


def chunked(path: Path, shape: int, chunk: int, packed: bytes = b"", **options: Any) -> None:
    with h5py.File(path, "a") as file:
        rewards = file.create_dataset("rewards", (shape,), "f4", chunks=(chunk,), **options)
        if packed:
            rewards.id.write_direct_chunk((0,), packed)
        else:
            rewards[0] = 1.0


def test_chunks_that_become_more_than_their_array(path: Path) -> None:
    chunked(path, ROWS, 2**25, compression="gzip", maxshape=(None,))
    refused(path, "rewards has 60 bytes in chunks of 134,217,728")


def test_a_chunk_that_stores_more_than_it_has(path: Path) -> None:
    bomb = zlib.compress(bytes(2**26))
    chunked(path, ROWS, ROWS, packed=bomb, compression="gzip")
    refused(path, "rewards has a chunk of 60 bytes stored in")


def test_a_long_chunk_is_unpacked_only_to_its_size(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdf5, "AT_ONCE", 2**20)
    bomb = zlib.compress(bytes(2**21))
    assert len(bomb) * hdf5.INFLATES > hdf5.AT_ONCE
    chunked(path, ROWS, ROWS, packed=bomb, compression="gzip")
    refused(path, "rewards has a chunk that becomes more than its 60 bytes")


def test_one_compression_upon_another_is_refused(path: Path) -> None:
    with h5py.File(path, "a") as file:
        settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        settings.set_chunk((ROWS,))
        settings.set_deflate(9)
        settings.set_deflate(9)
        space = h5py.h5s.create_simple((ROWS,))
        h5py.h5d.create(file.id, b"rewards", h5py.h5t.IEEE_F32LE, space, settings)
    refused(path, "rewards is compressed 2 times over")


@pytest.mark.parametrize(
    ("filters", "stored", "words"),
    [
        # The library takes four bytes of checksum off one byte, three times over, and crashes.
        (["fletcher32"] * 3, 1, "rewards is filtered twice in the same way"),
        (["fletcher32"], 1, "rewards has a chunk of 60 bytes stored in 1"),
        (["deflate", "fletcher32"], 3, "rewards has a chunk of 60 bytes stored in 3"),
        (["shuffle"], 10, "rewards has a chunk of 60 bytes stored in 10"),
        (["scaleoffset"], 30, "rewards is packed by scale-offset, which is not read"),
    ],
)
def test_chunks_that_crash_the_library(
    path: Path, filters: list[str], stored: int, words: str
) -> None:
    arguments = {"deflate": (4,), "scaleoffset": (h5py.h5z.SO_FLOAT_DSCALE, 2)}
    with h5py.File(path, "a") as file:
        settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        settings.set_chunk((ROWS,))
        for name in filters:
            getattr(settings, f"set_{name}")(*arguments.get(name, ()))
        space = h5py.h5s.create_simple((ROWS,))
        made = h5py.h5d.create(file.id, b"rewards", h5py.h5t.IEEE_F32LE, space, settings)
        made.write_direct_chunk((0,), bytes(stored))
    refused(path, words)


def test_an_archive_whose_members_share_bytes(tmp_path: Path) -> None:
    """David Fifield's zip bomb in short: many entries, one content."""
    whole = io.BytesIO()
    columns: dict[str, Any] = make_columns(episodes=3, length=5)
    np.savez(whole, **columns, s_0=np.random.default_rng(0).random(2**20))
    with zipfile.ZipFile(whole, "a") as archive:
        one = archive.getinfo("s_0.npy")
        for number in range(1, 300):
            other = zipfile.ZipInfo(f"s_{number}.npy")
            for field in ("header_offset", "compress_size", "file_size", "CRC", "compress_type"):
                setattr(other, field, getattr(one, field))
            archive.filelist.append(other)
            archive.NameToInfo[other.filename] = other
        vars(archive)["_didModify"] = True
    path = tmp_path / "data.npz"
    path.write_bytes(whole.getvalue())
    layout = Layout(("s_*",), ("actions",), "rewards", timeout="timeouts")
    assert load(path).size == ROWS
    with pytest.raises(CharyError, match="several are the same bytes"):
        read_tables([path], layout)


def test_small_arrays_that_are_large_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is below what needs no proof, but a few stored bytes must not keep the machine busy."""
    monkeypatch.setattr(guard, "UNSTORED", 2**16)
    path, made = tmp_path / "data.npz", io.BytesIO()
    np.lib.format.write_array(made, np.zeros(2**15, np.uint8))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        for name in ("observations", "actions", "rewards", "terminals", "timeouts"):
            archive.writestr(f"{name}.npy", made.getvalue())
    monkeypatch.setattr(guard, "TIGHTEST", 1)
    with pytest.raises(CharyError, match="the sum of 5 columns claims 164,480 bytes, but"):
        load(path)


def test_a_column_that_is_mostly_a_hole(tmp_path: Path) -> None:
    folder = columns_folder(tmp_path / "data.columns")
    np.lib.format.open_memmap(folder / "rewards.npy", "w+", np.float32, (2**40,)).flush()
    with pytest.raises(CharyError, match="rewards claims 4,398,046,511,104 bytes, but"):
        load(folder)


def test_an_archive_in_place_of_a_column(tmp_path: Path) -> None:
    folder = columns_folder(tmp_path / "data.columns")
    np.savez(folder / "rewards.npz", np.zeros(3))
    (folder / "rewards.npz").rename(folder / "rewards.npy")
    with pytest.raises(CharyError, match=r"rewards\.npy is an archive"):
        load(folder)


def test_deeply_nested_words_are_refused_or_left_out(tmp_path: Path) -> None:
    for depth in (100, 100_000):
        nested = "[" * depth + "]" * depth
        folder = columns_folder(tmp_path / f"{depth}.columns")
        (folder / "attributes.json").write_text(f'{{"name": {nested}}}')
        with pytest.raises(CharyError, match="nested too deeply"):
            load(folder)
        (folder / "attributes.json").write_text(json.dumps({"observation_names": nested}))
        assert load(folder).observation_names == ()
        assert doctor.check(folder) is not None


def test_the_limit_of_a_process_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from chary.host import machine

    free = machine.host_memory()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2**40, 2**40))
    assert machine.host_memory() == pytest.approx(free, rel=0.2)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1, 1))
    assert machine.host_memory() == 0.0
