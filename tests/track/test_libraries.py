"""W&B and MLflow themselves: a run that is stopped and resumed is there once, whole, and here."""

import json
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import chary
from chary.cli import main
from chary.data.dataset import Dataset
from chary.runs.folder import RunFolder
from chary.track.following import numbers

pytestmark = [
    pytest.mark.long,  # to import these packages takes seconds
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of theirs
]
QUICK: dict[str, Any] = {"hidden": (8,), "batch_size": 16, "log_every": 5, "final_episodes": 0}


@pytest.fixture(autouse=True)
def _nobody_has_chosen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = dict(os.environ)
    for name in ("WANDB_MODE", "WANDB_DIR", "WANDB_PROJECT", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]


@pytest.fixture
def run(dataset: Dataset, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A run of 20 steps that went back from 15 to 10 as it was resumed, then was extended."""
    path = tmp_path / "runs" / "x"
    chary.train("bc", dataset, run=path, steps=10, track=(request.param,), **QUICK)
    RunFolder.open(path).append("metrics", {"step": 15, "policy/log_likelihood": 9.0})
    chary.resume(path, dataset=dataset, steps=20)
    return path


def logged(run: Path, name: str) -> dict[int, float]:
    lines = RunFolder.open(run).read("metrics")
    return {line["step"]: numbers("metrics", line)[name] for line in lines}


def records_of_wandb(place: Path) -> Iterator[Any]:
    """What is in the only offline run of a folder: a log like LevelDB's, of one block at this size."""
    import wandb

    messages: Any = import_module("wandb.proto.wandb_internal_pb2")
    wandb.teardown()  # its own process writes the end of the file when it likes
    (file,) = place.glob("wandb/offline-run-*/*.wandb")
    data, at = file.read_bytes(), 7  # after the file's own header
    assert data[:4] == b":W&B" and len(data) < 2**15
    while at < len(data):
        length = int.from_bytes(data[at + 4 : at + 6], "little")  # after a checksum
        record = messages.Record()
        record.ParseFromString(data[at + 7 : at + 7 + length])
        yield record
        at += 7 + length


def items(those: Any) -> dict[str, Any]:
    return {"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in those}


def rows_of_wandb(place: Path) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any]]:
    """The history, the settings and the summary."""
    found = [*records_of_wandb(place)]
    rows = [items(r.history.item) for r in found if r.HasField("history")]
    config = [items(r.run.config.update) for r in found if r.HasField("run")]
    summary = [items(r.summary.update) for r in found if r.HasField("summary")]
    return rows, config[0], {k: v for update in summary for k, v in update.items()}


@pytest.mark.parametrize("run", ["wandb"], indirect=True)
def test_wandb_offline(run: Path, tmp_path: Path) -> None:
    rows, config, summary = rows_of_wandb(run.parent)
    name = "policy/log_likelihood"
    assert {row["_step"]: row[name] for row in rows} == logged(run, name)
    assert [row["_step"] for row in rows] == [5, 10, 15, 20]
    times = [line["time"] for line in RunFolder.open(run).read("timing")]
    assert [row["_timestamp"] for row in rows] == pytest.approx(times)
    assert config["settings"]["hidden"] == [8] and config["algorithm"] == "bc"
    assert summary["status"] == "finished"
    # The same afterwards, elsewhere, and again: still one run.
    for _ in range(2):
        assert main(["track", str(run), "--to", "wandb", "--where", str(tmp_path / "w")]) == 0
    again = rows_of_wandb(tmp_path / "w")[0]
    assert [{**row, "_runtime": 0} for row in again] == [{**row, "_runtime": 0} for row in rows]


@pytest.mark.parametrize("run", ["mlflow"], indirect=True)
def test_mlflow_in_a_local_store(run: Path, tmp_path: Path) -> None:
    from mlflow.tracking import MlflowClient

    name = "policy/log_likelihood"
    assert main(["track", str(run), "--to", "mlflow", "--where", str(run.parent)]) == 0
    assert main(["track", str(run), "--to", "mlflow", "--where", str(tmp_path / "m")]) == 0
    for place in (run.parent, tmp_path / "m"):
        client = MlflowClient(f"sqlite:///{place}/mlflow.db")
        experiment = client.get_experiment_by_name("runs")
        assert experiment is not None
        (found,) = client.search_runs([experiment.experiment_id])
        history = client.get_metric_history(found.info.run_id, name)
        assert {metric.step: metric.value for metric in history} == logged(run, name)
        assert len(history) == 4
        assert found.info.run_name == "x" and found.info.status == "FINISHED"
        assert found.data.params["settings.hidden"] == "[8]"
    assert not list(Path.cwd().glob("mlruns"))
