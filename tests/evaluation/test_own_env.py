"""Evaluating in a simulator of the user's own."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import chary
from chary.cli import main
from chary.data import formats
from chary.data.dataset import Dataset
from chary.errors import CharyError
from chary.runs.folder import RunFolder
from tests.evaluation.test_acting import ECHO, Echo, make_agent

MODULE = """
from tests.evaluation.test_acting import Echo

def make():
    return Echo()

number = 3

def broken():
    raise RuntimeError("no licence")
"""
TRAIN = [
    *("--preset", "none", "--members", "2", "--hidden", "8", "--batch-size", "8", "--steps", "4"),
    *("--warmup-steps", "1", "--log-every", "2", "--eval-every", "2", "--eval-episodes", "2"),
    *("--final-episodes", "3", "--chunk", "2"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "my_simulator.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("my_simulator", None)


@pytest.mark.usefixtures("folder")
def test_an_environment_a_function_and_a_name_give_the_same() -> None:
    agent, env = make_agent("bc"), Echo()
    expected = agent.evaluate(5).returns.tolist()
    assert agent.task is ECHO
    for given in (env, Echo, "my_simulator:make", gymnasium.wrappers.TimeLimit(Echo(), 50)):
        assert agent.evaluate(given, 5).returns.tolist() == expected
    assert agent.evaluate(env, episodes=2).successes is not None


def test_the_users_environment_stays_open() -> None:
    class Closable(Echo):
        closed = False

        def close(self) -> None:
            self.closed = True

    env = Closable()
    make_agent("bc").evaluate(env, 3)
    assert not env.closed


class Wide(Echo):
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)


class Narrow(Echo):
    action_space = gymnasium.spaces.Box(-1, 0.5, (2,), np.float32)


class Discrete(Echo):
    action_space: Any = gymnasium.spaces.Discrete(3)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Wide, r"--env Wide: its observations and actions have shapes \(\(4,\), \(2,\)\)"),
        (Narrow, r"takes actions of column 0 in \[-1, 0.5\], but the data has \[-1, 1\]"),
        (Discrete, "its actions are Discrete"),
        ("NoSuchTask-v0", "--env NoSuchTask-v0: cannot be made"),
        ("my_simulator:mak", "unknown name 'mak'. Did you mean make"),
        ("no_such_module:make", "no module 'no_such_module'"),
        ("my_simulator:number", "--env my_simulator:number: is of type int"),
        ("my_simulator:broken", "cannot be made .RuntimeError: no licence"),
        (3.5, "env is of type float"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_simulator_that_does_not_fit_is_refused(env: Any, message: str) -> None:
    with pytest.raises(CharyError, match=message):
        make_agent("bc").evaluate(env, 3)


@pytest.mark.long
def test_training_and_evaluating_from_the_command_line(
    folder: Path, dataset: Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    formats.write(dataset, folder / "tiny.npz")
    words = ["train", "msg", "--dataset", "tiny.npz", *TRAIN]
    assert main([*words, "--run", "run", "--env", "my_simulator:make"]) == 0
    evals = RunFolder.open(Path("run")).read("evals")
    assert [(line["step"], line["episodes"]) for line in evals] == [(2, 2), (4, 3)]
    assert main(["resume", "run", "--steps", "6"]) == 0
    assert RunFolder.open(Path("run")).read("evals")[-1]["step"] == 6
    assert main(["eval", "run", "--episodes", "2"]) == 0  # in the simulator that the run names
    assert main([*words, "--run", "without"]) == 0
    assert RunFolder.open(Path("without")).read("evals") == []
    capsys.readouterr()
    assert main(["eval", "without", "--episodes", "2"]) == 2
    assert "--env with a Gymnasium id or module:make" in capsys.readouterr().err
    assert main(["eval", "without", "--episodes", "2", "--env", "my_simulator:make"]) == 0


@pytest.mark.usefixtures("folder")
def test_a_run_on_data_from_memory_says_how_to_resume(
    dataset: Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: dict[str, Any] = {"hidden": (8,), "batch_size": 8, "steps": 2, "log_every": 1}
    chary.train("bc", dataset, run="run", **settings)
    assert main(["resume", "run", "--steps", "4"]) == 2
    said = capsys.readouterr().err
    assert "dataset from memory ('tiny')" in said and "chary.resume('run', dataset=dataset)" in said
    chary.resume("run", dataset=dataset, steps=4)
    assert RunFolder.open(Path("run")).checkpoint_steps()[-1] == 4
