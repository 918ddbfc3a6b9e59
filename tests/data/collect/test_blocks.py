"""Blocks that survive an interruption, and the command that shows it."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import pytest

from chary.data import collect, formats
from chary.data.collect import Columns, block_sizes, collect_dataset, mazes, run_jobs
from chary.data.dataset import Dataset
from chary.errors import CharyError
from tests.conftest import make_columns


def make_block(job: int) -> Columns:
    columns = make_columns(episodes=2, length=5, seed=job)
    return columns | {"infos/goal": np.full((10, 2), job, np.float32)}


def gather(out: Path | None, work: Any = make_block, **settings: Any) -> Dataset:
    return collect_dataset(
        work,
        range(4),
        name="tiny",
        settings={"seed": 0, **settings},
        collected_by="a test",
        out=out,
    )


def parts(out: Path) -> Path:
    return out.with_name(f"{out.name}.parts")


class StoppedError(Exception):
    pass


def fail_at_two(job: int) -> Columns:
    if job == 2:
        raise StoppedError
    return make_block(job)


def test_sizes_of_blocks() -> None:
    assert block_sizes(25, 10) == [10, 10, 5]
    assert block_sizes(20, 10) == [10, 10]
    assert block_sizes(3, 10) == [3]


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("ending", [".hdf5", ".npz"])
def test_the_file_holds_the_blocks_in_order_and_the_other_columns(
    ending: str, tmp_path: Path
) -> None:
    out = tmp_path / f"data{ending}"
    dataset = gather(out)
    assert not parts(out).exists() and list(tmp_path.iterdir()) == [out]
    expected = np.concatenate([make_block(job)["observations"] for job in range(4)])
    np.testing.assert_array_equal(dataset.observations, expected)
    again = formats.read(out)
    assert again.fingerprint == dataset.fingerprint == again.metadata["fingerprint"]
    assert again.metadata["collected_by"] == "a test"
    if ending == ".npz":
        with np.load(out, allow_pickle=False) as archive:
            goals = archive["infos/goal"]
    else:
        import h5py

        with h5py.File(out) as file:
            goals = np.asarray(file["infos/goal"])
    np.testing.assert_array_equal(goals[:, 0], np.repeat(range(4), 10))
    assert gather(None).fingerprint == dataset.fingerprint


def test_an_interrupted_collection_goes_on_where_it_was(
    in_process: list[Any], tmp_path: Path
) -> None:
    out = tmp_path / "data.npz"
    with pytest.raises(StoppedError):
        gather(out, fail_at_two)
    assert {path.name for path in parts(out).glob("*.npz")} == {"00000.npz", "00001.npz"}
    assert not out.exists() and len(in_process) == 2
    # What a killed process leaves behind is not taken for a part.
    (parts(out) / ".00002-1.npz").write_bytes(b"half")
    dataset = gather(out)
    assert [part.job for part in in_process] == [0, 1, 2, 3]
    assert not parts(out).exists()
    assert dataset.fingerprint == gather(tmp_path / "whole.npz").fingerprint


@pytest.mark.usefixtures("in_process")
def test_parts_of_another_collection_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "data.npz"
    with pytest.raises(StoppedError):
        gather(out, fail_at_two, noise=0.2)
    with pytest.raises(CharyError, match=r"noise 0\.2 instead of 0\.3, seed 0 instead of 7"):
        gather(out, seed=7, noise=0.3)
    with pytest.raises(CharyError, match=r"noise 0\.2 instead of None"):
        gather(out)
    assert len(list(parts(out).glob("*.npz"))) == 2
    gather(out, noise=0.2)


@pytest.mark.usefixtures("in_process")
def test_damaged_parts_and_settings(tmp_path: Path) -> None:
    out = tmp_path / "data.npz"
    with pytest.raises(StoppedError):
        gather(out, fail_at_two)
    path = parts(out) / "00001.npz"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CharyError, match=r"00001.npz: not a readable npz file.*Delete it"):
        gather(out)
    path.unlink()
    settings = (parts(out) / "settings.json").read_text()
    for text in ("{", "[1]"):
        (parts(out) / "settings.json").write_text(text)
        with pytest.raises(CharyError, match=r"settings.json: damaged"):
            gather(out)
    (parts(out) / "settings.json").write_text(settings)
    assert gather(out).size == 40


@pytest.mark.usefixtures("in_process")
def test_one_collection_at_a_time(tmp_path: Path) -> None:
    out = tmp_path / "data.npz"
    parts(out).mkdir()
    with (
        filelock.FileLock(parts(out) / ".lock"),
        pytest.raises(CharyError, match="another collection is writing here"),
    ):
        gather(out)


@pytest.mark.usefixtures("in_process")
def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CharyError, match=r"data.npz.parts: cannot be made"):
        gather(tmp_path / "file" / "data.npz")


def threads_here(_: int) -> list[str | None]:
    return [os.environ.get(name) for name in collect.THREADS]


def die(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_processes_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    assert run_jobs(threads_here, [0, 1], title="threads") == [["1"] * 3] * 2
    assert os.environ["OMP_NUM_THREADS"] == "5" and "MKL_NUM_THREADS" not in os.environ
    with pytest.raises(CharyError, match=r"killed.*again"):
        run_jobs(die, [0], title="dying")
    assert run_jobs(die, [], title="nothing") == []


def children(process: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Any) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


# The program, with blocks that are finished in a moment.
# Interrupts may be ignored where the tests run in the background, and so in what they start.
SMALL_BLOCKS = """
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from chary.cli import main
from chary.data.collect import mazes
mazes.BLOCK = 100
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("stop", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGKILL, -9, marks=pytest.mark.long)],
)
def test_stopped_and_called_again_it_ends_in_the_same_data(
    stop: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, steps = tmp_path / "maze.npz", 1_000
    command = ["data", "collect", "pointmaze-umaze", "--steps", str(steps), "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-c", SMALL_BLOCKS, *command], stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: any(parts(out).glob("[0-9]*.npz")))
    workers = children(process.pid)
    assert workers
    process.send_signal(stop)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    if stop == signal.SIGINT:
        # GLFW asks for its version in a process of its own, which finds its reader gone.
        glfw = r'Traceback .*\n  File "<string>", line 36, in <module>\nBrokenPipeError.*\n'
        errors = re.sub(glfw, "", errors)
        assert "run the same command again" in errors and "Traceback" not in errors
    wait_until(lambda: not any(map(running, workers)))  # nobody works on for the dead
    assert parts(out).exists() and not out.exists()

    monkeypatch.setattr(mazes, "BLOCK", 100)
    again = mazes.collect_maze("pointmaze-umaze", steps, seed=0, out=out)
    assert not parts(out).exists()
    assert again.fingerprint == mazes.collect_maze("pointmaze-umaze", steps, seed=0).fingerprint
    assert formats.read(out).fingerprint == again.fingerprint
