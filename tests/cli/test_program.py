"""The program as a user runs it: tiny runs, end to end."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from chary.data import formats
from chary.runs import checkpoints
from chary.training import start as training
from tests.conftest import call_chary, run_chary

TINY = {
    "msg": ["--members", 2, "--hidden", 8, 8, "--batch-size", 16, "--warmup-steps", 20],
    "bc": ["--hidden", 8, 8, "--batch-size", 16],
}


def train_command(algorithm: str, data: Path, run: Path, *more: object) -> list[str]:
    common = ["--dataset", data, "--preset", "none", "--seed", 1, "--run", run]
    return [str(a) for a in ("train", algorithm, *common, *TINY[algorithm], *more)]


def final_state(run: Path) -> list[bytes]:
    agent = training.open_run(run)
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(agent.state)]


def logged_step(metrics: Path) -> int:
    """The step of the last whole line."""
    lines = metrics.read_text().splitlines(keepends=True) if metrics.exists() else []
    return max((json.loads(line)["step"] for line in lines if line.endswith("\n")), default=0)


KILLS = int(os.environ.get("CHARY_KILLS", "2"))
"""Moments at which a run is killed; with more there is a second algorithm, too."""


def kill_and_resume(command: list[str], run: Path, steps: int, kills: int) -> list[str]:
    """Kill a run while it starts, and then while it learns, evaluates and saves; the command that is
    left to do."""
    dice = random.Random(0)
    for share in (None, *sorted(dice.uniform(0.0, 0.8) for _ in range(kills - 1))):
        process = subprocess.Popen(
            [sys.executable, "-m", "chary", *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "XLA_FLAGS": ""},
        )
        while share is not None and logged_step(run / "metrics.jsonl") < share * steps:
            assert process.poll() is None
            time.sleep(0.002)
        time.sleep(dice.uniform(0.0, 3.0 if share is None else 0.05))
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        # Killed before it had saved anything, it is simply started again.
        if any((run / "checkpoints").glob("[0-9]*")):
            command = ["resume", str(run)]
    return command


@pytest.mark.long
def test_a_run_that_acts_is_killed_and_ends_in_the_same_bits(
    maze_file: Path, tmp_path: Path
) -> None:
    options = ["--steps", 20, "--final-episodes", 0]
    trained = run_chary(*train_command("msg", maze_file, tmp_path / "p", *options), XLA_FLAGS="")
    assert trained.returncode == 0, trained.stderr
    steps = 300 * KILLS

    def command(run: Path) -> list[str]:
        options = [
            "--steps", steps, "--warmup", 50, "--log-every", 50, "--eval-every", steps // 4,
            "--eval-episodes", 1, "--final-episodes", 1, "--checkpoint-minutes", 0.002,
        ]  # fmt: skip
        return [str(a) for a in ("finetune", tmp_path / "p", "--run", run, *options)]

    whole = run_chary(*command(tmp_path / "whole"), XLA_FLAGS="")
    assert whole.returncode == 0, whole.stderr
    left = kill_and_resume(command(tmp_path / "cut"), tmp_path / "cut", steps, KILLS)
    finished = run_chary(*left, XLA_FLAGS="")
    assert finished.returncode == 0, finished.stderr
    assert final_state(tmp_path / "cut") == final_state(tmp_path / "whole")
    # Few kills are few steps, in which no episode may end.
    logs = {path.name for path in (tmp_path / "whole").glob("*.jsonl")} - {"timing.jsonl"}
    assert {"metrics.jsonl", "evals.jsonl"} <= logs
    for log in logs:
        texts = [(tmp_path / run / log).read_text() for run in ("cut", "whole")]
        assert texts[0] == texts[1], log


@pytest.mark.long
@pytest.mark.parametrize("algorithm", ["msg", "bc"] if KILLS > 2 else ["msg"])
def test_killed_at_random_moments_and_resumed_it_ends_in_the_same_bits(
    algorithm: str, maze_file: Path, tmp_path: Path
) -> None:
    """With the very programs that users run: without flags for the compiler."""
    steps = {"msg": 300, "bc": 1_600}[algorithm] * KILLS
    options = [
        "--steps", steps, "--log-every", 50, "--eval-every", steps // 4, "--eval-episodes", 1,
        "--final-episodes", 1, "--checkpoint-minutes", 0.002,
    ]  # fmt: skip
    whole = run_chary(
        *train_command(algorithm, maze_file, tmp_path / "whole", *options), XLA_FLAGS=""
    )
    assert whole.returncode == 0, whole.stderr

    command = train_command(algorithm, maze_file, tmp_path / "cut", *options)
    command = kill_and_resume(command, tmp_path / "cut", steps, KILLS)
    finished = run_chary(*command, XLA_FLAGS="")
    assert finished.returncode == 0, finished.stderr
    assert final_state(tmp_path / "cut") == final_state(tmp_path / "whole")
    for log in ("metrics", "evals"):
        texts = [(tmp_path / run / f"{log}.jsonl").read_text() for run in ("cut", "whole")]
        assert texts[0] == texts[1]
    assert len(texts[1].splitlines()) == 4


@pytest.mark.long
def test_train_eval_runs_and_resume_speak_json(maze_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "x"
    options = ["--steps", 40, "--final-episodes", 3, "--json"]
    trained = call_chary(*train_command("msg", maze_file, run, *options))
    assert trained.returncode == 0, trained.stderr
    (row,) = json.loads(trained.stdout)["rows"]
    assert (row["step"], row["steps"], row["algorithm"]) == (40, 40, "msg")

    evaluated = call_chary("eval", run, "--episodes", 4, "--json")
    (row,) = json.loads(evaluated.stdout)["rows"]
    assert len(row["returns"]) == len(row["lengths"]) == 4
    assert 0.0 <= row["success"] <= 1.0

    (row,) = json.loads(call_chary("runs", tmp_path / "runs", "--json").stdout)["rows"]
    assert row["run"] == str(run) and row["last"] is not None and row["best"] is not None
    table = call_chary("runs", tmp_path / "runs")
    assert "pointmaze" in table.stdout and table.stderr == ""

    more = call_chary("resume", run, "--steps", 60, "--json")
    assert json.loads(more.stdout)["rows"][0]["step"] == 60, more.stderr
    diagnostics = np.load(run / "diagnostics" / "60.npz", allow_pickle=False)
    assert diagnostics["start_values"].shape == (2, 3)
    assert {"values_data", "values_policy", "values_random", "map_lcb", "paths"} <= set(diagnostics)


@pytest.mark.long
def test_interrupting_saves_within_seconds_and_can_be_resumed(
    maze_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    command = train_command("bc", maze_file, run, "--steps", 10**7)
    process = subprocess.Popen(
        [sys.executable, "-m", "chary", *command], stderr=subprocess.PIPE, text=True
    )
    while not (run / "metrics.jsonl").exists():
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - began < 15
    assert process.returncode == 130
    assert f"chary resume {run}" in errors and "Traceback" not in errors
    assert checkpoints.steps(run / "checkpoints")


@pytest.mark.long
def test_a_disk_without_room_ends_in_one_message_and_loses_nothing(
    maze_file: Path, tmp_path: Path
) -> None:
    """Files may not grow past a limit: the kernel refuses the write, as on a full disk."""
    run = tmp_path / "run"
    big = ["--hidden", 256, 256, "--batch-size", 16, "--steps", 30, "--final-episodes", 0]
    words = ["train", "bc", "--dataset", maze_file, "--preset", "none", "--run", run, *big]
    process = subprocess.run(
        [
            "sh",
            "-c",
            'ulimit -f 400; exec "$@"',
            "sh",
            sys.executable,
            "-m",
            "chary",
            *map(str, words),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        # The compiler's own cache would be refused its files too.
        env={**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"},
        check=False,
    )
    assert process.returncode == 2, process.stderr
    _, message = process.stderr.splitlines()  # after what was taken for data without a name
    assert "could not be written (File too large)" in message and "chary resume" in message
    assert list((run / "checkpoints").iterdir()) == []
    resumed = call_chary("resume", run)
    assert resumed.returncode == 0, resumed.stderr


def test_data_commands(maze_file: Path, tmp_path: Path) -> None:
    listed = json.loads(call_chary("data", "list", "--json").stdout)["rows"]
    assert {row["name"] for row in listed} >= {"pointmaze-umaze", "maze2d-large"}
    shown: dict[str, Any] = json.loads(call_chary("data", "show", maze_file, "--json").stdout)
    assert shown["transitions"] == 2_000 and shown["observation_size"] == 4
    out = tmp_path / "new.npz"
    done = call_chary(
        "data", "collect", "pointmaze-medium", "--steps", 300, "--out", out, "--seed", 2, "--json"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"][0]["transitions"] == 300
    assert formats.read(out).name == "pointmaze-medium"


def test_help_names_every_setting_with_its_sentence_and_default() -> None:
    text = call_chary("train", "msg", "--help").stdout
    for option in (
        "--members",
        "--beta",
        "--alpha",
        "--targets",
        "--warmup-steps",
        "--reward-scale",
    ):
        assert option in text
    assert "Pessimism" in text and "default: 64" in text
    small = call_chary("train", "msg", "--preset", "small", "--help").stdout
    assert "default: 8)" in small
