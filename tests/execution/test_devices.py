"""Many devices: on one machine, in several processes, and what is said where it cannot be."""

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import chary
from chary import algos
from chary import config as settings
from chary.algos.bc import BCConfig
from chary.algos.msg_config import MSGConfig
from chary.cli import main
from chary.data import formats
from chary.data.dataset import Dataset
from chary.errors import CharyError
from chary.execution import program as chunk
from chary.execution.config import DEFAULT, Execution
from chary.execution.processes import meeting as processes
from chary.runs import checkpoints
from chary.runs.folder import RunFolder
from chary.training import groups
from chary.training.run_config import RunConfig, RunSpec

SMALL: dict[str, Any] = {"members": 4, "hidden": (8,), "batch_size": 16, "warmup_steps": 5}


@pytest.mark.long
def test_on_two_devices() -> None:
    tests = str(Path(__file__).with_name("on_two_devices.py"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", tests],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


class Crew:
    """Two processes of the program, as a user starts them."""

    def __init__(self, *words: object):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        crew = ["--coordinator", address, "--processes", 2]
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", "chary", *map(str, [*words, *crew, "--process", process])],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for process in range(2)
        ]

    def ended(self) -> list[tuple[int, str, str]]:
        """Exit code, output and messages of both."""
        try:
            said = [process.communicate(timeout=240) for process in self.processes]
        finally:
            for process in self.processes:  # none is left behind a test that fails
                process.kill()
                process.communicate()
        return [(p.returncode, *words) for p, words in zip(self.processes, said, strict=True)]


@pytest.mark.long
def test_two_processes_are_one_run(dataset: Dataset, tmp_path: Path) -> None:
    formats.write(dataset, tmp_path / "data.npz")
    run = tmp_path / "runs" / "both"
    crew = Crew(
        "train", "msg", "--dataset", tmp_path / "data.npz", "--members", 4, "--hidden", 8,
        "--batch-size", 16, "--warmup-steps", 5, "--log-every", 10, "--steps", 20, "--json",
        "--run", run,
    )  # fmt: skip
    leader, follower = crew.ended()
    assert (leader[0], follower[0]) == (0, 0), leader[2] + follower[2]
    assert json.loads(leader[1])["rows"][0]["step"] == 20
    assert follower[1] == ""
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["both"]
    assert RunFolder.open(run).config["layout"]["processes"] == 2

    alone = chary.train(
        "msg", tmp_path / "data.npz", run=tmp_path / "alone",
        steps=40, log_every=10, eval_every=20, **SMALL,
    )  # fmt: skip
    like = chunk.initial_carry(alone.algorithm, 16, 3, 2, seed=0)
    then = checkpoints.restore(alone.folder / "checkpoints", 20, like)
    both = chary.open_run(run)
    for a, b in zip(jax.tree.leaves(both.state), jax.tree.leaves(then.state), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)

    # They go on together, and when one is asked to stop, all do.
    crew = Crew("resume", run, "--steps", 10_000_000)
    while len(RunFolder.open(run).read("metrics")) < 5:
        assert crew.processes[0].poll() is None, crew.ended()
        time.sleep(0.01)
    crew.processes[1].send_signal(signal.SIGINT)
    leader, follower = crew.ended()
    assert (leader[0], follower[0]) == (130, 130), leader[2] + follower[2]
    assert "resume with `chary resume" in leader[2] and "All processes have stopped" in follower[2]
    assert RunFolder.open(run).checkpoint_steps()[-1] >= 50
    lines = [RunFolder.open(path).read("metrics")[3] for path in (run, alone.folder)]
    assert lines[0] == pytest.approx(lines[1], rel=1e-4, abs=1e-5)


@pytest.mark.long
def test_when_one_process_ends_so_does_the_other(dataset: Dataset, tmp_path: Path) -> None:
    formats.write(dataset, tmp_path / "data.npz")
    crew = Crew("train", "bc", "--dataset", tmp_path / "data.npz", "--run", tmp_path / "run")
    leader, follower = crew.ended()
    assert (leader[0], follower[0]) == (2, 2), leader[2] + follower[2]
    assert "several processes divide the members" in leader[2]
    assert "process 0 has failed" in follower[2]
    assert "Traceback" not in leader[2] + follower[2] and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"members": 4, "devices": 3}, r"--devices is 3, .* a divisor of .* members \(4\)"),
        ({"members": 4, "devices": 0}, "--devices is 0"),
        ({"members": 8, "devices": 4, "window": 4}, r"members on a device \(2\)"),
        ({"members": 4, "window": 3}, r"--window is 3, but must be a divisor of .* members \(4\)"),
        ({"members": 4, "window": 2, "executor": "plain"}, "leave out --window"),
        ({"members": 4, "devices": 2, "ensemble": "batch"}, "--devices 2: .* share weights"),
        ({"members": 4096, "devices": 4096}, r"there (is|are) \d+ here .*device_count=4096"),
    ],
)
def test_what_cannot_be_divided(changes: dict[str, Any], words: str) -> None:
    def build() -> None:
        config, execution = settings.apply(changes, MSGConfig(), DEFAULT, source="")
        algos.build("msg", config, 3, 2, execution)

    with pytest.raises(CharyError, match=words):
        build()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("localhost:1", None, None), "need all of --coordinator"),
        ((None, 2, 0), "need all of --coordinator"),
        (("localhost", 2, 0), "must be a host and a port"),
        (("localhost:1", 2, 2), "--process is 2, but must be from 0 to 1"),
    ],
)
def test_what_processes_must_know(given: tuple[Any, Any, Any], words: str) -> None:
    with pytest.raises(CharyError, match=words), processes.joined(*given):
        pass


def test_algorithms_without_an_ensemble_to_divide(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "bc", "--dataset", "pointmaze-umaze", "--devices", "2"]) == 2
    assert "bc is trained as a whole" in capsys.readouterr().err


def test_a_run_moves_to_other_devices(tmp_path: Path) -> None:
    run = RunConfig(run=tmp_path)
    two = RunSpec("msg", MSGConfig(members=8), run, Execution(devices=2, window=4), "none")
    assert groups.moved(two, 1).execution == Execution(window=4)
    assert groups.moved(two, 4).execution == Execution(devices=4)  # windows do not fit
    with pytest.raises(CharyError, match="--devices divides ensembles; bc has none"):
        groups.moved(two._replace(algorithm="bc", config=BCConfig()), 2)
