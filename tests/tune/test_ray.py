"""Ray: a sweep survives the death of everything that it runs on, and ends in the same bits."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import chary
from chary.cli import main
from chary.errors import CharyError
from chary.runs.folder import RunFolder
from chary.tune import on_ray, sweep, workers
from chary.tune.on_ray import OWN_CLUSTER
from chary.tune.process import log_of
from chary.tune.where import Where
from tests.conftest import run_chary
from tests.tune.test_sweep import data, specs_of

__all__ = ["data"]

TORTURE = bool(os.environ.get("CHARY_TORTURE"))
"""Whether to take longer: longer runs and more kills."""
LONG: dict[str, Any] = {
    "steps": 24_000,  # long enough to be interrupted on a fast machine
    "log_every": 500,
    "checkpoint_minutes": 0.0,
}
CELLS = 8
KILLS = 9 if TORTURE else 5
SECRET = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid.uuid4().hex}


@pytest.mark.long
@pytest.mark.timeout(3600 if TORTURE else 900)
def test_a_sweep_on_ray_survives_and_ends_in_the_same_bits(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    planned = sweep.create(folder, _specs(data, folder))
    _interrupted(planned)
    _killed(planned)
    for cell, other in zip(planned.cells, _undisturbed(data, tmp_path / "b").cells, strict=True):
        logged = (cell.folder / "metrics.jsonl").read_bytes()
        assert logged == (other.folder / "metrics.jsonl").read_bytes()
        for log in ("metrics", "timing"):
            steps = [line["step"] for line in RunFolder.open(cell.folder).read(log)]
            assert steps == list(range(500, LONG["steps"] + 1, 500))
        assert _arrays(cell) == _arrays(other)


def _interrupted(planned: sweep.Sweep) -> None:
    """Ctrl-C in a terminal, on a cluster of its own: every run is saved, and nothing is left behind."""
    with _begun("sweep", planned.folder, "--on", "ray") as process:
        family: set[int] = set()

        def two_train() -> bool:
            family.update(_descendants(process.pid))
            return sum((cell.folder / "metrics.jsonl").exists() for cell in planned.cells) >= 2

        _wait(two_train, process)
        listening = _listening({process.pid, *family})
        assert len(listening) >= 3 and {address for _, address in listening} <= {
            "0100007F",
            "0000000000000000FFFF00000100007F",
            "00000000000000000000000001000000",
        }, listening
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert "the same command resumes" in output and "Traceback" not in output
    begun = [cell for cell in planned.cells if cell.state == "begun"]
    for cell in begun:
        logged = RunFolder.open(cell.folder).read("metrics")[-1]["step"]
        assert RunFolder.open(cell.folder).checkpoint_steps()[-1] >= logged
        assert "Saved at step" in log_of((cell,)).read_text()
    assert begun
    _wait(lambda: not _alive(family))


def _killed(planned: sweep.Sweep) -> None:
    """Processes that train, Ray's workers and a whole node are killed while the sweep goes on."""
    chance = random.Random(0)
    done: dict[int, int] = {}
    kills: list[str] = []
    with _cluster() as (address, join):
        words = ("sweep", planned.folder, "--on", "ray", "--address", address)
        with _begun(*words, **OWN_CLUSTER, RAY_AUTH_TOKEN=uuid.uuid4().hex) as stranger:
            said, _ = stranger.communicate(timeout=120)
        assert stranger.returncode == 2 and "token" in said and "Traceback" not in said, said
        with _begun(*words, **OWN_CLUSTER) as process:
            while process.poll() is None:
                time.sleep(chance.uniform(0.1, 1.0))
                for cell in planned.cells:
                    if cell.finished:  # and never touched again
                        when = (cell.folder / "metrics.jsonl").stat().st_mtime_ns
                        assert done.setdefault(cell.number, when) == when
                trains = [pid for pid, number in _training(planned) if number not in done]
                if not trains or len(kills) >= KILLS:
                    continue
                time.sleep(chance.uniform(0.0, 4.0 if TORTURE else 1.0))
                kind = ("training", "worker", "node")[len(kills) % 3]
                victim = chance.choice(trains)
                if kind == "node":
                    victim = join()
                    if TORTURE:
                        time.sleep(chance.uniform(5.0, 20.0))  # a run may have begun there
                elif kind == "worker":
                    victim = _parent(victim)
                if victim > 1 and _kill(victim):  # else it was faster
                    kills.append(kind)
            output, _ = process.communicate()
        family = _training(planned)
    assert process.returncode == 0, output
    assert len(kills) == KILLS and output.count("started again") >= 1, output
    assert not family
    assert [cell.state for cell in planned.cells] == ["complete"] * len(planned.cells)


def _undisturbed(data: Path, folder: Path) -> sweep.Sweep:
    """The same sweep without faults: here, and in the long version in processes as usual."""
    planned = sweep.create(folder, _specs(data, folder))
    if TORTURE:
        workers.train_all(planned, planned.cells, Where())
    else:
        for cell in planned.cells:
            sweep.train([cell])
    return planned


def _specs(data: Path, folder: Path) -> list[Any]:
    return specs_of(data, folder, seeds=(0, 1, 2, 3), **LONG)[:CELLS]


def _arrays(cell: sweep.Cell) -> list[bytes]:
    agent = chary.open_run(cell.folder)
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(agent.state)]


@contextmanager
def _begun(*words: object, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """The program in a process group of its own, as a shell starts it; it does not outlive the test."""
    process = subprocess.Popen(
        [sys.executable, "-m", "chary", *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
        env={**os.environ, **SECRET, **environment},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def _cluster() -> Iterator[tuple[str, Callable[[], int]]]:
    """A cluster's address, and what joins another node to it and returns the id of its raylet."""
    script = Path(__file__).with_name("ray_cluster.py")
    helper = subprocess.Popen(
        [sys.executable, script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **OWN_CLUSTER, **SECRET},
    )
    assert helper.stdin is not None and helper.stdout is not None

    def answer(key: str) -> Any:
        assert helper.stdout is not None
        return json.loads(helper.stdout.readline())[key]

    def join() -> int:
        assert helper.stdin is not None
        helper.stdin.write("\n")
        helper.stdin.flush()
        return answer("raylet")

    family: set[int] = set()
    try:
        yield answer("address"), join
        family = _descendants(helper.pid)
        helper.communicate(timeout=60)
    finally:
        helper.kill()
        helper.communicate()
    _wait(lambda: not _alive(family))


def _wait(ready: Callable[[], object], process: subprocess.Popen[str] | None = None) -> None:
    """Until it is so; a process that ends meanwhile is an error."""
    deadline = time.monotonic() + 180
    while not ready():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None, process.stdout and process.stdout.read()
        time.sleep(0.05)


def _status(pid: int) -> dict[str, str]:
    """What the system says of a process; nothing of one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    found = {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
    return {} if found["State"].startswith(("Z", "X")) else found


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def _parent(pid: int) -> int:
    return int(_status(pid).get("PPid", 0))


def _descendants(ancestor: int) -> set[int]:
    parents = {pid: _parent(pid) for pid in _processes()}
    found = {ancestor}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {ancestor}


def _alive(pids: Iterable[int]) -> list[int]:
    return [pid for pid in pids if _status(pid)]


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _training(planned: sweep.Sweep) -> list[tuple[int, int]]:
    """Processes that train a cell, and its number."""
    found: list[tuple[int, int]] = []
    for pid in _processes():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except OSError:
            continue
        if str(planned.folder) in words and "--cell" in words and _status(pid):
            found.append((pid, int(words[words.index("--cell") + 1])))
    return found


def _listening(pids: Iterable[int]) -> list[tuple[int, str]]:
    """Addresses at which processes listen, as the system writes them."""
    sockets: dict[str, str] = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                sockets[f"socket:[{words[9]}]"] = words[1].partition(":")[0]
    found: list[tuple[int, str]] = []
    for pid in pids:
        for path in Path(f"/proc/{pid}/fd").glob("*"):
            with suppress(OSError):
                if (target := os.readlink(path)) in sockets:
                    found.append((pid, sockets[target]))
    return found


def test_an_address_without_a_cluster(data: Path, tmp_path: Path) -> None:
    sweep.create(tmp_path, specs_of(data, tmp_path))
    words = ("--on", "ray", "--address", "127.0.0.1:9")
    result = run_chary("sweep", tmp_path, *words, RAY_AUTH_MODE="disabled")
    assert result.returncode == 2
    assert "chary: error: --on ray --address 127.0.0.1:9: no cluster to work on" in result.stderr
    assert "Traceback" not in result.stderr


def test_without_the_package(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sweep.create(tmp_path, specs_of(data, tmp_path))
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in OWN_CLUSTER:
        monkeypatch.setenv(name, "")  # which is undone
    assert main(["sweep", str(tmp_path), "--on", "ray"]) == 2
    assert (
        "--on ray needs another package (ray): pip install 'chary[ray]'" in capsys.readouterr().err
    )


def test_a_node_without_the_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(CharyError, match="a cluster must share it"):
        on_ray.work(str(tmp_path / "none"), [0], str(tmp_path / "log"), str(tmp_path), 1, [])


def test_workers_of_a_node_have_cores_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_ray, "cores", lambda: 4)
    monkeypatch.setattr(on_ray, "shares", lambda count, _: [[90 + i] for i in range(count)])
    with on_ray._own_cores(2) as first, on_ray._own_cores(2) as second:
        assert {*first, *second} == {90, 91}
        with on_ray._own_cores(2) as third:  # more than there are
            assert third == [90]
    with on_ray._own_cores(2) as again:
        assert again == [90]
