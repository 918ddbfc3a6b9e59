"""`chary select`: whom it compares, what it refuses, and what it leaves behind."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chary import train
from chary.cli import main
from chary.data import formats
from chary.data.dataset import Dataset
from chary.errors import CharyError
from chary.runs.folder import RunFolder
from chary.tune.bandit import Trial
from chary.tune.select import Tried, select
from tests.conftest import make_columns

TINY: dict[str, Any] = {"hidden": (8,), "batch_size": 8, "steps": 20, "final_episodes": 0}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone and an IQL of one dataset, with a fifth of its episodes held out."""
    folder = tmp_path_factory.mktemp("select")
    file = folder / "data.npz"
    formats.write(Dataset.from_columns(make_columns(60), name="mine"), file)
    for algorithm, seed in (("bc", 0), ("bc", 1), ("iql", 0)):
        run = folder / "runs" / f"{algorithm}{seed}"
        train(algorithm, file, run=run, seed=seed, holdout=0.2, **TINY)
    return folder


@pytest.mark.long
def test_it_ranks_all_runs_and_writes_the_verdict(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["select", str(sweep / "runs"), "--steps", "10", "--members", "2"]) == 0
    printed = capsys.readouterr().out
    written = json.loads((sweep / "runs" / "select.json").read_text())
    assert written["sentence"] in printed
    assert {row["name"] for row in written["rows"]} == {"bc0", "bc1", "iql0"}
    assert written["outcome"] in ("better", "tied", "untrusted")
    assert written["episodes"] == 12
    clone = next(row for row in written["rows"] if row["name"] == "bc0")
    assert clone["td_error"] is None
    assert clone["value_low"] < clone["value"] < clone["value_high"]


def test_the_same_episodes_are_held_out_in_every_seed(sweep: Path) -> None:
    configs = [RunFolder.open(sweep / "runs" / name).config for name in ("bc0", "bc1", "iql0")]
    assert len({config["held_out"]["fingerprint"] for config in configs}) == 1
    assert configs[0]["held_out"]["transitions"] == 12 * 20
    assert configs[0]["dataset"]["transitions"] == 60 * 20


def test_a_wrong_simulator_is_noticed_before_the_work(
    sweep: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("chary.tune.select.select", lambda *_, **__: pytest.fail("began"))
    words = ["select", str(sweep / "runs"), "--episodes", "3", "--env", "Nothing-v0"]
    assert main(words) == 2
    assert "Nothing" in capsys.readouterr().err


def test_what_every_policy_got_is_said() -> None:
    tried = Tried(("a", "b", "c"), Trial(((1.0, 2.0), (-5.0,), ()), 0, 0.9))
    assert tried.lines() == ["a: 2 episodes, mean return 1.5", "b: 1 episode, mean return -5"]
    assert tried.sentence.startswith("After 3 episodes a is the best of 3")


@pytest.mark.long
def test_several_discounts_are_not_compared_by_values(sweep: Path, tmp_path: Path) -> None:
    run = tmp_path / "other"
    train("iql", sweep / "data.npz", run=run, holdout=0.2, discount=0.5, **TINY)
    found = select([sweep / "runs", run], steps=10)
    assert found.verdict.outcome == "untrusted"
    assert "several discounts" in found.verdict.sentence
    assert all(row.value is None for row in found.verdict.rows)
    assert found.steps == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f, run: train("bc", f, run=run, **TINY), "learned from all episodes"),
        (lambda f, run: train("bc", f, run=run, holdout=0.4, **TINY), "held out other episodes"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(
    sweep: Path, tmp_path: Path, make: Any, message: str
) -> None:
    make(sweep / "data.npz", tmp_path / "run")
    with pytest.raises(CharyError, match=message):
        select([sweep / "runs", tmp_path / "run"])


def test_data_that_changed_is_refused(sweep: Path) -> None:
    columns = make_columns(60)
    columns["rewards"] = columns["rewards"] + np.float32(1.0)
    with pytest.raises(CharyError, match="are not those of this run"):
        select([sweep / "runs"], dataset=Dataset.from_columns(columns, name="mine"))


def test_one_run_is_no_choice(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["select", str(sweep / "runs" / "bc0")]) == 2
    assert "1 trained run(s); select needs two or more" in capsys.readouterr().err


def test_holding_out_and_validating_are_two_things() -> None:
    from chary.training import plan
    from chary.training.run_config import RunConfig

    dataset = Dataset.from_columns(make_columns(20), name="tiny")
    run = RunConfig(holdout=0.25, validation=0.2, seed=3)
    learned, validated = plan.split(dataset, run)
    allowed, kept = plan.kept_out(dataset, run)
    assert validated is not None and kept is not None
    sizes = (learned.size, validated.size, kept.size)
    assert sizes == (12 * 20, 3 * 20, 5 * 20)
    assert allowed.size == learned.size + validated.size
    rows = {part.observations.tobytes() for part in (learned, validated, kept)}
    assert len(rows) == 3
    same = plan.kept_out(dataset, RunConfig(holdout=0.25, seed=9))[1]
    assert same is not None and same.fingerprint == kept.fingerprint


def test_walks_are_held_out_whole(columns: dict[str, np.ndarray]) -> None:
    """An ant that stands at its goal has many true ends in one walk."""
    from chary.training import plan
    from chary.training.run_config import RunConfig

    observations = columns["observations"].reshape(6, 20, 3)
    observations[:, -4:] = observations[:, -4:-3]
    columns["observations"] = observations.reshape(-1, 3)
    following = np.concatenate([observations[:, 1:], observations[:, -1:]], axis=1)
    columns["next_observations"] = following.reshape(-1, 3)
    columns["terminals"][:] = False
    columns["terminals"].reshape(6, 20)[:, -4:-1] = True
    columns["timeouts"][:] = False
    columns["timeouts"].reshape(6, 20)[:, -1] = True
    dataset = Dataset.from_columns(columns, name="walks")
    assert len(dataset.walk_ends) == 6 and len(dataset.episode_ends) == 24
    learned, kept = plan.kept_out(dataset, RunConfig(holdout=0.5))
    assert kept is not None
    assert (learned.size, kept.size) == (60, 60)
