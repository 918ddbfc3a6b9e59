"""What a study found, read from its run folders."""

from math import ceil
from statistics import fmean
from typing import Any

import numpy as np

from chary.report.health import ACTIONS, spread
from chary.runs import RunFolder, seconds_in
from chary.statistics import bootstrap
from chary.study.plan import Job, Plan


def gather(plan: Plan) -> list[dict[str, Any]]:
    """A row for every cell, with everything known of its runs; the same runs give the same rows."""
    rows: list[dict[str, Any]] = []
    for cell in plan.cells:
        jobs = [job for job in plan.jobs if job.cell is cell]
        runs = [read_run(plan, job) for job in jobs]
        sound = [run for run in runs if not run["diverged"]]
        final = bootstrap([run["final"] for run in sound])
        late = bootstrap([run["last_third"] for run in sound])
        rows.append(
            {
                "cell": cell.name,
                "changes": cell.changes,
                **plan.critics[cell.name]._asdict(),
                **final._asdict(),
                **{f"last_third_{name}": value for name, value in late._asdict().items()},
                **{f"spread_{kind}": _mean([r["spread"][kind] for r in sound]) for kind in ACTIONS},
                "diverged": len(runs) - len(sound),
                "seconds": fmean(_seconds(job) for job in jobs),
                "runs": runs,
            }
        )
    return rows


def read_run(plan: Plan, job: Job) -> dict[str, Any]:
    """One run: its score at the end, over the last third of its evaluations, and at each of them."""
    folder = RunFolder.open(job.folder)
    evaluations = [(e["step"], e[plan.measure]) for e in folder.read("evals")]
    diverged = folder.diverged()
    late = [score for _, score in evaluations[-ceil(len(evaluations) / 3) :]]
    return {
        "seed": job.run.seed,
        "folder": job.folder.name,
        "diverged": diverged,
        "final": None if diverged else evaluations[-1][1],
        "last_third": None if diverged else fmean(late),
        "spread": dict.fromkeys(ACTIONS) if diverged else _spread(folder),
        "evaluations": [{"step": step, plan.measure: score} for step, score in evaluations],
    }


def describe_run(plan: Plan, job: Job) -> str:
    """How a run went, in a few words."""
    run = read_run(plan, job)
    if run["diverged"]:
        return f"{run['folder']}: diverged"
    late = f"{run['last_third']:.2f} over the last third"
    return f"{run['folder']}: {plan.measure} {run['final']:.2f} ({late})"


def training_seconds(plan: Plan) -> float:
    """Time that all runs together took, evaluations on the way included, as their logs have it."""
    return sum(_seconds(job) for job in plan.jobs)


def _seconds(job: Job) -> float:
    return seconds_in(RunFolder.open(job.folder).read("timing"))


def _spread(folder: RunFolder) -> dict[str, float | None]:
    """Mean over states of the members' standard deviation, at the last evaluation."""
    with np.load(folder.diagnostics()[-1], allow_pickle=False) as arrays:
        if "values_data" not in arrays:  # an algorithm without critics
            return dict.fromkeys(ACTIONS)
        values = {kind: arrays[f"values_{kind}"] for kind in ACTIONS}
    return {kind: spread(v) for kind, v in values.items()}


def _mean(numbers: list[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return fmean(known) if known else None
