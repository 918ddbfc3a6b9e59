"""A study as a user runs it: small, end to end, stopped in every way."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import pytest

from chary.cli import main
from chary.runs.folder import RunFolder
from chary.tune import sweep, workers
from tests.conftest import call_chary, make_columns

TINY = [
    "--preset", "none", "--hidden", 8, "--batch-size", 16, "--warmup-steps", 20, "--members", 2,
    "--log-every", 10, "--eval-every", 15, "--eval-episodes", 1, "--final-episodes", 2,
]  # fmt: skip
STEPS = 60
KILLED = [
    "study", "baselines", "--algos", "bc", "--seeds", 0, 1, "--preset", "small", "--steps", 400,
    "--log-every", 20, "--eval-every", 100, "--eval-episodes", 1, "--final-episodes", 2,
    "--checkpoint-minutes", 0.002, "--jobs", 1,
]  # fmt: skip
"""A study that takes long enough to be stopped."""


def command(data: Path, runs: Path, *more: object) -> list[str]:
    cells = ["--kinds", "independent", "shared-min", "--seeds", 0, 1, "--steps", STEPS]
    words = ["study", "targets", "--dataset", data, "--runs", runs, *cells, *TINY, *more]
    return [str(word) for word in words]


def saved(runs: Path, name: str) -> dict[str, Any]:
    return json.loads((runs / f"study-{name}.json").read_text())


def without_workers(patch: pytest.MonkeyPatch, words: list[str]) -> None:
    """Cells are trained in this process: a worker of its own for each takes seconds to start."""

    def run(_: sweep.Sweep, cells: Sequence[sweep.Cell], *__: object, **___: object) -> None:
        for cell in cells:
            if not cell.finished:
                sweep.train([cell])

    patch.setattr(workers, "train_all", run)
    patch.setattr(sys, "argv", ["chary", *words])  # which the runs record


@pytest.fixture(scope="module")
def whole(maze_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete study."""
    runs = tmp_path_factory.mktemp("whole")
    words = command(maze_file, runs)
    with pytest.MonkeyPatch.context() as patch:
        without_workers(patch, words)
        result = call_chary(*words)
    assert result.returncode == 0, result.stderr
    assert "shared-min" in result.stdout and "interval" in result.stdout
    return runs


@pytest.mark.long
def test_the_table_is_what_the_runs_say(whole: Path) -> None:
    study = saved(whole, "targets")
    assert (study["measure"], study["steps"], study["seeds"]) == ("success", STEPS, [0, 1])
    assert study["dataset"]["transitions"] == 2_000 and study["training_seconds"] > 0
    assert [row["cell"] for row in study["rows"]] == ["independent", "shared-min"]
    for row in study["rows"]:
        finals, lates = [], []
        for seed in (0, 1):
            folder = RunFolder.open(whole / f"{row['cell']}-seed{seed}")
            assert folder.config["settings"]["targets"] == row["cell"]
            assert folder.config["run"]["seed"] == seed
            assert folder.config["command"].startswith("chary study targets")
            scores = [e["success"] for e in folder.read("evals")]
            finals.append(scores[-1])
            lates.append(np.mean(scores[-2:]))  # the last third of four, rounded up
        assert [run["final"] for run in row["runs"]] == finals
        assert [run["last_third"] for run in row["runs"]] == pytest.approx(lates)
        assert row["mean"] == pytest.approx(np.mean(finals))
        assert (row["low"], row["high"]) == (min(finals), max(finals))
        assert row["last_third_mean"] == pytest.approx(np.mean(lates))
        assert row["members"] == 2 and row["parameters"] == 2 * (7 * 8 + 9)
        assert row["spread_data"] > 0 and row["diverged"] == 0


@pytest.mark.long
def test_page_figure_and_run_folders(
    whole: Path, maze_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (whole / "study-targets.md").read_text()
    assert "    chary study targets --dataset" in page and "| shared-min | 2 |" in page
    assert (whole / "study-targets.png").stat().st_size > 20_000
    assert main(["runs", str(whole), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 4
    # Once more: nothing is trained, and another folder may take the page.
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("evals.jsonl")}
    assert main(command(maze_file, whole, "--out", whole / "again", "--json")) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["rows"] == saved(whole, "targets")["rows"]
    assert printed["rows"] == saved(whole / "again", "targets")["rows"]
    assert printed["files"]["png"] == str(whole / "again" / "study-targets.png")
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.long
def test_interrupted_then_killed_it_ends_in_the_same_table(
    maze_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    words = [str(word) for word in (*KILLED, "--dataset", maze_file, "--runs")]

    def begin() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "chary", *words, str(cut)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(process: subprocess.Popen[str], pattern: str, count: int) -> None:
        while len(list(cut.glob(pattern))) < count:
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)

    process = begin()
    wait_for(process, "*/metrics.jsonl", 1)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - began < 30
    assert process.returncode == 130, errors
    assert "the same command resumes" in errors and "Traceback" not in errors
    assert len(list(cut.glob("*/config.json"))) < 2

    process = begin()
    wait_for(process, "*/diagnostics/300.npz", 1)
    process.kill()
    process.communicate()
    for lock in cut.glob("*/.lock"):  # its runs end with it, and let go of their folders
        filelock.FileLock(lock).acquire(timeout=20, poll_interval=0.02).lock.release()
    assert not (cut / "study-baselines.json").exists()

    process = begin()
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    assert "2 of 2 runs done" in errors and "Traceback" not in errors
    without_workers(monkeypatch, words)
    assert main([*words, str(whole)]) == 0
    resumed, at_once = (
        [{**row, "seconds": 0.0} for row in saved(runs, "baselines")["rows"]]
        for runs in (cut, whole)
    )
    assert resumed == at_once  # but for the time it took


@pytest.mark.long
def test_runs_that_diverge_are_counted_and_sizes_are_drawn(maze_file: Path, tmp_path: Path) -> None:
    """A weight of -1e12 makes the objective of two members senseless, and is nothing to one."""
    cells = ["--sizes", 1, 2, "--betas", -1e12, "--alphas", 0, "--seeds", 0, "--steps", 30]
    place = TINY.index("--members")
    small = [*TINY[:place], *TINY[place + 2 :]]
    words = ["study", "size", "--dataset", maze_file, "--runs", tmp_path, *cells, *small]
    first, again = (call_chary(*words) for _ in range(2))  # what diverged is not tried again
    assert first.returncode == 0 and again.returncode == 0, first.stderr + again.stderr
    single, pair = saved(tmp_path, "size")["rows"]
    assert (single["diverged"], pair["diverged"]) == (0, 1)
    assert single["mean"] is not None and single["low"] is None
    assert pair["mean"] == pair["runs"][0]["final"] == 0.0  # no success
    page = (tmp_path / "study-size.md").read_text()
    assert "diverged" in page and "A diverged run counts as 0 in means" in page
    assert (tmp_path / "study-size.png").stat().st_size > 10_000
    assert "runs done" in first.stderr and "runs done" not in again.stderr
    log = (tmp_path / "n2-beta-1e+12-alpha0-seed0.log").read_text()
    assert log.count("training diverged") == 1


@pytest.mark.long
def test_another_run_in_a_folder_is_refused_before_anything_is_trained(
    whole: Path, maze_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(whole / "shared-min-seed1", tmp_path / "shared-min-seed1")
    assert main(command(maze_file, tmp_path, "--tau", 0.5)) == 2
    message = capsys.readouterr().err
    assert f"{tmp_path / 'shared-min-seed1'}: already holds a run" in message
    assert "tau is 0.005 there, not 0.5" in message
    assert [path.name for path in tmp_path.iterdir()] == ["shared-min-seed1"]


@pytest.mark.long
def test_a_run_that_fails_is_named_and_the_others_are_kept(
    whole: Path, maze_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for run in ("independent-seed0", "independent-seed1", "shared-min-seed0"):
        shutil.copytree(whole / run, tmp_path / run)
    (tmp_path / "shared-min-seed1").mkdir()
    with filelock.FileLock(tmp_path / "shared-min-seed1" / ".lock"):
        assert main(command(maze_file, tmp_path)) == 2
    message = capsys.readouterr().err
    assert "1 of 4 runs failed; the others are kept" in message
    assert f"{tmp_path / 'shared-min-seed1'}: in use by another process" in message
    assert not (tmp_path / "study-targets.md").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            ["--kinds", "shared-mim"],
            "unknown kind of targets 'shared-mim'. Did you mean shared-min",
        ),
        (["--kinds", "double-q", "double-q"], "--kinds names double-q more than once"),
        (["--seeds"], "--seeds is empty"),
        (["--seeds", "3", "4", "3"], "--seeds names 3 more than once"),
        (["--seeds", "-1"], "--seed is -1"),
        (["--jobs", "0"], "--jobs is 0"),
        (["--final-episodes", "0"], "--final-episodes is 0"),
        (["--ensemble", "none"], "--ensemble none cannot be combined with --targets shared-min"),
    ],
)
def test_wrong_input(
    more: list[str],
    words: str,
    maze_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(command(maze_file, tmp_path / "runs", *more)) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_data_without_a_simulator_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "data.npz", allow_pickle=False, **make_columns())
    assert main(command(tmp_path / "data.npz", tmp_path / "runs")) == 2
    assert "there is no simulator for 'data'" in capsys.readouterr().err


def test_unknown_study(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "sizes"]) == 2
    assert "unknown study 'sizes'. Did you mean size?" in capsys.readouterr().err


@pytest.mark.long
def test_algorithms_are_compared_each_with_its_own_settings(
    maze_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = [
        "study", "baselines", "--dataset", maze_file, "--runs", tmp_path, "--algos", "bc", "iql",
        "--preset", "small", "--seeds", 0, "--steps", 40, "--log-every", 20, "--eval-every", 20,
        "--eval-episodes", 2, "--final-episodes", 3, "--act", "both", "--json",
    ]  # fmt: skip
    without_workers(monkeypatch, [*map(str, words)])
    assert main([*map(str, words)]) == 0
    printed = json.loads(capsys.readouterr().out)
    cloned, implicit = printed["rows"]
    assert (cloned["cell"], implicit["cell"]) == ("bc", "iql") and printed["steps"] == 40
    assert cloned["members"] is cloned["parameters"] is cloned["spread_data"] is None
    assert implicit["members"] == 2 and implicit["spread_data"] > 0 and implicit["seconds"] > 0
    assert printed["act"] == "both"
    for row in printed["rows"]:
        last = RunFolder.open(tmp_path / f"{row['cell']}-seed0").last()
        assert last is not None and len(last["sampled"]["returns"]) == 3
        assert row["sampled_mean"] == row["runs"][0]["sampled"] == last["sampled"]["success"]
        assert row["runs"][0]["final"] == last["success"]
    assert implicit["changes"]["expectile"] == 0.9 and printed["settings"] == {}
    assert RunFolder.open(tmp_path / "iql-seed0").config["algorithm"] == "iql"
    page = (tmp_path / "study-baselines.md").read_text()
    assert "| sampled | mean |" in page and "`sampled` has the same runs" in page
    assert "| algorithm | members |" in page and "| bc | - | - |" in page and "time a run" in page
    words[words.index("iql")] = "bc"
    assert main([*map(str, words)]) == 2
    assert "--algos names bc more than once" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["study", "baselines", "--help"])
    text = capsys.readouterr().out
    assert "--algos" in text and "--beta" not in text and "--reward-scale" not in text
