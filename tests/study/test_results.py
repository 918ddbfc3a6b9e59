"""A study's rows, from run folders that nobody trained."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chary.algos.msg_config import MSGConfig
from chary.algos.size import CriticSize
from chary.execution.config import DEFAULT
from chary.report.statistics import worst_possible
from chary.runs.folder import RunFolder
from chary.study.cells import Cell
from chary.study.figure import curve, draw_study
from chary.study.page import columns, table_rows, where_data_ends
from chary.study.plan import Job, Plan
from chary.study.results import describe_run, gather, worst_of
from chary.training.run_config import RunConfig, RunSpec
from tests.synthetic import synthetic_run

STEPS = (100, 200, 300)


def evaluated(
    folder: RunFolder, measure: str, scores: list[float], sampled: list[float] | None = None
) -> None:
    """These evaluations, and no others."""
    lines: list[dict[str, Any]] = []
    for i, score in enumerate(scores):
        numbers = {"score": None, "success": None, "return": 0.0, "returns": [0.0]}
        line = {"step": STEPS[i], "episodes": 1, **numbers, measure: score}
        if sampled:
            line["sampled"] = {**numbers, measure: sampled[i]}
        lines.append(line)
    (folder.path / "evals.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))


def make_study(home: Path, measure: str, *, act: str = "mode") -> Plan:
    """Two cells in two seeds; the second cell's second run diverges after its first evaluation."""
    cells = [Cell("calm", {"alpha": 0.1}), Cell("bold", {"alpha": 0.0})]
    jobs = []
    for seed in (0, 1):
        for cell in cells:
            run = RunConfig(
                dataset="x", steps=300, seed=seed, run=home / cell.folder(seed), act=act
            )
            jobs.append(Job(cell, RunSpec("msg", MSGConfig(), run, DEFAULT, "none")))
    found: dict[str, list[float]] = {
        "calm-seed0": [1.0, 2.0, 3.0],
        "calm-seed1": [1.0, -6.0, 5.0],
        "bold-seed0": [4.0, 4.0, 8.0],
        "bold-seed1": [9.0],
    }
    for name, scores in found.items():
        folder = synthetic_run(home / name, lines=3, evaluations=3, maze=False)
        evaluated(folder, measure, scores, [s - 0.5 for s in scores] if act == "both" else None)
    RunFolder.open(home / "bold-seed1").mark_diverged(150, "critic/q has grown to 1e+10")
    return Plan(
        name="targets",
        cells=cells,
        seeds=(0, 1),
        jobs=jobs,
        preset="none",
        measure=measure,
        dataset={"name": "x", "fingerprint": "0", "transitions": 1},
        smallest_return=-2.5,
        critics={cell.name: CriticSize(4, 100) for cell in cells},
    )


def as_study(plan: Plan) -> dict[str, Any]:
    worst = worst_of(plan)
    facts = {"study": plan.name, "seeds": list(plan.seeds), "measure": plan.measure}
    more = {"dataset": plan.dataset, "steps": 300, "worst": worst}
    return {**facts, **more, "rows": gather(plan, worst)}


@pytest.mark.parametrize(
    ("measure", "smallest", "worst"),
    [
        ("success", -2.5, 0.0),
        ("score", -2.5, -6.0),  # what another run got, below a random policy's 0
        ("return", -2.5, -6.0),
        ("return", -7.5, -7.5),  # what is in the data
    ],
)
def test_a_run_that_diverged_counts_as_the_worst(
    tmp_path: Path, measure: str, smallest: float, worst: float
) -> None:
    plan = replace(make_study(tmp_path, measure), smallest_return=smallest)
    study = as_study(plan)
    calm, bold = study["rows"]
    assert study["worst"] == worst and (calm["diverged"], bold["diverged"]) == (0, 1)
    assert [run["final"] for run in bold["runs"]] == [8.0, worst]
    assert bold["mean"] == pytest.approx(np.mean([8.0, worst]))
    assert (bold["low"], bold["high"]) == (worst, 8.0)
    assert bold["last_third_mean"] == pytest.approx(np.mean([8.0, worst]))
    assert calm["mean"] == pytest.approx(4.0)
    assert bold["spread_data"] == bold["runs"][0]["spread"]["data"]  # of the one that is left
    # After it diverged it counts at every evaluation that others have.
    assert curve(study, bold) == {100: [4.0, 9.0], 200: [4.0, worst], 300: [8.0, worst]}
    assert table_rows(study)[1]["seeds"].split()[1] == "diverged"
    assert columns(study)["diverged"] == "diverged"
    draw_study(study, tmp_path / "study.png")
    assert (tmp_path / "study.png").stat().st_size > 10_000
    lines = [describe_run(plan, job) for job in plan.jobs]
    assert lines[-1] == "bold-seed1: diverged" and "8.00 (8.00 over the last" in lines[1]


def test_samples_stand_beside_the_mode(tmp_path: Path) -> None:
    plan = make_study(tmp_path, "score", act="both")
    study = as_study(plan)
    calm, bold = study["rows"]
    assert study["worst"] == -6.5  # by samples
    assert [run["sampled"] for run in calm["runs"]] == [2.5, 4.5]
    assert calm["sampled_mean"] == pytest.approx(3.5) and calm["mean"] == pytest.approx(4.0)
    assert (bold["sampled_mean"], bold["mean"]) == (pytest.approx(0.5), pytest.approx(0.75))
    assert calm["runs"][0]["evaluations"][0] == {"step": 100, "score": 1.0, "sampled": 0.5}
    assert columns(study)["sampled_seeds"] == "sampled"
    first, second = table_rows(study)
    assert first["sampled_seeds"] == "2.5 4.5" and first["sampled_interval"] == "2.5 to 4.5"
    assert second["sampled_seeds"] == "7.5 diverged"
    assert "sampled 2.50" in describe_run(plan, plan.jobs[0])
    plain = as_study(make_study(tmp_path / "plain", "score"))
    assert "sampled_seeds" not in columns(plain) and plain["rows"][0]["sampled_mean"] is None


def test_what_is_worst() -> None:
    assert worst_possible("success", [0.5], -3.0) == 0.0
    assert worst_possible("score", [4.0, 80.0], -3.0) == 0.0
    assert worst_possible("score", [-4.0, 80.0]) == -4.0
    assert worst_possible("return", [-4.0, 80.0], 3.0) == -4.0
    assert worst_possible("return", [4.0], 3.0) == 3.0
    assert worst_possible("return", [], None) is None
    assert worst_possible("length", [4.0], 3.0) is None


def test_where_the_data_ends(tmp_path: Path) -> None:
    """Members that differ by an offset everywhere, and by twice as much at random actions beyond it."""
    plan = make_study(tmp_path, "score")
    signs, shape = np.array([[1.0], [-1.0]]), np.linspace(1.0, 2.0, 50)
    offset = np.array([[3.0], [-3.0]])
    values = {
        "policy": offset + 0.0 * signs * shape,
        "data": offset + signs * shape,
        "random": offset + 2.0 * signs * (shape + 0.5),
        "perturbed": offset + signs * shape,
        "off": 2.0 * (offset + signs * shape),
    }
    for job in plan.jobs:
        arrays = {f"values_{kind}": made.astype(np.float32) for kind, made in values.items()}
        RunFolder.open(job.folder).save_diagnostics(400, arrays)
    calm, bold = gather(plan, worst_of(plan))
    assert calm["random_ratio"] == pytest.approx(7.0 / 4.5, rel=1e-5)  # 3 + 2 * 2 against 3 + 1.5
    assert calm["relative_ratio"] == pytest.approx(4.0 / 1.5, rel=1e-5)
    assert calm["auc_random"] == 1.0 and calm["auc_perturbed"] == pytest.approx(0.5)
    assert calm["off_ratio"] == pytest.approx(2.0, rel=1e-5)
    assert bold["runs"][1]["ends"] == {} and bold["off_ratio"] == calm["off_ratio"]
    table = where_data_ends([calm, bold])
    assert "| calm | 1.56 | 2.67 | 1.00 | 0.50 | 2.00 |" in table
    assert where_data_ends([{**calm, "random_ratio": None}]) == ""


def test_a_single_network_says_nothing_of_where_the_data_ends(tmp_path: Path) -> None:
    plan = make_study(tmp_path, "score")
    one = np.ones((1, 9), np.float32)
    for job in plan.jobs:
        arrays = {f"values_{kind}": one for kind in ("data", "policy", "random")}
        RunFolder.open(job.folder).save_diagnostics(400, arrays)
    rows = gather(plan, worst_of(plan))
    assert rows[0]["spread_data"] == 0.0 and rows[0]["random_ratio"] is None
    assert where_data_ends(rows) == ""
