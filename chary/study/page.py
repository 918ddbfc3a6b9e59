"""A study as a page, a file of numbers and a figure."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chary.config import to_json
from chary.evaluation.acting import resolve
from chary.host.files import jsonable, write_whole
from chary.host.machine import command_line, layout, source, versions
from chary.host.terminal import duration
from chary.report.figures import LABELS
from chary.report.statistics import LEVEL
from chary.report.tables import markdown_table, write_page
from chary.study.figure import draw_study
from chary.study.results import ENDS, gather, training_seconds, worst_of

if TYPE_CHECKING:
    from chary.study.plan import Plan


def write_study(plan: "Plan", out: Path, *, seconds: float) -> dict[str, Any]:
    """Write study-<name>.md, .json and .png into a folder; returns what the JSON holds."""
    worst = worst_of(plan)
    rows = gather(plan, worst)
    run = plan.jobs[0].run
    study = {
        **facts(plan, seconds),
        "eval_episodes": run.eval_episodes,
        "final_episodes": run.final_episodes,
        "act": run.act,
        "measure": plan.measure,
        # What a run that diverged counts as.
        "worst": worst,
        # What all cells have in common; of several algorithms, each row has all of its own.
        "settings": {
            key: value
            for key, value in to_json(plan.jobs[0].spec.config).items()
            if key not in plan.cells[0].changes
        },
        "runs": str(plan.jobs[0].folder.parent),
        "rows": rows,
    }
    page, numbers, figure = (out / f"study-{plan.name}.{kind}" for kind in ("md", "json", "png"))
    write_page(
        page,
        f"Study of {plan.name}: {plan.dataset['name']}",
        table_rows(study),
        columns(study),
        notes=_notes(study),
        after=f"![{plan.name}]({figure.name})\n\n{where_data_ends(rows)}",
    )
    write_whole(numbers, json.dumps(jsonable(study), indent=1) + "\n")
    draw_study(study, figure)
    return study


def facts(plan: "Plan", seconds: float) -> dict[str, Any]:
    """What every study's file says of where its numbers come from."""
    return {
        "study": plan.name,
        "command": command_line(),
        "source": source(),
        "dataset": plan.dataset,
        "preset": plan.preset,
        "steps": plan.jobs[0].run.steps,
        "holdout": plan.jobs[0].run.holdout,
        "seeds": list(plan.seeds),
        "machine": layout(),
        "versions": versions(),
        "seconds": seconds,
        "training_seconds": training_seconds(plan),
    }


def provenance(study: dict[str, Any]) -> list[str]:
    """The facts in words: data, budget, machine and time."""
    dataset, machine = study["dataset"], study["machine"]
    listed = ", ".join(f"{name} {number}" for name, number in study["versions"].items())
    held = f"; {study['holdout']:.0%} of the episodes held out" if study["holdout"] else ""
    return [
        f"Data: {dataset['name']}, {dataset['transitions']:,} transitions, fingerprint "
        f"`{dataset['fingerprint'][:12]}`{held}. {study['steps']:,} steps, preset "
        f"{study['preset']}, seeds {', '.join(map(str, study['seeds']))}.",
        f"Machine: {machine['cpu']} ({machine['threads']} cores, {machine['device']}); {listed}. "
        f"All runs together trained for {duration(study['training_seconds'])}; this command took "
        f"{duration(study['seconds'])}.",
    ]


def columns(study: dict[str, Any]) -> dict[str, str]:
    """Keys and headings of the table."""
    seeds = " ".join(map(str, study["seeds"]))
    diverged = any(row["diverged"] for row in study["rows"])
    sampled = {
        "sampled_seeds": "sampled",
        "sampled_mean": "mean",
        "sampled_interval": f"{LEVEL:.0%} interval",
    }
    return {
        "cell": "algorithm" if study["study"] == "baselines" else study["study"],
        "members": "members",
        "parameters": "parameters",
        "seeds": f"{study['measure']}, seeds {seeds}",
        "mean": "mean",
        "interval": f"{LEVEL:.0%} interval",
        **(sampled if any(row["sampled_mean"] is not None for row in study["rows"]) else {}),
        "last_third_seeds": "last third",
        "last_third_mean": "mean",
        "last_third_interval": f"{LEVEL:.0%} interval",
        "spread": "std on data",
        **({"time": "time a run"} if study["study"] == "baselines" else {}),
        **({"diverged": "diverged"} if diverged else {}),
    }


def table_rows(study: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows with each seed and interval in words."""
    decimals = 2 if study["measure"] == "success" else 1

    def number(value: float | None) -> str:
        return "-" if value is None else f"{value:.{decimals}f}"

    def seeds(row: dict[str, Any], key: str) -> str:
        runs = row["runs"]
        return " ".join("diverged" if run["diverged"] else number(run[key]) for run in runs)

    def interval(row: dict[str, Any], prefix: str) -> str | None:
        low, high = row[f"{prefix}low"], row[f"{prefix}high"]
        return None if low is None else f"{number(low)} to {number(high)}"

    return [
        {
            **row,
            "seeds": seeds(row, "final"),
            "mean": number(row["mean"]),
            "interval": interval(row, ""),
            "sampled_seeds": seeds(row, "sampled"),
            "sampled_mean": number(row["sampled_mean"]),
            "sampled_interval": interval(row, "sampled_"),
            "last_third_seeds": seeds(row, "last_third"),
            "last_third_mean": number(row["last_third_mean"]),
            "last_third_interval": interval(row, "last_third_"),
            "spread": None if row["spread_data"] is None else f"{row['spread_data']:.3g}",
            "time": duration(row["seconds"]),
        }
        for row in study["rows"]
    ]


def where_data_ends(rows: list[dict[str, Any]]) -> str:
    """A table of how well the critics tell what is in the data from what is not."""
    asked = [row for row in rows if row["random_ratio"] is not None]
    if not asked:
        return ""
    explained = (
        "The members' standard deviation at the last step, against that at logged actions: at random "
        "actions, the same without the members' offsets (of Q_i(s, a) - Q_i(s, pi(s)), all that a "
        "policy can act on), and at states off the data. AUC is the area under the ROC curve with which "
        "it tells actions from logged ones, without offsets; 0.5 is chance. Means over seeds."
    )
    table = markdown_table(asked, {"cell": "", **ENDS})
    return f"## Where the data ends\n\n{explained}\n\n{table}"


def _notes(study: dict[str, Any]) -> list[str]:
    measure = LABELS[study["measure"]]
    notes = [
        *provenance(study),
        f"The table has each seed's {measure} at the last step ({study['final_episodes']} episodes). "
        "Single evaluations vary, so it also has the mean over the last third of a run's evaluations "
        f"(of {study['eval_episodes']} episodes each during training). Intervals are percentile "
        "bootstraps over seeds. `std on data` is the members' standard deviation on logged actions, at "
        "the last step, of runs that did not diverge.",
        _acted(study["act"]),
    ]
    if any(row["diverged"] for row in study["rows"]):
        notes.append(
            f"A diverged run counts as {study['worst']:.4g} in means and intervals, the worst possible "
            f"{measure} here (docs/studies.md); the table says diverged."
        )
    if study["study"] == "baselines":
        notes.append(
            "The budget is equal in gradient steps, warm-ups included; each algorithm has its own "
            "settings of the preset, which are in the JSON. A step costs more in some than in others: "
            "the last column is the mean time of a run, evaluations included."
        )
    return notes


def _acted(act: str) -> str:
    """How the policies of the runs acted."""
    ways = resolve(act)
    beside = (
        "; `sampled` has the same runs at the last step, from the same starts, with sampled actions"
    )
    return f"Policies act by {ways.main.words}{beside if ways.sampled else ''}."
