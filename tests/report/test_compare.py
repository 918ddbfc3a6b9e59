"""Runs side by side: seeds that diverged are counted, and samples stand beside the mode."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chary.cli import main
from chary.report.follow import Follower
from chary.report.page_data import page_data
from chary.report.statistics import interquartile_mean
from chary.report.story import read_runs
from chary.runs.folder import RunFolder
from tests.synthetic import synthetic_run


def scored(folder: RunFolder, scores: list[float | None], **more: Any) -> RunFolder:
    """The run with these scores at its evaluations, and returns ten times as large."""
    found = []
    for line, score in zip(folder.read("evals"), scores, strict=False):
        score = None if score is None else float(score)
        total = 10.0 * (score or 0.0)
        found.append({**line, "score": score, "return": total, "returns": [total], **more})
    text = "".join(json.dumps(line) + "\n" for line in found)
    (folder.path / "evals.jsonl").write_text(text)
    return folder


def make_runs(home: Path, **scores: list[float | None]) -> None:
    """A run for each name, with scores at up to three evaluations; those called wild_* diverge.

    What is after the first underscore is the seed.
    """
    for name, found in scores.items():
        kind, seed = name.split("_")
        settings = {"members": 2 if kind == "other" else 4}
        folder = synthetic_run(
            home / name, seed=int(seed), lines=3, evaluations=3, maze=False, settings=settings
        )
        scored(folder, found)
        if kind == "wild":
            folder.mark_diverged(250, "critic/q is not a number before step 250.")


def lines_of(home: Path) -> dict[str, dict[str, Any]]:
    page = page_data(*read_runs([home]))
    return {group["method"]: group for group in page["groups"]} | {"page": page}


def test_a_run_that_diverged_counts_as_the_worst(tmp_path: Path) -> None:
    make_runs(
        tmp_path, good_0=[10, 20, 30], good_1=[10, 30, 50], wild_2=[40, 60], other_0=[5, 6, 7]
    )
    found = lines_of(tmp_path)
    line, page = found["msg (members 4)"], found["page"]
    assert line["seeds"] == [0, 1, 2] and line["diverged"] == 1 and line["worst"] == 0.0
    assert line["last"]["mean"] == pytest.approx(np.mean([30, 50, 0]), rel=1e-5)
    assert (line["last"]["low"], line["last"]["high"]) == (0.0, 50.0)
    # Its best was measured before it diverged.
    assert line["best"]["mean"] == pytest.approx(np.mean([30, 50, 60]), rel=1e-5)
    curve = page["learning"][page["groups"].index(line)]
    assert curve["score"]["seeds"] == [3, 3, 3]
    assert curve["score"]["mean"] == pytest.approx([20.0, 110 / 3, 80 / 3], rel=1e-5)
    assert curve["length"]["seeds"] == [3, 3, 2]  # no length is the worst
    scores = {method["name"]: method for method in page["statistics"]["methods"]}
    expected = interquartile_mean([np.array([30.0, 50.0, 0.0])])
    assert scores["msg (members 4)"]["mean"] == pytest.approx(expected.mean, rel=1e-5)
    assert scores["msg (members 4)"]["low"] == 0.0


def test_no_run_does_worse_than_one_that_diverged(tmp_path: Path) -> None:
    make_runs(tmp_path, good_0=[1, 2, 3], wild_1=[], other_0=[-4, -9, -2])
    line = lines_of(tmp_path)["msg (members 4)"]
    assert line["worst"] == -9.0
    assert line["last"]["mean"] == pytest.approx((3 - 9) / 2)
    assert line["best"]["mean"] == pytest.approx((3 - 9) / 2)  # it was never evaluated


@pytest.mark.parametrize(("data", "worst"), [(-70.0, -70.0), (900.0, 0.0), (None, 0.0)])
def test_of_returns_the_worst_is_in_the_data_or_was_seen(
    tmp_path: Path, data: float | None, worst: float
) -> None:
    make_runs(tmp_path, good_0=[None, None, None], wild_1=[])
    for name in ("good_0", "wild_1"):
        folder = RunFolder.open(tmp_path / name)
        summary = folder.data()
        summary["returns"] = {**summary["returns"], "min": data}
        folder.write_data(summary)
    line = lines_of(tmp_path)["msg"]
    assert line["measure"] == "return" and line["worst"] == worst
    assert line["last"]["mean"] == pytest.approx(worst / 2)


def test_a_method_that_always_diverged_is_there(tmp_path: Path) -> None:
    make_runs(tmp_path, wild_0=[], wild_1=[], other_0=[10, 20, 30], other_1=[10, 20, 40])
    found = lines_of(tmp_path)
    assert found["msg (members 4)"]["last"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
    compared = found["page"]["statistics"]
    assert [method["name"] for method in compared["methods"]] == [
        "msg (members 2)",
        "msg (members 4)",
    ]
    assert compared["improvement"][0][1][0] == 1.0
    out = tmp_path / "report.md"
    assert main(["report", str(tmp_path), "--format", "md", "--out", str(out)]) == 0
    text = out.read_text()
    assert (
        "| 0 1 (2 diverged) | 0 (0 to 0) |" in text and "counts as the worst possible score" in text
    )
    assert "| last | best |" in text and "sampled" not in text
    # Alone, nothing says by what it would have been measured.
    alone = page_data(*read_runs([tmp_path / "wild_0", tmp_path / "wild_1"]))
    assert alone["groups"][0]["last"]["mean"] is None and alone["statistics"] is None


def test_samples_stand_beside_the_mode(tmp_path: Path) -> None:
    make_runs(tmp_path, good_0=[10, 20, 30], good_1=[10, 30, 50], wild_2=[40], other_0=[5, 6, 7])
    for name, score in (("good_0", 25.0), ("good_1", -3.0)):
        beside = {"score": score, "success": None, "return": 10 * score, "returns": [10 * score]}
        folder = RunFolder.open(tmp_path / name)
        scores = [line["score"] for line in folder.read("evals")]
        scored(folder, scores, act="mode", sampled=beside)
    found = lines_of(tmp_path)
    line, page = found["msg (members 4)"], found["page"]
    assert line["worst"] == -3.0  # by the mode or by samples
    assert line["sampled"]["mean"] == pytest.approx((25 - 3 - 3) / 3, rel=1e-5)
    assert line["last"]["mean"] == pytest.approx((30 + 50 - 3) / 3, rel=1e-5)
    assert found["msg (members 2)"]["sampled"] is None
    runs = {run["name"]: run for run in page["runs"]}
    assert runs["good_0"]["last"]["sampled"]["score"] == 25.0
    assert runs["other_0"]["last"]["sampled"] is None and runs["other_0"]["last"]["act"] == "mode"
    out = tmp_path / "report.md"
    assert main(["report", str(tmp_path), "--format", "md", "--out", str(out)]) == 0
    text = out.read_text()
    assert "| last | sampled | best |" in text and " 6.333 (-3 to 25) |" in text
    live = Follower(tmp_path).changes(0)
    assert live is not None
    changed = {run["name"]: run for run in live["changed"]}
    assert changed["good_1"]["last"]["sampled"]["score"] == -3.0
