"""Reading run folders, whole and damaged."""

import json
from pathlib import Path

import numpy as np
import pytest

from chary.errors import CharyError
from chary.report.story import read_run, read_runs, thin
from tests.synthetic import synthetic_run


def test_a_run_is_told_as_it_was_written(tmp_path: Path) -> None:
    synthetic_run(tmp_path / "a", seed=3, lines=30, evaluations=5)
    story = read_run(tmp_path / "a")
    assert (story.name, story.algorithm, story.dataset, story.seed) == ("a", "msg", "synthetic", 3)
    assert story.step == story.goal == 3_000
    assert story.metrics["step"].tolist() == [100 * i for i in range(1, 31)]
    assert story.seconds == pytest.approx(30.0) and story.speed == pytest.approx(100.0)
    assert story.last and story.last["step"] == 3_000 and story.measure == "score"
    assert story.best and story.best["score"] == max(e["score"] for e in story.evaluations)
    assert story.snapshot_steps == [600, 1200, 1800, 2400, 3000]
    steps = [step for step, _ in story.snapshots(("start_values",), most=3)]
    assert steps == [600, 1800, 3000]
    assert story.warnings == []


def test_damaged_and_foreign_files_cost_one_warning_each(tmp_path: Path) -> None:
    folder = synthetic_run(tmp_path / "a", lines=5, evaluations=3)
    path = folder.path
    with open(path / "metrics.jsonl", "ab") as log:
        log.write(b'{"step": 600, "critic/0": \n\xff\xfe\x00 not json\n')
    with open(path / "evals.jsonl", "a") as log:
        log.write(json.dumps({"step": 700, "returns": "many"}) + "\n")
    whole = (path / "diagnostics" / "333.npz").read_bytes()
    (path / "diagnostics" / "333.npz").write_bytes(whole[: len(whole) // 2])
    np.savez(path / "diagnostics" / "166.npz", start_values=np.array(["no", "numbers"]))
    (path / "diagnostics" / "holiday.jpg").write_bytes(b"\xff\xd8")
    (path / "data.json").write_text("[1, 2]")
    (path / "diverged.json").write_text('{"step": 1')
    (path / "notes.txt").write_text("mine")
    story = read_run(path)
    for _ in range(2):  # looking twice is no second warning
        assert [step for step, _ in story.snapshots(("start_values",), most=9)] == [500]
    assert len(story.metrics["step"]) == 5 and len(story.evaluations) == 3
    assert story.data == {} and story.diverged is None
    assert sorted(warning.split(":")[0] for warning in story.warnings) == [
        "data.json",
        "diagnostics/166.npz",
        "diagnostics/333.npz",
        "diverged.json",
        "evals.jsonl",
        "metrics.jsonl",
        "not from a run, skipped",
    ]
    assert "2 lines" in next(w for w in story.warnings if w.startswith("metrics"))
    assert "diagnostics/holiday.jpg" in next(w for w in story.warnings if w.startswith("not"))


@pytest.mark.parametrize("part", ["settings", "run", "dataset", "scaling", "layout"])
def test_a_config_with_a_part_missing_is_still_told(tmp_path: Path, part: str) -> None:
    from chary.report.page_data import page_data

    folder = synthetic_run(tmp_path, lines=3, evaluations=2)
    folder.write_config({key: value for key, value in folder.config.items() if key != part})
    page = page_data([read_run(tmp_path)])
    assert page["runs"][0]["algorithm"] == "msg"


def test_runs_are_found_below_folders_and_named_apart(tmp_path: Path) -> None:
    for name in ("x/a", "x/deep/b", "y/a"):
        synthetic_run(tmp_path / name, lines=1, evaluations=1, maze=False)
    (tmp_path / "x" / "other").mkdir()
    (tmp_path / "x" / "other" / "config.json").write_text('{"theirs": 1}')
    stories, problems = read_runs([tmp_path / "x", tmp_path / "y", tmp_path / "y" / "a"])
    assert [story.name for story in stories] == ["x/a", "x/deep/b", "y/a"]
    assert len(problems) == 1 and "other/config.json" in problems[0]


def test_what_holds_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CharyError, match="no such folder"):
        read_runs([tmp_path / "missing"])
    with pytest.raises(CharyError, match="no runs in this folder"):
        read_runs([tmp_path])
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CharyError, match="none of the runs can be read"):
        read_runs([tmp_path])


def test_thinning_keeps_both_ends() -> None:
    assert thin(5, 10) == [0, 1, 2, 3, 4]
    assert thin(100, 5) == [0, 25, 50, 74, 99]
    assert thin(0, 5) == []
