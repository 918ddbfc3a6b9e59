"""`chary data drift` as a user runs it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chary.data import formats
from tests.cli.test_errors import refused
from tests.conftest import call_chary
from tests.data.test_drift import make_log


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that held out a part of its data, and three new logs."""
    here = tmp_path_factory.mktemp("drift")
    formats.write(make_log(0, 75), here / "training.npz")
    formats.write(make_log(1, 10), here / "same.npz")
    formats.write(make_log(1, 30, shift=(0.0, 1.5, 0.0)), here / "moved.npz")
    formats.write(make_log(3, 10, shift=(0.0, 9.0, 0.0)), here / "new.hdf5")
    small = ["--steps", 1, "--hidden", 4, "--batch-size", 4, "--final-episodes", 0]
    command = ["train", "bc", "--dataset", here / "training.npz", "--run", here / "run", *small]
    result = call_chary(*command, "--holdout", 0.2)
    assert result.returncode == 0, result.stderr
    return here


def test_verdicts_and_exit_codes(folder: Path) -> None:
    same = call_chary("data", "drift", "run", "same.npz", "--fail-on-drift", cwd=folder)
    assert same.returncode == 0, same.stderr
    assert same.stdout.splitlines()[0] == "The new data looks like the training data."
    assert "outdoor" in same.stdout and "return per episode" in same.stdout
    moved = call_chary("data", "drift", "run", "moved.npz", "--fail-on-drift", cwd=folder)
    assert moved.returncode == 0 and "outdoor" in moved.stdout.splitlines()[0]
    assert moved.stdout.splitlines()[0].endswith("watch it.")
    new = call_chary("data", "drift", "run", "new.hdf5", cwd=folder)
    assert new.returncode == 0 and "retrain with the new logs" in new.stdout.splitlines()[0]
    assert (
        call_chary("data", "drift", "run", "new.hdf5", "--fail-on-drift", cwd=folder).returncode
        == 1
    )


def test_json_has_everything(folder: Path) -> None:
    result = call_chary("data", "drift", "run", "new.hdf5", "--json", cwd=folder)
    found = json.loads(result.stdout)
    assert found["outcome"] == "retrain" and found["reasons"]
    assert found["states"]["outside"] > 0.5
    assert found["training"]["episodes"] == 60  # the run held out fifteen
    assert found["new"] | {"episodes": 10, "transitions": 400} == found["new"]
    assert [row["name"] for row in found["rows"]][:4] == ["indoor", "outdoor", "flow", "power"]
    assert found["rows"][1]["moved"] and len(found["rows"][1]["new_quantiles"]) == 3


def test_a_dataset_stands_for_the_run_that_learned_from_it(folder: Path) -> None:
    result = call_chary("data", "drift", "training.npz", "same.npz", "--json", cwd=folder)
    found = json.loads(result.stdout)
    assert found["outcome"] == "same" and found["training"]["episodes"] == 75


def test_data_that_has_moved(folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(folder / "run", tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    config["run"]["dataset"] = str(tmp_path / "gone.npz")
    (run / "config.json").write_text(json.dumps(config))
    new = folder / "same.npz"
    message = refused("data", "drift", run, new)
    assert "no longer at" in message and "--data-file" in message
    there = ["data", "drift", run, new, "--data-file"]
    assert call_chary(*there, folder / "training.npz").returncode == 0
    assert "is not what this run learned from" in refused(*there, new)
    config["run"]["dataset"] = "in-memory"
    (run / "config.json").write_text(json.dumps(config))
    assert "dataset from memory" in refused("data", "drift", run, new)


def test_wrong_input_is_one_message(folder: Path, tmp_path: Path) -> None:
    training, new = folder / "training.npz", folder / "same.npz"
    assert "no run folder" in refused("data", "drift", tmp_path / "nowhere", new)
    assert "no run here" in refused("data", "drift", tmp_path, new)
    assert "no such file" in refused("data", "drift", training, tmp_path / "gone.npz")
    table = tmp_path / "log.csv"
    table.write_text("indoor,outdoor\n1,2\n")
    message = refused("data", "drift", training, table)
    assert "chary data import" in message and "--observations indoor outdoor flow" in message
    broken = make_log(1, 10)
    observations = broken.observations.copy()
    observations[7] = np.nan
    formats.write(replace(broken, observations=observations), tmp_path / "nan.npz")
    assert "row 7" in refused("data", "drift", training, tmp_path / "nan.npz")
