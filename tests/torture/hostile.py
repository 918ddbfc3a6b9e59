"""Datasets that somebody wrote to do harm, and sound ones to be damaged.

Each maker takes a random generator and a folder for the dataset, and gives the path and how to read it.
`canaries` holds files that datasets try to lead to; `plant` puts them there.
"""

import gzip
import io
import json
import os
import pickle
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet

from chary.data import formats
from chary.data.dataset import Dataset
from tests.conftest import make_columns
from tests.torture.reading import CANARY, WORD

Random = np.random.Generator
ROWS = 15
LAYOUT = {
    "observations": ["observations_*"],
    "actions": ["actions_*"],
    "reward": "rewards",
    "timeout": "timeouts",
}
ARRAYS = LAYOUT | {"observations": ["observations"], "actions": ["actions"]}
MINARI = "minari:x/y-v0"


class Case(NamedTuple):
    """A dataset, and the options of `Reader.answer` to read it with."""

    path: Path
    options: dict[str, Any]


Maker = Callable[[Random, Path, Path], Case]
CORPUS: dict[str, Maker] = {}
"""Makers by their names."""


def maker(make: Maker) -> Maker:
    CORPUS[make.__name__.replace("_", " ")] = make
    return make


def plant(canaries: Path) -> None:
    """Files of the user's that no dataset may lead to."""
    canaries.mkdir(parents=True)
    secret = np.full(ROWS, CANARY, np.float32)
    with h5py.File(canaries / "secret.hdf5", "w") as file:
        file["rewards"] = secret
        file["episode_0/rewards"] = secret
    (canaries / "secret.raw").write_bytes(secret.tobytes())
    np.save(canaries / "secret.npy", secret)
    (canaries / "secret.json").write_text(json.dumps({"name": WORD}))
    (canaries / "secret.csv").write_text("rewards\n" + f"{CANARY}\n" * ROWS)
    os.mkfifo(canaries / "pipe")


def columns() -> dict[str, Any]:
    return make_columns(episodes=3, length=5)


def tiny() -> Dataset:
    return Dataset.from_columns(columns(), name="tiny")


def pick(random: Random, options: Any) -> Any:
    return options[int(random.integers(len(options)))]


def column_of(random: Random) -> str:
    return pick(random, list(columns()))


ODD_NAMES = (
    "\x1b[31mred", "a\nb", "\x00", "\u202egnp", "[bold]x[/bold]", "=1+1", "../x", "a" * 5000, "",
    "é" * 100, "{}", "%s%n", "\x07", "\ufeff", "s_" + "9" * 5000, "observations_1\u200b",
)  # fmt: skip


# Sound files --------------------------------------------------------------------------------------


def plain_hdf5(path: Path) -> None:
    """As other programs write it: no compression, no checksums, a group and long words."""
    with h5py.File(path, "w") as file:
        for key, array in columns().items():
            file[key] = array
        file["infos/qpos"] = np.zeros((ROWS, 2))
        file.attrs["remark"] = "words of variable length"


def chunked_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for key, array in columns().items():
            file.create_dataset(key, data=array, chunks=True, maxshape=(None, *array.shape[1:]))


def packed_npz(path: Path) -> None:
    np.savez_compressed(path, **columns())


def tfrecords(path: Path) -> None:
    from tfrecord.writer import TFRecordWriter

    writer = TFRecordWriter(str(path))
    for episode in range(3):
        values = np.linspace(0, 1, 11, dtype=np.float32)
        writer.write({"reward": (values, "float"), "episode_id": (episode, "int")})
    writer.close()


def zipped_tfrecords(path: Path) -> None:
    tfrecords(path)
    path.write_bytes(gzip.compress(path.read_bytes()))


def rich_parquet(path: Path) -> None:
    """Several row groups, compressed, with text, lists and times."""
    table = table_of(columns()) | {
        "id": pyarrow.array(["x"] * 5 + ["y"] * 10).dictionary_encode(),
        "list": pyarrow.array([[1.0, 2.0]] * ROWS),
        "when": pyarrow.array(range(ROWS)).cast(pyarrow.timestamp("us")),
    }
    pyarrow.parquet.write_table(
        pyarrow.table(table), path, row_group_size=6, compression="zstd", use_dictionary=True
    )


def table_of(arrays: dict[str, Any]) -> dict[str, Any]:
    """Columns as `LAYOUT` names them."""
    found: dict[str, Any] = {}
    for key, array in arrays.items():
        parts = [array] if array.ndim == 1 else list(array.T)
        found |= {key if array.ndim == 1 else f"{key}_{i}": part for i, part in enumerate(parts)}
    return found


def minari(path: Path) -> None:
    """A small dataset of Pendulum's, as Minari lays it out."""
    (path / "data").mkdir(parents=True)
    box = {"type": "Box", "dtype": "float32", "shape": [3], "low": [-9.0] * 3, "high": [9.0] * 3}
    act = {"type": "Box", "dtype": "float32", "shape": [1], "low": [-2.0], "high": [2.0]}
    spec = {
        "id": "Pendulum-v1",
        "entry_point": "gymnasium.envs.classic_control.pendulum:PendulumEnv",
        "reward_threshold": None,
        "nondeterministic": False,
        "max_episode_steps": 5,
        "order_enforce": True,
        "disable_env_checker": False,
        "kwargs": {},
        "additional_wrappers": [],
        "vector_entry_point": None,
    }
    metadata = {
        "total_episodes": 3,
        "total_steps": ROWS,
        "data_format": "hdf5",
        "observation_space": json.dumps(box),
        "action_space": json.dumps(act),
        "env_spec": json.dumps(spec),
        "dataset_id": "x/y-v0",
        "minari_version": "0.5.4",
    }
    (path / "data" / "metadata.json").write_text(json.dumps(metadata))
    with h5py.File(path / "data" / "main_data.hdf5", "w") as file:
        for episode in range(3):
            group = file.create_group(f"episode_{episode}")
            group["observations"] = np.zeros((6, 3), np.float32)
            group["actions"] = np.zeros((5, 1), np.float32)
            group["rewards"] = np.arange(5.0)
            group["terminations"] = np.zeros(5, bool)
            group["truncations"] = np.arange(5) == 4
            group["infos/x"] = np.zeros(6)


class Kind(NamedTuple):
    """A kind of sound file, who writes it, and how it is read."""

    ending: str
    write: Callable[[Path], None]
    options: dict[str, Any]


def own(path: Path) -> None:
    formats.write(tiny(), path)


def latin_csv(path: Path) -> None:
    own(path.with_suffix(".csv"))
    text = path.read_text().replace(",", ";").replace(".", ",").replace("observations", "obsérv")
    path.write_bytes(text.encode("latin-1"))


TABLE: dict[str, Any] = {"layout": LAYOUT}
KINDS = {
    "hdf5": Kind(".hdf5", own, {}),
    "plain hdf5": Kind(".hdf5", plain_hdf5, {}),
    "chunked hdf5": Kind(".h5", chunked_hdf5, {}),
    "hdf5 as a table": Kind(".hdf5", chunked_hdf5, {"how": "table", "layout": ARRAYS}),
    "d4rl": Kind(".hdf5", plain_hdf5, {"name": "hopper-medium-v2"}),
    "npz": Kind(".npz", own, {}),
    "packed npz": Kind(".npz", packed_npz, {}),
    "npz as a table": Kind(".npz", packed_npz, {"how": "table", "layout": ARRAYS}),
    "csv": Kind(".csv", own, TABLE),
    "latin csv": Kind(".csv", latin_csv, {"layout": LAYOUT | {"observations": ["obs*"]}}),
    "parquet": Kind(".parquet", own, TABLE),
    "rich parquet": Kind(
        ".parquet",
        rich_parquet,
        {
            "layout": LAYOUT | {"observations": ["observations_*", "list"], "episode": "id", "time": "when"},  # noqa: E501
            "reading": {"max_gap": "inf"},
        },
    ),
    "tfrecord": Kind(".tfrecord", tfrecords, {}),
    "zipped tfrecord": Kind(".tfrecord", zipped_tfrecords, {}),
    "columns": Kind(".columns", own, {}),
    "minari": Kind("", minari, {"how": "minari", "name": MINARI}),
}  # fmt: skip


# Damage -------------------------------------------------------------------------------------------


def damaged(content: bytes, random: Random) -> bytes:
    """One to four changes; both ends of a file say most about the rest."""
    for _ in range(int(random.integers(1, 5))):
        where = random.random()
        where = pick(random, (where, 0.1 * where**2, 1 - 0.1 * where**2))
        place = min(int(where * len(content)), max(len(content) - 1, 0))
        new = random.bytes(int(random.integers(1, 17)))
        new = pick(random, (new, bytes(8), b"\xff" * 8, b"\x80", b"\x7f\xff\xff\xff"))
        before, after = content[:place], content[place:]
        match pick(
            random, ("flip", "flip", "insert", "overwrite", "overwrite", "remove", "cut", "copy")
        ):
            case "flip":
                content = before + bytes(byte ^ new[0] for byte in after[:1]) + after[1:]
            case "insert":
                content = before + new + after
            case "overwrite":
                content = before + new + after[len(new) :]
            case "remove":
                content = before + after[len(new) :]
            case "copy":  # a piece of the file to another place in it
                start = int(random.integers(len(content) + 1))
                piece = content[start : start + int(random.integers(1, 65))]
                content = before + piece + after[len(piece) :]
            case _:
                content = before
    return content


def damage(name: str, random: Random, folder: Path, _: Path) -> Case:
    """A sound dataset of a kind, with bytes of one of its files changed."""
    kind = KINDS[name]
    path = folder / f"data{kind.ending}"
    kind.write(path)
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    file = pick(random, files)
    file.write_bytes(damaged(file.read_bytes(), random))
    return Case(path, kind.options)


SHAPES = [(), (0,), (15,), (14,), (15, 1), (15, 2), (15, 3), (15, 2, 2), (0, 3), (15, 0), (1, 15)]
TYPES = ["f2", "f4", "f8", "i1", "i8", "u8", "?", "c8", "S3", "U3", "M8[s]", ">f4", "f4,i4"]
KEYS = ("action_low", "action_high", "source_rows", "times", "infos/qpos", "attributes", "unknown")


@maker
def wrong_arrays(random: Random, folder: Path, _: Path) -> Case:
    """Missing and further keys, other types, shapes and values."""
    arrays = columns()
    for key in list(arrays):
        if random.random() < 0.1:
            del arrays[key]
    for _number in range(int(random.integers(4))):
        key = pick(random, (*columns(), *KEYS))
        value = pick(random, (0, 1, -1, 1e30, 1e300, np.nan, np.inf))
        kind, shape = pick(random, TYPES), pick(random, SHAPES)
        with np.errstate(all="ignore"):
            made = np.full(shape, value)
            arrays[key] = made.astype("i8").astype(kind) if kind[0] == "M" else made.astype(kind)
    ending = pick(random, (".npz", ".hdf5", ".columns"))
    path = folder / f"data{ending}"
    if ending == ".npz":
        np.savez(path, **arrays)
    elif ending == ".columns":
        path.mkdir()
        for key, array in arrays.items():
            np.save(path / f"{key.replace('/', '_')}.npy", array)
    else:
        with h5py.File(path, "w") as file:
            for key, array in arrays.items():
                if array.dtype.kind not in "UM":  # HDF5 has no such arrays
                    file[key] = array
    return Case(
        path,
        pick(random, ({}, {"how": "table", "layout": ARRAYS}, {"name": "antmaze-umaze-v2"}))
        if ending != ".columns"
        else {},
    )


# HDF5 ---------------------------------------------------------------------------------------------


def hdf5(folder: Path, without: str = "") -> tuple[Path, h5py.File]:
    """A sound file but for one column."""
    path = folder / "data.hdf5"
    file = h5py.File(path, "w")
    for key, array in columns().items():
        if key != without:
            file[key] = array
    return path, file


def read_somehow(random: Random) -> dict[str, Any]:
    """As a dataset, as a table, or as one of D4RL's."""
    as_table = {"how": "table", "layout": ARRAYS}
    return pick(random, ({}, {}, as_table, {"name": "hopper-medium-v2"}))


@maker
def links_out_of_hdf5(random: Random, folder: Path, canaries: Path) -> Case:
    key = column_of(random)
    path, file = hdf5(folder, key)
    secret = pick(random, (canaries / "secret.hdf5", canaries / "pipe", "../canaries/secret.hdf5"))
    with file:
        match pick(random, ("link", "soft", "group", "infos", "unused", "prefix")):
            case "link":
                file[key] = h5py.ExternalLink(str(secret), "rewards")
            case "soft":
                file["other"] = h5py.ExternalLink(str(secret), "/")
                file[key] = h5py.SoftLink(pick(random, ("/other/rewards", "other/rewards")))
            case "group":
                file["a/b"] = h5py.ExternalLink(str(secret), "/")
                file[key] = h5py.SoftLink("/a/b/rewards")
            case "infos":
                file[key] = columns()[key]
                file["infos"] = h5py.ExternalLink(str(secret), "/")
            case "unused":
                file[key] = columns()[key]
                file["unused"] = h5py.ExternalLink(str(secret), "rewards")
            case _:
                file[key] = h5py.ExternalLink(f"./././{secret}", "/rewards")
    return Case(path, read_somehow(random))


@maker
def stored_outside_hdf5(random: Random, folder: Path, canaries: Path) -> Case:
    key = column_of(random)
    path, file = hdf5(folder, key)
    raw = pick(random, (canaries / "secret.raw", canaries / "pipe", "/etc/hostname", "/dev/zero"))
    with file:
        shape = columns()[key].shape
        file.create_dataset(key, shape, "f4", external=[(str(raw), 0, h5py.h5f.UNLIMITED)])
    return Case(path, read_somehow(random))


@maker
def virtual_hdf5(random: Random, folder: Path, canaries: Path) -> Case:
    key = column_of(random)
    path, file = hdf5(folder, key)
    shape = columns()[key].shape
    secret = pick(
        random, (".", ".", str(canaries / "secret.hdf5"), str(canaries / "secret%b.hdf5"))
    )
    source = pick(random, (key, "other", "rewards", "observations"))
    with file:
        for name, of in ((key, source), ("other", key)):
            layout = h5py.VirtualLayout(shape, "f4", maxshape=(None, *shape[1:]))
            layout[:] = h5py.VirtualSource(secret, of, shape)
            file.create_virtual_dataset(name, layout)
    return Case(path, read_somehow(random))


@maker
def cycles_in_hdf5(random: Random, folder: Path, _: Path) -> Case:
    key = column_of(random)
    path, file = hdf5(folder, key)
    with file:
        match pick(random, ("itself", "pair", "group", "root", "dangling", "deep")):
            case "itself":
                file[key] = h5py.SoftLink(f"/{key}")
            case "pair":
                file[key], file["other"] = h5py.SoftLink("/other"), h5py.SoftLink(f"/{key}")
            case "group":
                file.create_group("infos")
                file["infos/qpos"] = file["/"]
                file[key] = columns()[key]
            case "root":
                file[key] = file["/"]
            case "dangling":
                file[key] = h5py.SoftLink("/nothing/at/all")
            case _:
                file["/".join("x" * 500)] = columns()[key]
                file[key] = h5py.SoftLink("/".join("x" * 500))
    return Case(path, read_somehow(random))


@maker
def many_names_of_one_array(random: Random, folder: Path, _: Path) -> Case:
    path, file = hdf5(folder)
    with file:
        one = file.create_dataset("s_0", (2**22, 4), "f4", compression=pick(random, ("gzip", None)))
        one[:1000] = 1.0
        for number in range(1, 300):
            file[f"s_{number}"] = one
    table = {"how": "table", "layout": ARRAYS | {"observations": ["s_*"]}}
    return Case(path, pick(random, ({}, table)))


@maker
def hdf5_chunks(random: Random, folder: Path, _: Path) -> Case:
    """Chunks larger than their array, that inflate, or hold noise, through filters once and twice."""
    key = column_of(random)
    path, file = hdf5(folder, key)
    shape = columns()[key].shape
    with file:
        settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        long = pick(random, (1, 2**10, 2**18, 2**24, 2**28))
        settings.set_chunk((min(long, 2**30 // 4 // shape[-1]) if long > 1 else ROWS, *shape[1:]))
        for _number in range(int(random.integers(1, 4))):
            match pick(
                random, ("deflate", "deflate", "shuffle", "fletcher", "lzf", "scale", "unknown")
            ):
                case "deflate":
                    settings.set_deflate(9)
                case "shuffle":
                    settings.set_shuffle()
                case "fletcher":
                    settings.set_fletcher32()
                case "lzf":
                    settings.set_filter(32000, h5py.h5z.FLAG_OPTIONAL, (4, 261, 2**20))
                case "scale":
                    settings.set_scaleoffset(h5py.h5z.SO_FLOAT_DSCALE, 2)
                case _:
                    settings.set_filter(int(random.integers(300, 40_000)), h5py.h5z.FLAG_OPTIONAL)
        largest = (h5py.h5s.UNLIMITED, *shape[1:])
        space = h5py.h5s.create_simple(shape, largest)
        try:
            made = h5py.h5d.create(file.id, key.encode(), h5py.h5t.IEEE_F32LE, space, settings)
        except ValueError:  # a pipeline that HDF5 itself does not take
            file[key] = columns()[key]
            return Case(path, {})
        size = pick(random, (2**10, 2**20, 2**26, 2**28))
        packed = pick(random, (zlib.compress(bytes(size), 1), random.bytes(100), b"x", bytes(64)))
        if random.random() < 0.3:
            packed = zlib.compress(packed)
        made.write_direct_chunk((0,) * len(shape), packed, 0)
    return Case(path, read_somehow(random))


@maker
def hdf5_sizes(random: Random, folder: Path, _: Path) -> Case:
    path = folder / "data.h5"
    chunked_hdf5(path)
    with h5py.File(path, "a") as file:
        for key in columns():
            if random.random() < 0.8:
                file[key].resize(int(10 ** random.uniform(2, 12)), axis=0)  # pyright: ignore
    return Case(path, read_somehow(random))


@maker
def hdf5_types(random: Random, folder: Path, _: Path) -> Case:
    key = column_of(random)
    path, file = hdf5(folder, key)
    kinds: tuple[Any, ...] = (
        h5py.string_dtype(), h5py.vlen_dtype(np.float32), h5py.ref_dtype, h5py.regionref_dtype,
        h5py.enum_dtype({"A": 0, "B": 1}, "i1"), np.dtype("f4,(3,)i2"), np.dtype("f2"),
        np.dtype(">f8"), np.dtype("(1000,)f4"), np.dtype("V7"), "S1",
        np.dtype("c16"), np.dtype("longdouble"), h5py.opaque_dtype(np.dtype("M8[us]")),
    )  # fmt: skip
    with file:
        match pick(random, ("type", "type", "empty", "group", "named", "scalar")):
            case "empty":
                file[key] = h5py.Empty("f4")
            case "group":
                file.create_group(key)
            case "named":
                file[key] = np.dtype("f4")
            case "scalar":
                file[key] = 1.0
            case _:
                file.create_dataset(key, columns()[key].shape, pick(random, kinds))
    return Case(path, read_somehow(random))


@maker
def hdf5_words(random: Random, folder: Path, _: Path) -> Case:
    """Attributes: names, long, nested, of other types; and odd names of arrays."""
    path, file = hdf5(folder)
    with file:
        for key in (
            "name",
            "observation_names",
            "action_names",
            "source_files",
            pick(random, ODD_NAMES) or "x",
        ):
            depth = int(10 ** random.uniform(0, 4.4))
            values: tuple[Any, ...] = (
                np.bytes_(b"\xff\xfe\x00x"), np.bytes_(("[" * depth).encode()),
                np.bytes_(json.dumps([pick(random, ODD_NAMES)] * 3).encode()), "text of any length",
                np.zeros(10), np.bytes_(b"minari:x/y-v0"), np.bytes_(pick(random, ODD_NAMES).encode() + b"."),  # noqa: E501
                np.array([b"a", b"b"]), np.bytes_(b'[["x", 1e999]]'), np.bytes_(b"ogbench-x"),
            )  # fmt: skip
            try:
                file.attrs[key.replace("\x00", "0")] = pick(random, values)
            except (ValueError, RuntimeError, OSError):  # HDF5 keeps no more than 64 kB
                continue
        odd = pick(random, ODD_NAMES).replace("\x00", "0").replace("/", "_")
        if odd.strip(".") and odd not in file:
            file[odd] = np.zeros(ROWS)
        if random.random() < 0.3:
            del file["rewards"]
    return Case(path, read_somehow(random))


# npz ----------------------------------------------------------------------------------------------


class Trap:
    """Unpickling this makes a folder."""

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.marker,)


@maker
def planted_pickles(random: Random, folder: Path, _: Path) -> Case:
    key = pick(random, ("rewards", "attributes", "action_low", "unknown"))
    path, arrays = folder / "data.npz", columns()
    trapped = np.array([Trap(str(folder / "marker"))] * ROWS, dtype=object)
    match pick(random, ("object", "raw", "file", "behind")):
        case "object":
            np.savez(path, **{**arrays, key: trapped})
        case "file":
            path.write_bytes(pickle.dumps({key: trapped}))
        case way:
            arrays.pop(key, None)
            np.savez(path, **arrays)
            header = io.BytesIO()
            np.lib.format.write_array(header, np.zeros(ROWS), allow_pickle=False)
            start = header.getvalue()[:128] if way == "behind" else b""
            with zipfile.ZipFile(path, "a") as archive:
                archive.writestr(f"{key}.npy", start + pickle.dumps(trapped))
    return Case(path, read_somehow(random) | ({"layout": ARRAYS}))


@maker
def npz_headings(random: Random, folder: Path, _: Path) -> Case:
    """Arrays whose headings claim anything."""
    key, path, arrays = column_of(random), folder / "data.npz", columns()
    content = arrays.pop(key).tobytes()
    np.savez(path, **arrays)
    shape = pick(
        random,
        ("(15,)", "(10**12,)", "(1000000000000,)", "(-15,)", "(True,)", "(15.0,)", "()", "'x'",
         "(" * 200 + ")" * 200, "(2**70,)", "(4294967296, 4294967296)", "(300000000,)"),
    )  # fmt: skip
    kind = pick(
        random,
        (
            "'<f4'",
            "'O'",
            "'|V2147483647'",
            "'<f4,<f4'",
            "[('a','<f4')]",
            "None",
            "'(99999,99999)f4'",
            "'<U1000000000'",
            "'M8[s]'",
        ),
    )
    text = f"{{'descr': {kind}, 'fortran_order': {pick(random, (True, False))}, 'shape': {shape}}}"
    text = pick(random, (text, text, "{" * 1000, "__import__('os').mkdir('marker')", text[:-1]))
    header = text.encode() + b" " * (-len(text) % 64) + b"\n"
    version = pick(random, (b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"))
    length = struct.pack("<H" if version[0] == 1 else "<I", min(len(header), 65535))
    with zipfile.ZipFile(path, "a", pick(random, (0, 8))) as archive:
        archive.writestr(f"{key}.npy", b"\x93NUMPY" + version + length + header + content)
    return Case(path, read_somehow(random))


@maker
def npz_bombs(random: Random, folder: Path, _: Path) -> Case:
    key, path, arrays = column_of(random), folder / "data.npz", columns()
    key = pick(random, (key, "unused", "attributes"))
    arrays.pop(key, None)
    np.savez(path, **arrays)
    size = pick(random, (2**22, 2**26, 2**28))
    method = pick(
        random, (zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    )
    with zipfile.ZipFile(path, "a", method, compresslevel=1) as archive:
        made = io.BytesIO()
        np.lib.format.write_array(made, np.zeros(size, "u1"))
        archive.writestr(f"{key}.npy", made.getvalue())
        one = archive.getinfo(f"{key}.npy")
        for number in range(int(random.integers(2)) * 200):  # the same bytes under other names
            other = zipfile.ZipInfo(f"s_{number}.npy")
            for field in ("header_offset", "compress_size", "file_size", "CRC", "compress_type"):
                setattr(other, field, getattr(one, field))
            archive.filelist.append(other)
            archive.NameToInfo[other.filename] = other
    table = {"how": "table", "layout": ARRAYS | {"observations": ["s_*", key]}}
    return Case(path, pick(random, ({}, table)))


@maker
def npz_words(random: Random, folder: Path, _: Path) -> Case:
    path, depth = folder / "data.npz", int(10 ** random.uniform(0, 5))
    odd = pick(random, ODD_NAMES)
    texts = (
        "[" * depth + "]" * depth, '{"name": ' + "[" * depth + "]" * depth + "}", "null", "{", '"',
        json.dumps({"name": odd, odd: odd, "observation_names": json.dumps([odd] * 3)}),
        json.dumps({"observation_names": "[" * depth + "]" * depth}),
        json.dumps({"name": ["x"], "action_names": {"a": 1}, "source_files": json.dumps([["\ud800", 0]])}),  # noqa: E501
        '{"name": "\\ud800", "x": 1e999, "y": NaN, "z": ' + "9" * 5000 + "}",
        json.dumps({"source_files": '[["x", 1e999]]', "name": "minari:../../x-v0"}),
        json.dumps({"name": "ogbench-" + odd}), "x" * 2**23,
    )  # fmt: skip
    kept = {
        **columns(),
        "attributes": np.asarray(pick(random, texts)),
        "source_rows": np.arange(ROWS),
    }
    np.savez(path, **kept)
    with zipfile.ZipFile(path, "a") as archive:
        made = io.BytesIO()
        np.lib.format.write_array(made, np.zeros(ROWS))
        archive.writestr(f"{odd.replace(chr(0), '')[:1000] or 'x'}.npy", made.getvalue())
    table = {"how": "table", "layout": ARRAYS | {"observations": ["*"]}}
    return Case(path, pick(random, ({}, {}, table)))


# Folders of columns -------------------------------------------------------------------------------


@maker
def columns_that_lead_elsewhere(random: Random, folder: Path, canaries: Path) -> Case:
    path = folder / "data.columns"
    own(path)
    file = path / pick(random, ("rewards.npy", "attributes.json", "observations.npy", "unused.npy"))
    file.unlink(missing_ok=True)
    targets = ("secret.npy", "secret.json", "secret.raw", "pipe", "nothing")
    match pick(
        random, ("link", "link", "loop", "pipe", "folder", "device", "hole", "archive", "short")
    ):
        case "link":
            file.symlink_to(canaries / pick(random, targets))
        case "loop":
            file.symlink_to(file.name)
        case "pipe":
            os.mkfifo(file)
        case "folder":
            file.mkdir()
        case "device":
            file.symlink_to(pick(random, ("/dev/zero", "/dev/random", "/proc/self/environ")))
        case "hole":
            shape = int(10 ** random.uniform(8, 13))
            kind = pick(random, (np.float32, np.float64, bool))
            np.lib.format.open_memmap(file.with_suffix(".npy"), "w+", kind, (shape,)).flush()
        case "archive":
            np.savez(folder / "x.npz", np.zeros(3))
            (folder / "x.npz").rename(file)
        case _:
            np.save(folder / "x.npy", columns()["rewards"])
            file.write_bytes((folder / "x.npy").read_bytes()[: int(random.integers(200))])
    return Case(path, {})


@maker
def words_beside_columns(random: Random, folder: Path, _: Path) -> Case:
    path, depth = folder / "data.columns", int(10 ** random.uniform(0, 5))
    own(path)
    odd = pick(random, ODD_NAMES)
    texts = ("[" * depth, '{"name":' * depth, json.dumps({"name": odd, odd: odd}), "", "\ud800",
             '{"x": ' + "1" * 10**5 + "}", json.dumps({"name": "x" * 5 * 10**6}))  # fmt: skip
    (path / "attributes.json").write_bytes(pick(random, texts).encode("utf-8", "surrogatepass"))
    return Case(path, {})


# Any file -----------------------------------------------------------------------------------------


@maker
def no_regular_file(random: Random, folder: Path, canaries: Path) -> Case:
    ending = pick(random, (".hdf5", ".h5", ".npz", ".csv", ".parquet", ".tfrecord", ".columns"))
    path = folder / f"data{ending}"
    match pick(random, ("pipe", "folder", "device", "loop", "link to a pipe")):
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "device":
            path.symlink_to(pick(random, ("/dev/zero", "/dev/full", "/dev/tty")))
        case "loop":
            path.symlink_to(path.name)
        case _:
            path.symlink_to(canaries / "pipe")
    return Case(path, TABLE if ending in (".csv", ".parquet") else {})


@maker
def foreign_files(random: Random, folder: Path, _: Path) -> Case:
    ending = pick(random, (".hdf5", ".h5", ".npz", ".csv", ".parquet", ".tfrecord"))
    path = folder / f"data{ending}"
    starts = (b"", b"\n", bytes(10_000), b"PK\x03\x04", b"\x89HDF\r\n\x1a\n", b"PAR1", b"\x1f\x8b\x08",
              b"ARROW1\x00\x00", b"\x93NUMPY", b"PK\x05\x06" + bytes(18), b"PAR1PAR1", b"ORC")  # fmt: skip  # noqa: E501
    path.write_bytes(pick(random, starts) + random.bytes(int(random.integers(300))))
    return Case(path, TABLE)


# Tables -------------------------------------------------------------------------------------------


def any_table(random: Random) -> dict[str, Any]:
    """Options that read column `c` in any role."""
    role = pick(random, ("observations", "actions", "reward", "episode", "time", "terminal"))
    layout = LAYOUT | ({role: ["c"]} if role in ("observations", "actions") else {role: "c"})
    if role in ("episode", "time") and random.random() < 0.5:
        layout.pop("timeout")
        layout["episode"] = "c" if role == "episode" else "rewards"
    reading: dict[str, Any] = {}
    if random.random() < 0.3:
        reading["drop_missing"] = True
    if random.random() < 0.3:
        reading["missing"] = [pick(random, ("-999", "nan", "x", ""))]
    if random.random() < 0.2:
        reading["fill"] = pick(random, ("previous", "linear"))
    if role == "time" and random.random() < 0.3:
        reading["time_format"] = pick(random, ("%Y", "%d.%m.%Y", "%Q%", "%s"))
    return {"layout": layout, "reading": reading}


def any_column(random: Random) -> Any:
    """A column of Arrow's of any kind, some of its values missing."""
    low = int(pick(random, (0, 2**31 - 20, 2**62, 2**63 - 20, -(2**63), 1000)))
    numbers = [low + i for i in range(ROWS)]
    few = [
        pick(random, ("x", "", "1", "nan", "1e999", "\x1b[2J", "\ud7ff", "9" * 400))
        for _ in numbers
    ]
    lists = [[float(i)] * int(random.integers(1, 3)) for i in range(ROWS)]
    even = [[float(i)] * 2 for i in range(ROWS)]
    makers: tuple[Callable[[], Any], ...] = (
        lambda: pyarrow.array(numbers, pyarrow.int64()).cast(pick(random, (
            pyarrow.timestamp("s"), pyarrow.timestamp("ns"), pyarrow.timestamp("us", tz="No/Where"),
            pyarrow.duration("s"), pyarrow.duration("ns"), pyarrow.date64(), pyarrow.time64("ns"),
            pyarrow.timestamp("ms", tz="+99:99"), pyarrow.float32(), pyarrow.float16()))),
        lambda: pyarrow.array([n % 2**31 for n in numbers], pyarrow.int32()).cast(pick(random, (
            pyarrow.date32(), pyarrow.time32("s"), pyarrow.decimal128(38, 2), pyarrow.int8()))),
        lambda: pyarrow.array(few, pick(random, (pyarrow.string(), pyarrow.large_string(), pyarrow.string_view()))),  # noqa: E501
        lambda: pyarrow.array(few).dictionary_encode(),
        lambda: pyarrow.array(few, pyarrow.large_string()).dictionary_encode(),
        lambda: pyarrow.array(pick(random, (lists, even)), pick(random, (
            pyarrow.list_(pyarrow.float32()), pyarrow.large_list(pyarrow.float64()), pyarrow.list_(pyarrow.float32(), 2)))),  # noqa: E501
        lambda: pyarrow.array([even[:2]] * ROWS),
        lambda: pyarrow.array([few[:2]] * ROWS),
        lambda: pyarrow.array([[None, 1.0], None, []] * 5),
        lambda: pyarrow.array([[("k", 1.0)]] * ROWS, pyarrow.map_(pyarrow.string(), pyarrow.float64())),
        lambda: pyarrow.array([{"a": 1, "b": [1]}] * ROWS),
        lambda: pyarrow.array([b"\xff\x00\x1b"] * ROWS, pick(random, (
            pyarrow.binary(), pyarrow.large_binary(), pyarrow.binary(3), pyarrow.binary_view()))),
        lambda: pyarrow.nulls(ROWS),
        lambda: pyarrow.array([10**70 + i for i in range(ROWS)], pyarrow.decimal256(76, 0)),
        lambda: pyarrow.array([True, None, False] * 5),
        lambda: pyarrow.array([np.nan, np.inf, 1e300] * 5),
        lambda: pyarrow.array([2**64 - 1 - i for i in range(ROWS)], pyarrow.uint64()),
    )  # fmt: skip
    while True:
        try:
            made = pick(random, makers)()
        except (pyarrow.ArrowException, OverflowError, ValueError):  # no such value of that kind
            continue
        if random.random() < 0.3:
            mask = pyarrow.array(random.random(ROWS) < pick(random, (0.1, 1.0)))
            try:
                return import_module("pyarrow.compute").if_else(
                    mask, pyarrow.scalar(None, made.type), made
                )
            except pyarrow.ArrowException:
                pass
        return made


@maker
def kinds_of_parquet(random: Random, folder: Path, _: Path) -> Case:
    path = folder / "data.parquet"
    while True:
        table = pyarrow.table({**table_of(columns()), "c": any_column(random)})
        if random.random() < 0.2:
            table = table.rename_columns([*table.column_names[:-1], pick(random, ODD_NAMES)])
        try:
            pyarrow.parquet.write_table(
                table, path, row_group_size=int(random.integers(1, 20)),
                compression=pick(random, ("none", "snappy", "zstd", "gzip")),
                use_dictionary=bool(random.integers(2)), store_schema=bool(random.integers(2)),
            )  # fmt: skip
        except (pyarrow.ArrowException, OverflowError):  # Parquet has no such values
            continue
        options = any_table(random)
        name = table.column_names[-1]
        renamed = {
            key: [name if each == "c" else each for each in value]
            if isinstance(value, list)
            else name
            if value == "c"
            else value
            for key, value in options["layout"].items()
        }
        return Case(path, options | {"layout": renamed})


@maker
def parquet_bombs(random: Random, folder: Path, _: Path) -> Case:
    path, rows = folder / "data.parquet", int(10 ** random.uniform(3, 6.5))
    word = "0" * int(10 ** random.uniform(0, 6))
    zeros = np.zeros(rows, np.int8)
    table: dict[str, Any] = {
        "observations_0": zeros, "actions_0": zeros, "rewards": zeros, "timeouts": zeros,
        "c": pyarrow.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [word]),
    }  # fmt: skip
    if random.random() < 0.2:
        nested: Any = pyarrow.array([1.0])
        for _number in range(int(random.integers(10, 150))):
            nested = (
                pyarrow.array([nested.to_pylist()])
                if False
                else pyarrow.ListArray.from_arrays([0, 1], nested)
            )
        table = {key: np.zeros(1) for key in table} | {"c": nested}
    pyarrow.parquet.write_table(pyarrow.table(table), path, store_schema=False, compression="zstd")
    return Case(path, pick(random, (TABLE, any_table(random))))


@maker
def kinds_of_csv(random: Random, folder: Path, _: Path) -> Case:
    path = folder / "data.csv"
    separator = pick(random, (",", ";", "\t", "|", ",,"))
    cells = ("", "1", "-1e999", "nan", "\x00", "\x1b[2J", '"a\nb"', '"', "1,5", "9" * 5000, "0x10", "é",
             "99999-12-31", "2020-01-01 00:00:00", "1970-01-01T00:00:00Z", "true", "\ufeff", "NULL", "∞")  # fmt: skip  # noqa: E501
    names = [*table_of(columns()), "c"]
    if random.random() < 0.3:
        names[int(random.integers(len(names)))] = pick(random, ODD_NAMES)
    lines = [names] + [
        [
            pick(random, cells) if random.random() < 0.05 else str(i % 2)
            for i in range(len(names) + (random.random() < 0.02))
        ]
        for _ in range(int(random.integers(0, 40)))
    ]
    end = pick(random, ("\n", "\r\n", "\r", "\n\n", "\x0b"))
    text = end.join(separator.join(line) for line in lines) + pick(random, (end, "", "\x00"))
    encoding = pick(
        random, ("utf-8", "utf-8", "utf-16", "latin-1", "utf-8-sig", "utf-16-le", "cp037")
    )
    content = text.encode(encoding, "replace")
    path.write_bytes(
        content[: int(random.integers(len(content) + 1))] if random.random() < 0.1 else content
    )
    return Case(path, any_table(random))


@maker
def large_csv(random: Random, folder: Path, _: Path) -> Case:
    path, size = folder / "data.csv", int(10 ** random.uniform(3, 5.5))
    heading = ",".join([*table_of(columns()), "c"])
    match pick(random, ("columns", "names", "quote", "line", "empty", "rows", "separators")):
        case "columns":
            heading += "," + ",".join(f"s_{i}" for i in range(size // 20))
            text = heading + "\n" + "1,".join([""] * (heading.count(",") + 1)) + "1\n"
        case "names":
            text = "a" * size + "," + heading + "\n"
        case "quote":
            text = heading + '\n"' + "x" * size
        case "line":
            text = heading + "\n" + "1" * size + "\n"
        case "empty":
            text = heading + "\n" * size
        case "separators":
            text = heading + "\n" + "," * size + "\n"
        case _:
            text = heading + "\n" + ("0," * heading.count(",") + "1\n") * (size // 20)
    path.write_text(text)
    layout = LAYOUT | {"observations": [pick(random, ("observations_*", "*", "s_*", "[" * 100))]}
    return Case(path, {"layout": layout})


# TFRecords ----------------------------------------------------------------------------------------


def record(content: bytes, length: int | None = None) -> bytes:
    """A record as TensorFlow frames it, with the right checksums."""
    from crc32c import crc32c

    def masked(data: bytes) -> bytes:
        crc = crc32c(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    size = struct.pack("<Q", len(content) if length is None else length)
    return size + masked(size) + content + masked(content)


@maker
def records(random: Random, folder: Path, _: Path) -> Case:
    example_pb2: Any = import_module("tfrecord.example_pb2")

    path = folder / "data.tfrecord"
    example = example_pb2.Example()
    for key in ("reward", "step_type", "action", "discount", pick(random, ODD_NAMES)):
        feature = example.features.feature[key]
        match pick(random, ("float", "int", "bytes", "none", "many")):
            case "float":
                feature.float_list.value.extend([np.nan, np.inf, 1.0])
            case "int":
                feature.int64_list.value.extend([2**63 - 1, -(2**63)])
            case "bytes":
                feature.bytes_list.value.append(b"\xff" * 100)
            case "many":
                feature.float_list.value.extend([0.0] * int(10 ** random.uniform(3, 6)))
            case _:
                pass
    good = example.SerializeToString()
    contents = (
        good,
        b"",
        b"\x0a\xff\xff\xff\xff\x0f",
        b"\x0a" * 10_000,
        random.bytes(200),
        b"\x0b" * 5000,
    )
    whole = b"".join(record(pick(random, contents)) for _ in range(int(random.integers(1, 4))))
    match pick(random, ("plain", "gzip", "length", "bomb", "twice", "many")):
        case "gzip":
            whole = gzip.compress(whole, 1)
        case "length":
            whole += record(b"", int(2 ** random.uniform(10, 64)) % 2**64)
        case "bomb":
            whole = gzip.compress(record(bytes(2**24), 2**31 - 1) + bytes(2**26), 1)
        case "twice":
            whole = gzip.compress(gzip.compress(whole)) + b"\x1f\x8b"
        case "many":
            whole = gzip.compress(record(bytes(2**20)) * 200, 1)
        case _:
            pass
    path.write_bytes(whole)
    name = {"name": "rlu-cartpole-swingup", "how": "rlu"}
    return Case(path, pick(random, ({}, {}, name)))


# Minari -------------------------------------------------------------------------------------------


@maker
def metadata_of_minari(random: Random, folder: Path, _: Path) -> Case:
    path, depth = folder / "x" / "y-v0", int(10 ** random.uniform(0, 5))
    minari(path)
    (folder / "x" / "planted.py").write_text(
        "import os\nos.mkdir('marker')\ndef make(**_): os.mkdir('made')\n"
    )
    file = path / "data" / "metadata.json"
    metadata = json.loads(file.read_text())
    spec = json.loads(metadata["env_spec"])
    entries = (
        "planted:make", "os:system", "subprocess:run", "builtins:exec", "gymnasium:make", "a", ":", "x:",
        "gymnasium.envs.registration:load_env_creator", "chary.envs.registration:make", None, 5, ["x"],
        "gymnasium.envs.classic_control.pendulum:os.system", "gymnasium_robotics/../planted:make",
    )  # fmt: skip
    spaces = (
        '{"type": "Box", "dtype": "float32", "shape": [99999, 99999], "low": 0, "high": 1}',
        '{"type": "Box", "dtype": "O", "shape": [3], "low": [0], "high": [1]}', "[]", "null", "5",
        '{"type": "Dict", "subspaces": {}}', '{"type": "Discrete", "n": 1e400, "start": 0}',
        '{"type": "Tuple", "subspaces": [' * 30, "[" * depth, '{"type": "Box"}', '{"shape": ["x"]}',
        '{"type": "Dict", "subspaces": {"../../x": {"type": "Box", "dtype": "f4", "shape": [1], "low": [0], "high": [1]}}}',  # noqa: E501
        '{"type": "Text", "max_length": 1000000000, "min_length": 0, "charset": "a"}',
    )  # fmt: skip
    match pick(
        random,
        (
            "entry",
            "entry",
            "wrapper",
            "kwargs",
            "space",
            "missing",
            "deep",
            "episodes",
            "words",
            "id",
            "text",
            "format",
        ),
    ):
        case "entry":
            spec["entry_point"] = pick(random, entries)
            spec["kwargs"] = pick(
                random, ({}, {"args": ["mkdir", "marker"]}, {"command": "mkdir marker"}, [], None)
            )
        case "wrapper":
            entry = pick(random, (*entries, "gymnasium.wrappers.rendering:RecordVideo"))
            wrapper = {"name": "W", "entry_point": entry, "kwargs": {"video_folder": "marker"}}
            spec["additional_wrappers"] = pick(random, ([wrapper], wrapper, [[]], [None], 5))
        case "kwargs":
            values = ("/etc/passwd", "a" * 10**5, 10**30, [["x"]] * 10, {"a": {"b": "c.d"}}, None)
            spec["kwargs"] = {
                pick(random, ("g", "xml_file", "self", "render_mode", "\x1b[0m")): pick(
                    random, values
                )
            }
        case "space":
            metadata[pick(random, ("observation_space", "action_space"))] = pick(random, spaces)
        case "missing":
            del metadata[pick(random, list(metadata))]
            spec["entry_point"] = "planted:make"
        case "deep":
            metadata["author"] = "DEEP"
        case "episodes":
            metadata["total_episodes"] = pick(
                random, (-1, 0, 4, 10**15, "3", 2.5, None, [3], 1e400, True)
            )
        case "words":
            metadata["ref_min_score"] = pick(random, ("x", [], 1e999, "1" * 5000))
            metadata["ref_max_score"] = pick(random, (1, None, {}))
        case "id":
            spec["id"] = pick(
                random, ("planted:X-v0", "", "a/b/c", 5, None, "X-v99999999999999999999")
            )
        case "text":
            file.write_text(pick(random, ("", "[]", "5", "{", '"' * 100, "\x00", "{}")))
            return Case(path, {"how": "minari", "name": MINARI})
        case _:
            metadata["data_format"] = pick(random, ("arrow", "parquet", "x", None, "../hdf5"))
    metadata |= (
        {"env_spec": json.dumps(spec)}
        if random.random() < 0.8
        else {"eval_env_spec": json.dumps(spec)}
    )
    file.write_text(json.dumps(metadata).replace('"DEEP"', "[" * depth + "]" * depth))
    return Case(path, {"how": "minari", "name": MINARI})


@maker
def numbers_of_minari(random: Random, folder: Path, canaries: Path) -> Case:
    path = folder / "x" / "y-v0"
    minari(path)
    file = path / "data" / "main_data.hdf5"
    key = pick(
        random, ("observations", "actions", "rewards", "terminations", "truncations", "infos/x")
    )
    place = f"episode_{int(random.integers(3))}/{key}"
    secret = pick(random, (canaries / "secret.hdf5", canaries / "pipe"))
    with h5py.File(file, "a") as opened:
        del opened[place]
        match pick(
            random,
            ("link", "soft", "virtual", "raw", "none", "shape", "type", "many", "size", "episode"),
        ):
            case "link":
                opened[place] = h5py.ExternalLink(str(secret), "rewards")
            case "soft":
                opened["other"] = h5py.ExternalLink(str(secret), "/")
                opened[place] = h5py.SoftLink("/other/rewards")
            case "virtual":
                layout = h5py.VirtualLayout((5,), "f4")
                layout[:] = h5py.VirtualSource(pick(random, (".", str(secret))), place, (5,))
                opened.create_virtual_dataset(place, layout)
            case "raw":
                raw = [(str(canaries / "secret.raw"), 0, h5py.h5f.UNLIMITED)]
                opened.create_dataset(place, (5,), "f4", external=raw)
            case "shape":
                opened[place] = np.zeros(pick(random, SHAPES))
            case "type":
                opened[place] = np.full(5, pick(random, (b"x", np.nan, np.inf, 1e300, 1j)))
            case "many":
                opened[place] = np.zeros((2**22,), "f4")
                for number in range(500):
                    opened[f"episode_{number + 3}/{key}"] = opened[place]
            case "size":
                opened.create_dataset(place, (10**12,), "f4", chunks=(1000,), compression="gzip")
            case "episode":
                del opened["episode_0"]
                opened["episode_0"] = h5py.ExternalLink(str(canaries / "secret.hdf5"), "episode_0")
            case _:
                pass
    match pick(random, ("", "", "", "link", "pipe", "folder")):
        case "link":
            file.rename(folder / "elsewhere.hdf5")
            file.symlink_to(
                pick(
                    random, (folder / "elsewhere.hdf5", canaries / "secret.hdf5", canaries / "pipe")
                )
            )
        case "pipe":
            file.unlink()
            os.mkfifo(file)
        case "folder":
            shutil.rmtree(path / "data")
            (path / "data").symlink_to(canaries)
        case _:
            pass
    return Case(path, {"how": "minari", "name": MINARI})


MAKERS: dict[str, Maker] = {f"damaged {name}": partial(damage, name) for name in KINDS} | CORPUS
