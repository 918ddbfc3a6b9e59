"""What a study found, read from its run folders."""

from math import ceil
from statistics import fmean
from typing import Any

from chary.evaluation.acting import resolve
from chary.report.health import ACTIONS, VALUES, Look, look
from chary.report.statistics import bootstrap, worst_possible
from chary.runs.arrays import read_arrays
from chary.runs.folder import RunFolder
from chary.runs.logs import seconds_in
from chary.study.plan import Job, Plan
from chary.tune import sweep, workers
from chary.tune.where import Where

ENDS = {
    "random_ratio": "random actions",
    "relative_ratio": "without offsets",
    "auc_random": "AUC",
    "auc_perturbed": "AUC, perturbed actions",
    "off_ratio": "states off the data",
}
"""Where members differ more than at logged actions: what is kept of it, and its headings."""


def gather(plan: Plan, worst: float) -> list[dict[str, Any]]:
    """A row for every cell, with everything known of its runs; the same runs give the same rows.

    Runs that diverged count as the worst.
    """
    rows: list[dict[str, Any]] = []
    for cell in plan.cells:
        jobs = [job for job in plan.jobs if job.cell is cell]
        runs = [read_run(plan, job, worst) for job in jobs]
        rows.append(
            {
                "cell": cell.name,
                "changes": cell.changes,
                **plan.critics[cell.name]._asdict(),
                **_estimate([run["final"] for run in runs], ""),
                **_estimate([run["last_third"] for run in runs], "last_third_"),
                **_estimate([r["sampled"] for r in runs if r["sampled"] is not None], "sampled_"),
                **{f"spread_{kind}": _mean([r["spread"][kind] for r in runs]) for kind in ACTIONS},
                **{name: _mean([run["ends"].get(name) for run in runs]) for name in ENDS},
                "diverged": sum(run["diverged"] for run in runs),
                "seconds": fmean(_seconds(job) for job in jobs),
                "runs": runs,
            }
        )
    return rows


def worst_of(plan: Plan) -> float:
    """What runs of the study that diverged count as, so that leaving them out flatters no cell."""
    lines = [line for job in plan.jobs for line in RunFolder.open(job.folder).read("evals")]
    lines += [line["sampled"] for line in lines if line.get("sampled")]
    seen = [line[plan.measure] for line in lines]
    worst = worst_possible(plan.measure, seen, plan.smallest_return)
    assert worst is not None
    return worst


def read_run(plan: Plan, job: Job, worst: float) -> dict[str, Any]:
    """One run: its score at the end, over the last third of its evaluations, and at each of them.

    One that diverged has the worst score at its end, and the evaluations from before.
    """
    folder = RunFolder.open(job.folder)
    lines = folder.read("evals")
    scores = [line[plan.measure] for line in lines]
    sampled = [line["sampled"][plan.measure] for line in lines if line.get("sampled")]
    run = {"seed": job.run.seed, "folder": job.folder.name, "diverged": folder.diverged()}
    if run["diverged"]:
        beside = resolve(job.run.act).sampled is not None
        found = {"final": worst, "last_third": worst, "sampled": worst if beside else None}
    else:
        late = scores[-ceil(len(scores) / 3) :]
        found = {
            "final": scores[-1],
            "last_third": fmean(late),
            "sampled": sampled[-1] if sampled else None,
        }
    asked = None if run["diverged"] else _last_look(folder)
    return {
        **run,
        **found,
        "spread": {kind: asked and asked.std[kind] for kind in ACTIONS},
        "ends": _ends(asked) if asked else {},
        "evaluations": [_evaluation(line, plan.measure) for line in lines],
    }


def _evaluation(line: dict[str, Any], measure: str) -> dict[str, Any]:
    sampled = {"sampled": line["sampled"][measure]} if line.get("sampled") else {}
    return {"step": line["step"], measure: line[measure], **sampled}


def _estimate(scores: list[float], prefix: str) -> dict[str, float | None]:
    return {f"{prefix}{name}": number for name, number in bootstrap(scores)._asdict().items()}


def describe_run(plan: Plan, job: Job) -> str:
    """How a run went, in a few words."""
    if RunFolder.open(job.folder).diverged():
        return f"{job.folder.name}: diverged"
    run = read_run(plan, job, worst=0.0)  # which this one is not
    sampled = "" if run["sampled"] is None else f", sampled {run['sampled']:.2f}"
    late = f"{run['last_third']:.2f} over the last third"
    return f"{run['folder']}: {plan.measure} {run['final']:.2f}{sampled} ({late})"


def training_seconds(plan: Plan) -> float:
    """Time that all runs together took, evaluations on the way included, as their logs have it."""
    return sum(_seconds(job) for job in plan.jobs)


def _seconds(job: Job) -> float:
    return seconds_in(RunFolder.open(job.folder).read("timing"))


def _last_look(folder: RunFolder) -> Look | None:
    """The ensemble at the last evaluation; None for an algorithm without critics."""
    arrays = read_arrays(folder.diagnostics()[-1], VALUES)
    return look(0, arrays, None) if arrays else None


def _ends(asked: Look) -> dict[str, float]:
    """How much more members differ off the data than on it; nothing of a single Q-function."""
    if asked.members == 1:
        return {}
    std, relative, area = asked.std, asked.relative, asked.told_apart
    found = {
        "random_ratio": _ratio(std["random"], std["data"]),
        "relative_ratio": _ratio(relative["random"], relative["data"]),
        "auc_random": area["random"],
        "auc_perturbed": area.get("perturbed"),
        "off_ratio": _ratio(std["off"], std["data"]) if "off" in std else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _ratio(there: float, here: float) -> float | None:
    return there / here if here > 0.0 else None


def _mean(numbers: list[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return fmean(known) if known else None


def train(plan: Plan, *, at_once: int | None) -> None:
    """Train what is missing of a study: a sweep of its runs, in their folder."""
    specs = [job.spec for job in plan.jobs]
    jobs = {job.folder.name: job for job in plan.jobs}
    planned = sweep.create(specs[0].folder.parent, specs)
    workers.train_all(
        planned,
        planned.named(specs),
        Where(jobs=at_once),
        describe=lambda cell: describe_run(plan, jobs[cell.folder.name]),
    )
