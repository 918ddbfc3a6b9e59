"""Runs that are evaluated by samples: their logs, tables and older folders."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chary
from chary.cli import main
from chary.data.dataset import Dataset
from chary.envs import mazes
from chary.errors import CharyError
from chary.report.compare import group_runs
from chary.report.story import read_runs
from chary.runs.folder import RunFolder
from tests.conftest import make_columns
from tests.evaluation.test_acting import ECHO

TINY: dict[str, Any] = {
    "preset": "none",
    "hidden": (8,),
    "batch_size": 16,
    "steps": 40,
    "eval_every": 20,
    "eval_episodes": 2,
    "final_episodes": 4,
}


@pytest.fixture(scope="module")
def dataset() -> Iterator[Dataset]:
    """Data whose name brings the simulator with it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mazes, "find", lambda name: ECHO if name == "echo" else None)
        yield Dataset.from_columns(make_columns(), name="echo")


@pytest.fixture(scope="module")
def run(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that reports both."""
    path = tmp_path_factory.mktemp("both") / "bc"
    chary.train("bc", dataset, run=path, act="both", **TINY)
    return path


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "evals.jsonl").read_text().splitlines()]


def test_a_resumed_run_evaluates_to_the_same_bits(
    run: Path, dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = shutil.copytree(run, tmp_path / "cut")
    shutil.rmtree(cut / "checkpoints" / "40")
    chary.resume(cut, dataset=dataset)
    assert (cut / "evals.jsonl").read_text() == (run / "evals.jsonl").read_text()
    first, last = lines(run)
    assert (first["act"], last["act"]) == ("mode", "mode")
    assert len(last["returns"]) == 4 and last["returns"] != last["sampled"]["returns"]
    score = "success 0.00 (sampled 0.00), best success 0.00 (sampled 0.00)"
    assert f"step 40/40: {score}" in capsys.readouterr().err
    again = chary.open_run(run).evaluate(4, act="sample", step=40)
    assert again.returns.tolist() == last["sampled"]["returns"]


def test_tables_show_what_was_sampled(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def rows(*words: str) -> list[dict[str, Any]]:
        assert main([*words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)["rows"]

    last = lines(run)[-1]
    (row,) = rows("runs", str(run))
    assert row["last"] == last["score"] and row["last_sampled"] == last["sampled"]["score"]
    assert row["act"] == "mode"
    assert main(["runs", str(run)]) == 0
    assert " sampled " in capsys.readouterr().out
    (mode,) = rows("eval", str(run), "--episodes", "3")
    (both,) = rows("eval", str(run), "--episodes", "3", "--act", "both")
    (sample,) = rows("eval", str(run), "--episodes", "3", "--act", "sample")
    assert (mode["act"], both["act"], sample["act"]) == ("mode", "mode", "sample")
    assert both["returns"] == mode["returns"] != sample["returns"]
    assert both["sampled"]["returns"] == sample["returns"]
    (huge,) = rows("eval", str(run), "--episodes", "3", "--act", "sample", "--seed", str(2**31 - 1))
    assert huge["returns"] != sample["returns"]
    assert main(["eval", str(run), "--episodes", "3", "--act", "both"]) == 0
    table = capsys.readouterr().out
    assert " mode " in table and " sampled " in table
    assert main(["eval", str(run), "--act", "median"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_run_by_samples_says_so(
    dataset: Dataset, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chary.train("bc", dataset, run=tmp_path / "s", act="sample", **TINY)
    assert "success 0.00 (sample), best" in capsys.readouterr().err
    for mine, theirs in zip(lines(tmp_path / "s"), lines(run), strict=True):
        assert mine["act"] == "sample" and "sampled" not in mine
        assert mine["returns"] == theirs["sampled"]["returns"]
    assert main(["runs", str(tmp_path)]) == 0
    assert " sample " in capsys.readouterr().out
    # What was measured in another way is another line of a report.
    groups = group_runs(read_runs([run, tmp_path / "s"])[0])
    assert [group.method for group in groups] == ["bc (act mode)", "bc (act sample)"]


@pytest.mark.long
def test_diagnostics_value_the_actions_that_were_taken(dataset: Dataset, tmp_path: Path) -> None:
    settings = {**TINY, "members": 2, "warmup_steps": 5}
    agent = chary.train("msg", dataset, run=tmp_path / "run", act="sample", **settings)
    result = agent.evaluate(4, act="sample", step=40)
    with np.load(tmp_path / "run" / "diagnostics" / "40.npz", allow_pickle=False) as arrays:
        values = agent.uncertainty(result.starts, result.first_actions).members
        np.testing.assert_array_equal(arrays["start_values"], values)
        assert (values != agent.uncertainty(result.starts, agent.act(result.starts)).members).any()


def test_older_runs_are_by_the_mode(run: Path, dataset: Dataset, tmp_path: Path) -> None:
    old, same = (shutil.copytree(run, tmp_path / name) for name in ("old", "same"))
    folder = RunFolder.open(old)
    config = {**folder.config, "run": {**folder.config["run"]}}
    del config["run"]["act"]
    folder.write_config(config)
    before = [
        {key: value for key, value in line.items() if key not in ("act", "sampled")}
        for line in lines(run)
    ]
    (old / "evals.jsonl").write_text("".join(json.dumps(line) + "\n" for line in before))
    shutil.rmtree(old / "checkpoints" / "40")
    chary.resume(old, dataset=dataset)
    first, last = lines(old)
    assert first == before[0] and last == {**before[1], "act": "mode"}
    # The same command is refused only where it asks for another way.
    chary.train("bc", dataset, run=old, resume=True, **TINY)
    with pytest.raises(CharyError, match="act is mode there, not both"):
        chary.train("bc", dataset, run=old, resume=True, act="both", **TINY)
    (group,) = group_runs(read_runs([old, same])[0])
    assert group.method == "bc" and len(group.runs) == 2


def test_tensorboard_has_both(dataset: Dataset, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    chary.train("bc", dataset, run=tmp_path / "run", act="both", track=("tensorboard",), **TINY)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    found = [event.value for event in events.Scalars("eval/sampled/return")]
    assert found == pytest.approx([line["sampled"]["return"] for line in lines(tmp_path / "run")])
