"""Damaged, foreign and hostile files: each is read or refused, whatever is in it.

CHARY_FUZZ_CASES sets how many there are (`make fuzz` tries 2,000). They are read in another process,
because a damaged file may crash or hang a C library, where no exception helps.
"""

import io
import os
import pickle
import select
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chary.data import formats
from chary.data.dataset import Dataset
from tests.conftest import make_columns

CASES = int(os.environ.get("CHARY_FUZZ_CASES", "200"))
TIMEOUT = 20.0
"""Seconds after which reading a file of a few kilobytes counts as hanging."""

# Tables and records are read as the commands that take them do.
READ = """
import sys
from pathlib import Path
from chary.data import doctor, formats, load
from chary.data.formats import tables, tfrecord
from chary.errors import CharyError

LAYOUT = tables.Layout(("observations_*",), ("actions_*",), "rewards", timeout="timeouts")

def read(path):
    if path.suffix == ".tfrecord":
        return list(tfrecord.read(path))
    if path.suffix in (".csv", ".parquet"):
        return tables.read_tables([path], LAYOUT)
    return load(path)

def outcome(path):
    try:
        read(path)
        result = "read"
    except CharyError as error:
        # A table's problems are a list, each on a line of its own.
        _, *others = str(error).splitlines()
        listed = all(line.startswith("  - ") for line in others)
        result = "refused" if listed else f"several lines: {error!r}"
    if path.suffix in formats.FORMATS:
        try:
            explained = any(finding.severity == "error" for finding in doctor.check(path))
        except CharyError:
            explained = True
        if result == "refused" and not explained:
            return "refused, but the doctor sees nothing"
    return result

for line in sys.stdin:
    try:
        print(outcome(Path(line.strip())), flush=True)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}".replace(chr(10), " "), flush=True)
"""


class Reader:
    """A process that reads files and says how it went; where it dies, another takes its place."""

    def __init__(self) -> None:
        self.process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "error", "-c", READ]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def outcome(self, path: Path) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], TIMEOUT)
        answer = self.process.stdout.readline().strip() if ready else "hangs"
        if ready and answer:
            return answer
        code = self.close()
        self.process = self._start()
        return answer or f"crashes with exit code {code}"

    def close(self) -> int:
        self.process.kill()
        self.process.communicate()
        return self.process.returncode


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    reader = Reader()
    yield reader
    reader.close()


def fuzz(share: float) -> settings:
    """That share of all cases, always the same ones."""
    return settings(
        max_examples=max(1, round(share * CASES)),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


def tiny() -> Dataset:
    return Dataset.from_columns(make_columns(episodes=3, length=5), name="tiny")


def plain_hdf5(path: Path) -> None:
    """As other programs write it: no compression, no checksums, a group and long words."""
    with h5py.File(path, "w") as file:
        for key, array in make_columns(episodes=3, length=5).items():
            file[key] = array
        file["infos/qpos"] = np.zeros((15, 2))
        file.attrs["remark"] = "words of variable length"


def chunked_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for key, array in make_columns(episodes=3, length=5).items():
            file.create_dataset(key, data=array, chunks=True, maxshape=(None, *array.shape[1:]))


def packed_npz(path: Path) -> None:
    columns: dict[str, Any] = make_columns(episodes=3, length=5)
    np.savez_compressed(path, **columns)


def tfrecords(path: Path) -> None:
    from tfrecord.writer import TFRecordWriter

    writer = TFRecordWriter(str(path))
    for episode in range(3):
        values = np.linspace(0, 1, 11, dtype=np.float32)
        writer.write({"reward": (values, "float"), "episode_id": (episode, "int")})
    writer.close()


def write(path: Path) -> None:
    formats.write(tiny(), path)


class Kind(NamedTuple):
    """A kind of file, who writes it, and the share of all cases that damage its bytes."""

    ending: str
    write: Callable[[Path], None]
    share: float


KINDS = {
    "hdf5": Kind(".hdf5", write, 0.15),
    "plain hdf5": Kind(".hdf5", plain_hdf5, 0.2),
    "chunked hdf5": Kind(".h5", chunked_hdf5, 0.1),
    "npz": Kind(".npz", write, 0.1),
    "packed npz": Kind(".npz", packed_npz, 0.1),
    "csv": Kind(".csv", write, 0.05),
    "parquet": Kind(".parquet", write, 0.05),
    "tfrecord": Kind(".tfrecord", tfrecords, 0.05),
}

# A place as a share of the file, so that it fits every file; both ends say most about the rest.
PLACES = st.one_of(
    st.floats(0, 1),
    st.floats(0, 0.1).map(lambda x: x**2),
    st.floats(0, 0.1).map(lambda x: 1 - x**2),
)
BYTES = st.binary(min_size=1, max_size=16) | st.sampled_from([b"\x00" * 8, b"\xff" * 8, b"\x80"])
DAMAGES = st.lists(
    st.tuples(st.sampled_from(["flip", "insert", "overwrite", "remove", "cut"]), PLACES, BYTES),
    min_size=1,
    max_size=4,
)


def damaged(content: bytes, damages: list[tuple[str, float, bytes]]) -> bytes:
    for kind, share, new in damages:
        place = min(int(share * len(content)), max(len(content) - 1, 0))
        before, after = content[:place], content[place:]
        if kind == "flip":
            content = before + bytes(byte ^ new[0] for byte in after[:1]) + after[1:]
        elif kind == "insert":
            content = before + new + after
        elif kind == "overwrite":
            content = before + new + after[len(new) :]
        elif kind == "remove":
            content = before + after[len(new) :]
        else:
            content = before
    return content


@pytest.mark.parametrize("name", KINDS)
def test_damaged_bytes(reader: Reader, tmp_path: Path, name: str) -> None:
    kind = KINDS[name]
    path = tmp_path / f"data{kind.ending}"
    kind.write(path)
    assert reader.outcome(path) == "read"
    whole = path.read_bytes()
    outcomes: Counter[str] = Counter()

    @fuzz(kind.share)
    @given(damages=DAMAGES)
    def case(damages: list[tuple[str, float, bytes]]) -> None:
        path.write_bytes(damaged(whole, damages))
        outcome = reader.outcome(path)
        assert outcome in ("read", "refused")
        outcomes[outcome] += 1

    case()
    assert outcomes["refused"] > 0.2 * outcomes.total()


class Trap:
    """Unpickling this makes a folder."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


SHAPES = [(), (0,), (15,), (14,), (15, 1), (15, 2), (15, 3), (15, 2, 2), (0, 3), (15, 0), (1, 15)]
TYPES = ["f2", "f4", "f8", "i1", "i8", "u8", "?", "c8", "S3", "U3", "M8[s]"]
ODD = ("attributes", "unknown", "../x")
ARRAYS = st.tuples(
    st.sampled_from(
        [*make_columns(), "action_low", "action_high", "infos/qpos", "infos/goal", *ODD]
    ),
    st.sampled_from(TYPES),
    st.sampled_from(SHAPES),
    st.sampled_from([0, 1, -1, 1e30, np.nan, np.inf]),
)


def array_of(dtype: str, shape: tuple[int, ...], value: float) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.full(shape, value).astype("i8" if dtype[0] == "M" else dtype).astype(dtype)


@pytest.mark.parametrize("ending", [".npz", ".hdf5"])
def test_wrong_arrays(reader: Reader, tmp_path: Path, ending: str) -> None:
    """Missing and further keys, other types, shapes and values."""
    path = tmp_path / f"data{ending}"

    @fuzz(0.1)
    @given(
        missing=st.sets(st.sampled_from(list(make_columns())), max_size=2),
        changed=st.lists(ARRAYS, max_size=3),
    )
    def case(missing: set[str], changed: list[tuple[str, str, tuple[int, ...], float]]) -> None:
        columns: dict[str, Any] = make_columns(episodes=3, length=5)
        for key in missing:
            del columns[key]
        for key, dtype, shape, value in changed:
            columns[key] = array_of(dtype, shape, value)
        if ending == ".npz":
            np.savez(path, **columns)
        else:
            with h5py.File(path, "w") as file:
                for key, array in columns.items():
                    if array.dtype.kind not in "UM":  # HDF5 has no such arrays
                        file[key.strip("./")] = array
        assert reader.outcome(path) in ("read", "refused")

    case()


@pytest.mark.parametrize("key", ["rewards", "attributes", "action_low", "unknown"])
@pytest.mark.parametrize("way", ["object array", "raw pickle", "pickled file", "behind a header"])
def test_planted_pickles(reader: Reader, tmp_path: Path, way: str, key: str) -> None:
    marker, path = tmp_path / "marker", tmp_path / "data.npz"
    columns: dict[str, Any] = make_columns(episodes=3, length=5)
    trapped = np.array([Trap(marker)] * 15, dtype=object)
    if way == "object array":
        np.savez(path, **{**columns, key: trapped})
    elif way == "pickled file":
        path.write_bytes(pickle.dumps({key: trapped}))
    else:
        columns.pop(key, None)
        np.savez(path, **columns)
        header = io.BytesIO()
        np.lib.format.write_array(header, np.zeros(15), allow_pickle=False)
        start = header.getvalue()[:128] if way == "behind a header" else b""
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(f"{key}.npy", start + pickle.dumps(trapped))
    outcome = reader.outcome(path)
    # A key that nobody asks for may stay in the file unread.
    assert outcome == "refused" or (key == "unknown" and outcome == "read")
    assert not marker.exists()
    pickle.loads(pickle.dumps(trapped[0]))
    assert marker.exists()  # the trap does work


@pytest.mark.parametrize("ending", [".hdf5", ".npz", ".csv", ".parquet", ".tfrecord"])
def test_empty_and_foreign_files(reader: Reader, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"data{ending}"
    contents = [
        b"",
        b"\n",
        bytes(10_000),
        b"PK\x03\x04",
        b"\x89HDF\r\n\x1a\n",
        b"PAR1",
        b"\x1f\x8b\x08",
    ]
    for content in contents:
        path.write_bytes(content)
        expected = ("read", "refused") if ending == ".tfrecord" and not content else ("refused",)
        assert reader.outcome(path) in expected, content


def test_a_size_beyond_all_memory(reader: Reader, tmp_path: Path) -> None:
    """A few damaged bytes can claim terabytes of numbers that were never written."""
    path = tmp_path / "data.hdf5"
    chunked_hdf5(path)
    with h5py.File(path, "a") as file:
        for item in file.values():
            assert isinstance(item, h5py.Dataset)
            item.resize(10**9, axis=0)
    assert reader.outcome(path) == "refused"
