"""`chary finetune` and `chary train-online` as users call them."""

import json
from pathlib import Path

import pytest

import chary
from chary.data import formats
from chary.data.dataset import Dataset
from tests.conftest import call_chary

WALK = "tests.online.walk:make"
QUICK = [
    "--steps", 40, "--warmup", 20, "--environments", 4, "--log-every", 20, "--eval-every", 0,
    "--final-episodes", 2, "--env", WALK,
]  # fmt: skip
SMALL = ["--members", 2, "--hidden", 8, "--batch-size", 8]


@pytest.mark.long
def test_a_run_learns_on_and_then_resumes_longer(dataset: Dataset, tmp_path: Path) -> None:
    formats.write(dataset, tmp_path / "data.npz")
    chary.train(
        "msg", tmp_path / "data.npz", run=tmp_path / "p", steps=5, members=2, hidden=(8,),
        batch_size=8, final_episodes=0, warmup_steps=0,
    )  # fmt: skip
    told = call_chary("finetune", tmp_path / "p", *QUICK, "--explore", "mean", "--json")
    assert told.returncode == 0, told.stderr
    (line,) = json.loads(told.stdout)["rows"]
    assert line["step"] == 40 and line["run"].endswith("p-finetuned")
    longer = call_chary("resume", tmp_path / "p-finetuned", "--steps", 60, "--json")
    assert json.loads(longer.stdout)["rows"][0]["step"] == 60, longer.stderr
    again = call_chary("finetune", tmp_path / "p", *QUICK)
    assert again.returncode == 2 and "already holds a run" in again.stderr
    listed = call_chary("runs", tmp_path, "--json")
    assert {run["step"] for run in json.loads(listed.stdout)["rows"]} == {5, 60}


@pytest.mark.long
def test_from_nothing(tmp_path: Path) -> None:
    told = call_chary("train-online", "msg", *QUICK, *SMALL, "--run", tmp_path / "o", "--json")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["rows"][0]["step"] == 40


def test_without_a_task_or_with_one_that_is_not_there() -> None:
    without = call_chary("train-online", "msg", "--steps", 40)
    assert without.returncode == 2 and "--env is missing" in without.stderr
    unknown = call_chary("train-online", "msg", "--steps", 40, "--env", "Nowhere-v0")
    assert unknown.returncode == 2 and "Nowhere" in unknown.stderr
    assert not Path("runs").exists()
