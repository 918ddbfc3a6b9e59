"""`chary tune`: the steps it takes, what it never does, and what it leaves behind."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chary.cli import main
from chary.data import formats
from chary.data.dataset import Dataset
from chary.training import resolve
from chary.tune import sweep, workers, workflow
from chary.tune.workflow import Pair, tune
from tests.conftest import make_columns

TINY = ["--hidden", "8", "--batch-size", "8", "--steps", "12", "--search-members", "2"]


def trained_here(_plan: Any, cells: Sequence[sweep.Cell], _where: Any) -> None:
    """Without processes of their own."""
    for cell in cells:
        if not cell.finished:
            sweep.train([cell])


@pytest.fixture
def data_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(workers, "train_all", trained_here)
    monkeypatch.setattr("chary.tune.select.LEAST_STEPS", 8)
    file = tmp_path / "data.npz"
    formats.write(Dataset.from_columns(make_columns(60), name="mine"), file)
    return file


def searched(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    worth: Any,
    budget: int = 12,
) -> workflow.Tuned:
    """A search in which no run is trained, and the worth of a pair is known."""
    monkeypatch.setattr(workers, "train_all", lambda *_: None)

    def score(cells: dict[Pair, Any], _: Pair) -> tuple[dict[Pair, float], str, Pair | None]:
        return {pair: worth(*pair) for pair in cells}, "known", None

    monkeypatch.setattr(workflow, "_by_evaluations", score)
    spec = resolve.resolve("msg", "pointmaze-umaze", "small", None, {"beta": -4.0, "alpha": 0.1})
    return tune(spec, tmp_path / "tune", budget=budget)


def test_the_papers_workflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = searched(tmp_path, monkeypatch, lambda b, a: 1 - abs(b + 1) - abs(a - 0.5))
    first, second = tuned.steps
    assert set(first.tried) == {(b, a) for b in (-4.0, -8.0) for a in (0.0, 0.1, 0.5, 1.0)}
    assert first.best == (-4.0, 0.5)
    assert second.tried == ((-2.0, 0.5), (-1.0, 0.5), (-0.5, 0.5), (0.0, 0.5))
    assert tuned.best == (-1.0, 0.5)
    assert "--beta -1 --alpha 0.5 --members 64" in tuned.command
    assert "--preset small" in tuned.command
    page = (tmp_path / "tune" / "tune.md").read_text()
    assert tuned.command in page
    assert "| -1 | 0.5 | 1 | new, **best** |" in page
    assert "With alpha 0.5: less pessimism" in page


def test_a_larger_budget_looks_between_the_alphas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned = searched(tmp_path, monkeypatch, lambda b, a: -abs(b + 1) - abs(a - 0.3), 14)
    assert tuned.steps[2].tried == ((-1.0, 0.05), (-1.0, 0.3))
    assert tuned.best == (-1.0, 0.3)


@pytest.mark.parametrize("budget", [2, 3, 5, 8])
def test_no_more_pairs_are_trained_than_the_budget_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: int
) -> None:
    tuned = searched(tmp_path, monkeypatch, lambda b, a: b - a, budget)
    tried = [pair for step in tuned.steps for pair in step.tried]
    assert len(tried) == len(set(tried)) == budget
    assert (-4.0, 0.1) in tried  # the preset's: what is chosen is never worse


def test_what_was_decided_stays_decided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = searched(tmp_path, monkeypatch, lambda b, a: -abs(b + 1) - abs(a - 0.5))
    after = searched(tmp_path, monkeypatch, lambda b, a: b + a)
    assert after == before


@pytest.mark.long
def test_without_a_simulator(data_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = data_file.parent / "tune"
    words = ["tune", "msg", "--dataset", str(data_file), "--budget", "2", "--out", str(folder)]
    assert main([*words, *TINY]) == 0
    printed = capsys.readouterr().out
    written = json.loads((folder / "tune.json").read_text())
    assert written["command"] in printed
    assert "--steps 12" in written["command"]
    assert "--holdout" not in written["command"]
    assert "by `chary select`" in written["steps"][0]["remark"]
    plan = sweep.read(folder)
    assert len(plan.cells) == 2
    assert {cell.state for cell in plan.cells} == {"complete"}
    assert all(cell.spec.run.holdout == 0.2 for cell in plan.cells)
    assert all(cell.spec.config.members == 2 for cell in plan.cells)


@pytest.mark.parametrize(
    ("outcome", "shortlist", "best"),
    [
        ("untrusted", [(-8.0, 1.0)], (-4.0, 0.1)),
        ("tied", [(-8.0, 1.0), (-4.0, 0.1)], (-4.0, 0.1)),
        ("tied", [(-8.0, 1.0), (-8.0, 0.0)], (-8.0, 1.0)),
        ("better", [(-8.0, 1.0)], (-8.0, 1.0)),
    ],
)
def test_blind_the_presets_pair_is_kept_unless_another_is_better(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    outcome: str,
    shortlist: list[Pair],
    best: Pair,
) -> None:
    monkeypatch.setattr(workers, "train_all", lambda *_: None)
    names = {f"beta{b:g}-alpha{a:g}-seed0" for b, a in shortlist}

    def select(folders: list[Path]) -> SimpleNamespace:
        first = [str(folder) for folder in folders if folder.name in names]
        rows = [
            SimpleNamespace(name=str(f), place=1.0 if "beta-8-alpha1-" in f.name else 2.0)
            for f in folders
        ]
        found = SimpleNamespace(outcome=outcome, shortlist=first, sentence="Words.", rows=rows)
        return SimpleNamespace(verdict=found)

    monkeypatch.setattr(workflow, "select", select)
    spec = resolve.resolve("msg", "pointmaze-umaze", "small", None, {"beta": -4.0, "alpha": 0.1})
    tuned = tune(spec, tmp_path / "tune", budget=12, blind=True)
    assert tuned.steps[0].best == best
    assert tuned.steps[1].tried[0] == (-2.0, best[1])
    assert ("the preset's pair is kept" in tuned.steps[0].remark) == (best == (-4.0, 0.1))
    again = tune(spec, tmp_path / "tune", budget=12, blind=True)
    assert again == tuned


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["iql", "--dataset", "pointmaze-umaze"], "chary tune is for msg"),
        (["msg", "--dataset", "pointmaze-umaze", "--budget", "1"], "--budget is 1"),
        (["msg", "--dataset", "pointmaze-umaze", "--on", "slurm"], "use local or ray"),
        (
            ["msg", "--dataset", "pointmaze-umaze", "--final-episodes", "0"],
            "nothing to score runs by; add --blind",
        ),
    ],
)
def test_wrong_input(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["tune", *words]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
