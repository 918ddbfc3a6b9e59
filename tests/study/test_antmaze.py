"""The runs behind the antmaze page."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from chary import algos
from chary.cli import main
from chary.errors import CharyError
from chary.study import antmaze
from chary.study.antmaze import BUDGETS, LARGE, MAZES, TABLES, parts, preset_cell
from chary.study.estimate import estimate
from tests.conftest import call_chary


def cell(table: str, name: str, dataset: str, budget: str = "small"):
    (part,) = (p for p in parts([table], BUDGETS[budget]) if p.dataset == dataset)
    (found,) = (c for c in part.cells if c.name == name)
    return found


def test_every_cell_is_a_setting_that_its_algorithm_takes() -> None:
    for part in parts([], BUDGETS["small"]) + parts([], BUDGETS["paper"]):
        assert len({c.folder(0) for c in part.cells}) == len(part.cells)
        for each in part.cells:
            algos.entry(each.algorithm).config(**each.changes)


def test_what_the_data_decides_is_left_to_it() -> None:
    """Otherwise a run's record, which has what was decided, is not the run that is asked for again."""
    for part in parts([], BUDGETS["small"]):
        for each in part.cells:
            assert not {None, "auto"} & set(each.run_changes.values()), each.name


@pytest.mark.long
def test_the_same_command_resumes(
    maze_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after its first run it trains the second; once more, it trains nothing."""
    dataset = "pointmaze-umaze"
    shutil.copy(maze_file, tmp_path / f"{dataset}.hdf5")
    tiny: dict[str, Any] = {"hidden": (8, 8), "batch_size": 16}
    cells = [preset_cell(name, "bc", "small", dataset, **tiny) for name in ("one", "two")]
    table = antmaze.Table("Does it resume?", (dataset,), lambda *_: cells)
    monkeypatch.setattr(antmaze, "TABLES", {"tiny": table})
    budget = antmaze.Budget(1, {"umaze": 20}, 10, (0,), (0,))
    monkeypatch.setattr(antmaze, "BUDGETS", {"small": budget})
    words = [
        "reproduce",
        "antmaze",
        "--data",
        tmp_path,
        "--runs",
        tmp_path / "runs",
        "--out",
        tmp_path,
    ]
    assert call_chary(*words).returncode == 0
    home = tmp_path / "runs" / f"tiny-{dataset}"
    shutil.rmtree(home / "two-seed0")
    made = (home / "one-seed0" / "metrics.jsonl").stat().st_mtime_ns
    for _ in range(2):
        again = call_chary(*words)
        assert again.returncode == 0, again.stderr
        assert (home / "two-seed0" / "evals.jsonl").exists()
        assert (home / "one-seed0" / "metrics.jsonl").stat().st_mtime_ns == made
        assert f"study-tiny-{dataset}.md" in again.stdout


def test_scores_compare_six_mazes_with_more_seeds_on_the_large_ones() -> None:
    found = parts(["scores"], BUDGETS["small"])
    assert [p.dataset for p in found] == list(MAZES)
    assert [p.seeds for p in found] == [(0, 1)] * 4 + [(0, 1, 2)] * 2
    assert len({p.name for p in parts([], BUDGETS["small"])}) == 5 + len(TABLES)


def test_the_papers_settings_are_those_of_its_table_for_four_members_and_for_64() -> None:
    few = cell("scores", "msg-paper", LARGE).changes
    many = cell("scores", "msg-paper", LARGE, "paper").changes
    assert (few["members"], few["beta"], few["alpha"]) == (4, -4.0, 0.5)
    assert (many["members"], many["beta"], many["alpha"]) == (64, -8.0, 0.0)
    assert not few["layer_norm"] and few["cloning"] == 0.0
    assert few["warmup_steps"] == 100_000 // 6 and many["warmup_steps"] == 50_000


def test_independence_differs_in_its_targets_alone() -> None:
    (part,) = parts(["independence"], BUDGETS["small"])
    by_name = {c.name: c.changes for c in part.cells}
    for suffix in ("", "-fast"):
        reference = by_name[f"independent{suffix}"]
        for rule in ("shared-lcb", "shared-min", "shared-min-batch", "shared-mean"):
            changed = {k for k, v in by_name[f"{rule}{suffix}"].items() if v != reference[k]}
            assert changed == {"targets"} | ({"min_over"} if rule.endswith("batch") else set())


def test_a_single_critic_also_gets_four_times_the_updates() -> None:
    longer = cell("size", "n1-longer", LARGE)
    assert longer.run_changes["steps"] == 4 * BUDGETS["small"].steps["large"]
    assert longer.changes == cell("size", "n1", LARGE).changes
    assert longer.changes["beta"] == 0.0


@pytest.mark.long
def test_time_follows_the_arithmetic_of_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chary.study.estimate._speed", lambda: 1e10)
    (part,) = (p for p in parts(["size"], BUDGETS["small"]))
    whole, one_seed = estimate(part), estimate(part._replace(seeds=(0,)))
    assert whole.hours == pytest.approx(2 * one_seed.hours)
    assert whole.memory == one_seed.memory > 1.0
    shorter = part._replace(cells=[c for c in part.cells if c.name == "n1"])
    longer = part._replace(cells=[c for c in part.cells if c.name == "n1-longer"])
    assert estimate(longer).hours == pytest.approx(4 * estimate(shorter).hours)


def test_wrong_names_and_missing_data_end_in_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CharyError, match="independence"):
        parts(["independance"], BUDGETS["small"])
    assert main(["reproduce", "antmase"]) == 2
    assert "Did you mean antmaze" in capsys.readouterr().err
    assert main(["reproduce", "antmaze", "scores", "--data", str(tmp_path)]) == 2
    assert "chary data collect antmaze-umaze-v2" in capsys.readouterr().err
    assert main(["reproduce", "antmaze", "size", "--mazes", "antmaze-umaze-v2"]) == 2
    assert "leave nothing" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
