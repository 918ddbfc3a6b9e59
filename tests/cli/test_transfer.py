"""From a user's table to a trained policy and back, as a user does it."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chary import cli
from chary.data import formats
from chary.data.collect.mazes import Job, collect_block
from chary.data.columns import COLUMNS
from chary.data.dataset import Dataset
from chary.training.start import open_run

Chary = Callable[..., tuple[int, str, str]]
NAMED = ["--observations", "s_*", "--actions", "u", "--reward", "r", "--episode", "id"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of ten episodes; the action lies between -3 and 3."""
    rng = np.random.default_rng(0)
    lines = ["id,s_1,s_2,u,r,fault,remark"]
    for episode in range(10):
        for step in range(12):
            numbers = ",".join(f"{n:.4f}" for n in (*rng.normal(size=2), rng.uniform(-3, 3), 1.0))
            lines.append(f"e{episode},{numbers},{step == 11 and episode % 2 == 0},fine")
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def chary(capsys: pytest.CaptureFixture[str]) -> Chary:
    """The program in this process, which saves starting another: exit code, output and errors."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = cli.main([str(argument) for argument in arguments])
        output, errors = capsys.readouterr()
        return code, output, errors

    return run


def refused(result: tuple[int, str, str]) -> str:
    code, _, errors = result
    assert code == 2, errors
    lines = [line for line in errors.splitlines() if line.startswith("chary: error: ")]
    assert len(lines) == 1 and "Traceback" not in errors
    return lines[0]


@pytest.mark.long
def test_from_a_table_to_a_policy(log: Path, tmp_path: Path, chary: Chary) -> None:
    out = tmp_path / "log.npz"
    bounds = ["--action-low", -3, "--action-high", 3]
    code, printed, errors = chary(
        "data", "import", log, "--out", out, *NAMED, "--terminal", "fault", *bounds, "--json"
    )
    assert code == 0, errors
    assert "--observations takes s_1, s_2\n" in errors
    (row,) = json.loads(printed)["rows"]
    # Five episodes truly end; the others lose the row whose successor is not known.
    assert (row["file"], row["episodes"], row["transitions"]) == (str(out), 10, 115)
    dataset = formats.read(out)
    assert dataset.metadata["imported_from"] == "log.csv"
    assert (dataset.observation_names, dataset.action_names) == (("s_1", "s_2"), ("u",))
    assert dataset.action_low.tolist() == [-3.0]

    run = tmp_path / "run"
    tiny = ["--members", 2, "--hidden", 8, "--batch-size", 16, "--warmup-steps", 5, "--steps", 20]
    command = ["train", "msg", "--dataset", out, "--run", run, *tiny]
    code, _, errors = chary(*command)
    assert code == 0, errors
    agent = open_run(run)
    assert agent.task is None
    actions = agent.act(dataset.observations[:4])
    assert actions.shape == (4, 1) and (np.abs(actions) <= 3).all()


def test_bounds_that_are_not_known_stop_the_import(log: Path, tmp_path: Path, chary: Chary) -> None:
    message = refused(chary("data", "import", log, "--out", tmp_path / "log.npz", *NAMED))
    assert "--action-low" in message and "--action-high data" in message
    assert not (tmp_path / "log.npz").exists()


def test_of_a_misspelt_column_only_the_problem_is_said(log: Path, chary: Chary) -> None:
    wrong = [word if word != "u" else "uu" for word in NAMED]
    assert wrong != NAMED
    result = chary("data", "import", log, "--out", "x.npz", *wrong)
    refused(result)
    assert "takes \n" not in result[2] and "--observations takes s_1" in result[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["import", "--out", "x.npz", *NAMED], "name at least one file"),
        (["import", "LOG", "--out", "x.csv", *NAMED], "cannot tell the format from '.csv'"),
        (["import", "LOG", "--out", "LOG", *NAMED], "is one of the tables"),
        (["show", "LOG"], "chary data import"),
        (["export", "LOG"], "say where the dataset should go"),
        (["export", "LOG", "--to", "minari"], "needs --id"),
        (["export", "LOG", "--out", "x.txt"], "cannot write '.txt'"),
    ],
)
def test_what_is_asked_wrongly_is_said(
    log: Path, chary: Chary, arguments: list[Any], words: str
) -> None:
    given = (log if argument == "LOG" else argument for argument in arguments)
    assert words in refused(chary("data", *given))


@pytest.fixture
def maze_file(tmp_path: Path) -> Path:
    columns = collect_block(Job("pointmaze-umaze", 300, seed=0, block=0))
    path = tmp_path / "maze.npz"
    formats.write(Dataset.from_columns(columns, name="pointmaze-umaze"), path)
    return path


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".hdf5"])
def test_an_exported_file_is_read_back(
    maze_file: Path, tmp_path: Path, chary: Chary, ending: str
) -> None:
    out = tmp_path / f"it's maze{ending}"
    code, printed, errors = chary("data", "export", maze_file, "--out", out, "--json")
    assert code == 0, errors
    assert json.loads(printed)["rows"][0]["transitions"] == 300
    if ending != ".hdf5":
        # The program says how to read a table again.
        command = shlex.split(errors.partition("to read it again: ")[2].strip())
        out = tmp_path / "back.npz"
        command[command.index("--out") + 1] = str(out)
        code, _, errors = chary(*command[1:])
        assert code == 0, errors
    first, second = formats.read(maze_file), formats.read(out)
    assert second.name == "pointmaze-umaze"
    for column in (*COLUMNS, "action_low", "action_high"):
        np.testing.assert_array_equal(getattr(second, column), getattr(first, column), strict=True)


def test_to_minari_and_back(
    maze_file: Path, tmp_path: Path, chary: Chary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    code, _, errors = chary("data", "export", maze_file, "--to", "minari", "--id", "mine/maze-v0")
    assert code == 0, errors
    code, printed, errors = chary("data", "show", "minari:mine/maze-v0", "--json")
    assert code == 0, errors
    facts = json.loads(printed)
    assert facts["fingerprint"] == formats.read(maze_file).fingerprint
    assert (facts["name"], facts["transitions"]) == ("minari:mine/maze-v0", 300)
