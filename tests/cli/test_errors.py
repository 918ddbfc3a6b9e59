import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import pytest

from chary.data import formats
from chary.data.dataset import Dataset
from chary.errors import CharyError
from chary.training.start import open_run
from tests.conftest import call_chary, make_columns, run_chary
from tests.synthetic import synthetic_run

Files = dict[str, bytes]


def write_npz(path: Path, **changes: np.ndarray | None) -> Path:
    """A tiny dataset file; None leaves a column out."""
    columns: dict[str, Any] = {**make_columns(), **changes}
    np.savez(path, **{key: array for key, array in columns.items() if array is not None})
    return path


def files_below(folder: Path) -> Files:
    """Every file but the locks, which hold nothing."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def refused(*arguments: object, run: Callable[..., Any] = call_chary) -> str:
    """Run the program, which must refuse with one message, and return that message."""
    result = run(*arguments)
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.count("chary: error: ") == 1
    assert result.stderr.startswith("chary: error: ")
    assert len(result.stderr.splitlines()) == 1
    return result.stderr.removeprefix("chary: error: ").strip()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `data.npz` and `run`, a run of one step on it."""
    folder = tmp_path_factory.mktemp("finished")
    data = write_npz(folder / "data.npz")
    result = call_chary("train", "bc", "--dataset", data, "--run", folder / "run", *SMALL)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished run."""
    return shutil.copytree(finished / "run", tmp_path / "run")


SMALL = ("--steps", 1, "--hidden", 4, "--batch-size", 4)


def test_unknown_command() -> None:
    assert "unknown command 'trian'. Did you mean train or track?" in refused("trian")


def test_a_process_ends_with_the_code_of_its_command(tmp_path: Path) -> None:
    """The other tests here call the program without starting it."""
    for arguments in (["trian"], ["train", "bc", "--dataset", tmp_path / "none.npz"]):
        started, called = run_chary(*arguments), call_chary(*arguments)
        assert started.returncode == called.returncode == 2
        assert (started.stdout, started.stderr) == ("", called.stderr)


def test_unknown_algorithm(tmp_path: Path) -> None:
    message = refused("train", "mgs", "--dataset", "pointmaze-umaze", "--run", tmp_path / "run")
    assert "unknown algorithm 'mgs'. Did you mean msg?" in message
    assert not (tmp_path / "run").exists()


BAD_OPTIONS: dict[str, tuple[list[object], str]] = {
    "no steps": (["bc", "--steps", 0], "--steps is 0, but must be at least 1"),
    "optimism": (["msg", "--beta", 1], "--beta is 1.0, but must be at most 0"),
    "preset": (["msg", "--preset", "paper-antmaz"], "Did you mean paper-antmaze"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_settings_that_make_no_sense(tmp_path: Path, case: str) -> None:
    options, words = BAD_OPTIONS[case]
    data = write_npz(tmp_path / "data.npz")
    assert words in refused("train", *options, "--dataset", data, "--run", tmp_path / "run")
    assert list(files_below(tmp_path)) == ["data.npz"]
    assert not (tmp_path / "run").exists()


def test_an_unknown_option(tmp_path: Path) -> None:
    data = write_npz(tmp_path / "data.npz")
    result = call_chary(
        "train", "bc", "--dataset", data, "--run", tmp_path / "run", "--nonsense", 3
    )
    assert result.returncode == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert "--nonsense" in result.stderr
    assert not (tmp_path / "run").exists()


NAN_REWARDS = np.where(np.arange(120) == 37, np.nan, 0.0)
WILD_ACTIONS = np.where(np.arange(240).reshape(120, 2) == 23, 1.5, 0.0)


def text_as_hdf5(folder: Path) -> Path:
    (folder / "data.hdf5").write_text("observations,actions\n1,2\n")
    return folder / "data.hdf5"


BAD_DATA: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "unknown name": (
        lambda _: "pointmaze-umase",
        ["unknown dataset 'pointmaze-umase'", "Did you mean pointmaze-umaze"],
    ),
    "missing file": (lambda folder: folder / "data.npz", ["data.npz: no such file"]),
    "text as HDF5": (text_as_hdf5, ["data.hdf5: not a readable HDF5 file"]),
    "missing key": (
        lambda folder: write_npz(folder / "data.npz", rewards=None),
        ["data.npz: missing rewards"],
    ),
    "unequal lengths": (
        lambda folder: write_npz(folder / "data.npz", rewards=np.zeros(119)),
        ["data.npz: columns of unequal length", "rewards 119"],
    ),
    "NaN reward": (
        lambda folder: write_npz(folder / "data.npz", rewards=NAN_REWARDS),
        ["data.npz: rewards has NaN", "row 37"],
    ),
    "action out of bounds": (
        lambda folder: write_npz(folder / "data.npz", actions=WILD_ACTIONS),
        ["data.npz: 1 action(s) outside [-1, 1]", "row 11: [0.0, 1.5]"],
    ),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data_is_refused_before_anything_is_written(tmp_path: Path, case: str) -> None:
    make, words = BAD_DATA[case]
    data = make(tmp_path)
    before = files_below(tmp_path)
    message = refused("train", "bc", "--dataset", data, "--run", tmp_path / "run", *SMALL)
    for word in words:
        assert word in message
    assert files_below(tmp_path) == before
    assert not (tmp_path / "run").exists()


def test_data_show_refuses_alike(tmp_path: Path) -> None:
    data = write_npz(tmp_path / "data.npz", terminals=None)
    message = refused("data", "show", data)
    assert "missing terminals" in message and "write a column of False" in message


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--seed", -1, "--out", "{}/data.npz"], "--seed is -1"),
        (["--steps", 10, "--out", "{}/data.csv"], "cannot tell the format from '.csv'"),
        (["--steps", 10], "--out"),
    ],
)
def test_collecting_with_bad_options(tmp_path: Path, options: list[object], words: str) -> None:
    filled = [str(option).format(tmp_path) for option in options]
    assert words in refused("data", "collect", "pointmaze-umaze", *filled)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "Extend it with `chary resume"),
        (["--steps", 7], "--steps 7`"),
        (["--seed", 1], "with other settings (seed is 0 there, not 1)"),
    ],
)
def test_a_folder_that_holds_a_run(finished: Path, options: list[object], words: str) -> None:
    run = finished / "run"
    before = files_below(run)
    settings = [*SMALL, *options]
    message = refused("train", "bc", "--dataset", finished / "data.npz", "--run", run, *settings)
    assert f"{run}: already holds a run, at step 1" in message
    assert words in message
    assert files_below(run) == before


def test_a_folder_that_holds_other_files(tmp_path: Path) -> None:
    data = write_npz(tmp_path / "data.npz")
    assert "holds other files but no run" in refused(
        "train", "bc", "--dataset", data, "--run", tmp_path, *SMALL
    )
    assert list(files_below(tmp_path)) == ["data.npz"]


@pytest.mark.parametrize("below", ["file", "file/run"])
def test_a_run_folder_that_is_a_file(tmp_path: Path, below: str) -> None:
    data = write_npz(tmp_path / "data.npz")
    (tmp_path / "file").write_text("precious")
    message = refused("train", "bc", "--dataset", data, "--run", tmp_path / below, *SMALL)
    assert message.startswith(f"{tmp_path / below}: ")
    assert (tmp_path / "file").read_text() == "precious"


def test_resuming_a_run_in_use(run: Path) -> None:
    before = files_below(run)
    with filelock.FileLock(run / ".lock"):
        message = refused("resume", run, "--steps", 5)
    assert f"{run}: in use by another process" in message
    assert files_below(run) == before


def test_starting_a_run_in_a_folder_in_use(tmp_path: Path) -> None:
    data, run = write_npz(tmp_path / "data.npz"), tmp_path / "run"
    run.mkdir()
    with filelock.FileLock(run / ".lock"):
        message = refused("train", "bc", "--dataset", data, "--run", run, *SMALL)
    assert f"{run}: in use by another process" in message
    assert files_below(run) == {}


def test_resuming_where_there_is_no_run(tmp_path: Path) -> None:
    assert f"{tmp_path}: no run here" in refused("resume", tmp_path)
    assert os.listdir(tmp_path) == []


def test_resuming_to_fewer_steps(run: Path, tmp_path: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    config["run"]["steps"] = 100
    (run / "config.json").write_text(json.dumps(config))
    before = files_below(tmp_path)
    assert "already meant to run 100 steps" in refused("resume", run, "--steps", 5)
    assert files_below(tmp_path) == before


def test_evaluating_a_run_without_a_checkpoint(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    before = files_below(run)
    assert f"{run}: no intact checkpoint" in refused("eval", run)
    assert files_below(run) == before


def test_evaluating_with_a_negative_seed(run: Path) -> None:
    assert "--seed is -1" in refused("eval", run, "--seed", -1)


def test_a_truncated_config(run: Path) -> None:
    whole = (run / "config.json").read_bytes()
    (run / "config.json").write_bytes(whole[: len(whole) // 2])
    before = files_below(run)
    assert f"{run}/config.json: cannot be read" in refused("eval", run)
    assert files_below(run) == before


def test_a_config_of_another_shape(run: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "settings": []}))
    before = files_below(run)
    # Without the tests' own checks of types, which would notice it first.
    assert f"{run}/config.json: damaged" in refused("eval", run, run=run_chary)
    assert files_below(run) == before


def test_a_table_of_runs_with_an_incomplete_config(run: Path) -> None:
    (run / "config.json").write_text('{"algorithm": "bc"}')
    result = call_chary("runs", run, "--json")
    assert result.returncode == 0 and json.loads(result.stdout)["rows"] == []
    assert f"{run}/config.json: damaged" in result.stderr and "skipped" in result.stderr


def test_a_table_of_runs_with_log_lines_that_mean_nothing(run: Path) -> None:
    before = json.loads(call_chary("runs", run, "--json").stdout)["rows"]
    for log, line in (("evals", '{"step": 900, "score": "high"}'), ("timing", '{"step": 900}')):
        with open(run / f"{log}.jsonl", "a") as file:
            file.write(line + "\n")
    result = call_chary("runs", run, "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["rows"] == before


DAMAGED_PARTS = [
    (part, value)
    for part in ("algorithm", "settings", "run", "dataset", "scaling")
    for value in (None, [], {}, 3, "text")
    if (part, value) not in (("settings", {}), ("run", {}))  # these are all defaults
]


@pytest.mark.parametrize(("part", "value"), DAMAGED_PARTS)
def test_a_config_with_a_damaged_part(run: Path, part: str, value: object) -> None:
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, part: value}))
    with pytest.raises(CharyError):
        open_run(run)


@pytest.mark.parametrize("arguments", [["--help"], [], ["--version"]])
def test_help_does_not_wait_for_jax(arguments: list[str]) -> None:
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "chary", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0
    assert result.stdout.startswith("chary ")
    imported = {line.split("|")[-1].strip().split(".")[0] for line in result.stderr.splitlines()}
    assert "chary" in imported
    assert not imported & {"jax", "jaxlib", "numpy", "equinox", "tyro", "gymnasium", "mujoco"}


@pytest.mark.parametrize("words", [(), ("--format", "md"), ("--format", "csv")])
def test_a_report_into_a_folder(
    finished: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(finished)
    assert refused("report", "run", "--out", ".", *words).startswith(".: is a folder")


def test_a_report_of_nothing() -> None:
    assert "no run folder named" in refused("report")


def test_a_mistyped_algorithm_is_refused_before_jax_is_imported() -> None:
    code = (
        "import sys; from chary.cli import main; code = main(['train', 'mgs', '--dataset', 'x']); "
        "sys.exit(99 if 'jax' in sys.modules else code)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "unknown algorithm 'mgs'. Did you mean msg" in result.stderr


def test_a_run_says_which_code_made_it(finished: Path) -> None:
    recorded = json.loads((finished / "run" / "config.json").read_text())["source"]
    here = Path(__file__).parents[2]

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(here), *words], capture_output=True, text=True, check=True
        ).stdout.strip()

    if not (here / ".git").exists():
        assert recorded is None
    else:
        assert recorded == {
            "commit": git("rev-parse", "HEAD"),
            "clean": not git("status", "--porcelain", "--", "chary"),
        }


def test_tables_and_pages_agree_on_speed(finished: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished / "run", run)
    lines = [(10, 10.0), (30, 20.0), (40, 1.0)]  # 1 s, 1 s and 10 s
    text = "".join(
        json.dumps({"step": step, "steps_per_s": speed, "time": 0.0}) + "\n"
        for step, speed in lines
    )
    (run / "timing.jsonl").write_text(text)
    (row,) = json.loads(call_chary("runs", run, "--json").stdout)["rows"]
    page = json.loads(call_chary("report", run, "--json").stdout)
    assert row["steps_per_s"] == pytest.approx(40 / 12)
    assert page["runs"][0]["speed"] == pytest.approx(row["steps_per_s"], rel=1e-5)


@pytest.mark.parametrize("text", ['{"step": 1', "[]", '{"step": "x"}', "[" * 900 + "]" * 900])
def test_one_odd_folder_does_not_end_the_table(tmp_path: Path, text: str) -> None:
    for name in ("bad", "good"):
        synthetic_run(tmp_path / name, lines=2, evaluations=1, maze=False)
    (tmp_path / "bad" / "diverged.json").write_text(text)
    os.mkfifo(tmp_path / "bad" / "data.json.new")
    result = call_chary("runs", tmp_path, "--json")
    rows = json.loads(result.stdout)["rows"]
    assert [row["diverged"] for row in rows] == [False, False]
    assert "bad/diverged.json: cannot be read" in result.stderr


def test_names_are_printed_as_text(tmp_path: Path) -> None:
    name = os.fsdecode(b"[red]\xff\x1b[2J")
    folder = synthetic_run(tmp_path / name, lines=2, evaluations=1, maze=False)
    folder.write_config({**folder.config, "dataset": {"name": "[/x]\x1b]52;c;aGk=\x07"}})
    folder.append("evals", {**folder.read("evals")[-1], "step": 300, "act": "[/red]"})
    for words in (["runs", tmp_path], ["report", tmp_path, "--format", "md", "--out", "r.md"]):
        result = call_chary(*words, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert "\x1b" not in result.stdout + result.stderr
    assert "[red]" in (tmp_path / "r.md").read_text()


def test_sizes_that_no_machine_has_are_refused(tmp_path: Path, dataset: Dataset) -> None:
    formats.write(dataset, data_file := tmp_path / "d.npz")
    words = ["train", "bc", "--dataset", data_file, "--run", tmp_path / "run"]
    assert "below 2147483648" in refused(*words, "--steps", 99999999999999999999)
    assert "GB of memory" in refused(*words, "--hidden", 10**6, 10**6)
    assert not (tmp_path / "run").exists()
