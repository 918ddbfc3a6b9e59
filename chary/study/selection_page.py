"""What the study of selection found, as a page, a file of numbers and a figure."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from chary.host.files import jsonable, write_whole
from chary.report.figures import as_text, save_figure
from chary.report.statistics import LEVEL
from chary.report.tables import markdown_table, write_page
from chary.study.page import facts, provenance
from chary.study.plan import Plan
from chary.study.selection import FIRST, SCORES, Ranked, summarise

COLUMNS = {
    "words": "ranked by",
    "spearman": "Spearman",
    **{f"regret{k}": f"regret@{k}" for k in FIRST},
}


def write_selection(
    plan: Plan, ranked: Sequence[Ranked], out: Path, *, seconds: float
) -> dict[str, Any]:
    """Write study-selection-<dataset>.md, .json and .png into a folder; returns what the JSON holds."""
    measure = "success" if plan.measure == "success" else "return"
    found = {
        **facts(plan, seconds),
        "episodes": plan.jobs[0].run.final_episodes,
        "measure": measure,
        "rows": summarise(ranked),
        "ranked": [_record(r) for r in ranked],
    }
    name = file_name(plan)
    page, numbers, figure = (out / f"{name}.{kind}" for kind in ("md", "json", "png"))
    write_page(
        page,
        f"Study of selection: {plan.dataset['name']}",
        table_rows(found),
        COLUMNS,
        notes=_notes(found),
        after="\n\n".join(
            [*(_candidates(r, measure) for r in ranked), f"![scores]({figure.name})"]
        ),
    )
    write_whole(numbers, json.dumps(jsonable(found), indent=1) + "\n")
    draw(ranked, figure, as_text(plan.dataset["name"]), measure)
    return found


def file_name(plan: Plan) -> str:
    """Of the page, without its ending: a page for every dataset."""
    return f"study-selection-{re.sub(r'[/:]', '-', plan.dataset['name'])}"


def table_rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows with their intervals in words."""

    def words(row: dict[str, Any], key: str) -> str | None:
        if row.get(key) is None:
            return None
        decimals = 2 if key == "spearman" or found["measure"] == "success" else 1
        number, low, high = (row.get(k) for k in (key, f"{key}_low", f"{key}_high"))
        span = "" if low is None else f" ({low:.{decimals}f} to {high:.{decimals}f})"
        return f"{number:.{decimals}f}{span}"

    keys = [key for key in COLUMNS if key != "words"]
    return [{**row, **{key: words(row, key) for key in keys}} for row in found["rows"]]


def _record(r: Ranked) -> dict[str, Any]:
    return {
        "seed": r.seed,
        "outcome": r.verdict.outcome,
        "shortlist": r.verdict.shortlist,
        "sentence": r.verdict.sentence,
        "best": r.best,
        "candidates": [
            {
                "name": row.name,
                "truth": truth,
                **{k: v for k, v in row._asdict().items() if k != "name"},
            }
            for row, truth in zip(r.verdict.rows, r.truths.tolist(), strict=True)
        ],
    }


def _candidates(r: Ranked, measure: str) -> str:
    """Every candidate in the order of `chary select`, with its truth."""
    columns = {
        "name": "candidate", "truth": measure, "rank": "true rank", "place": "place",
        "value": "FQE value", "bound": "gain, low", "outside": "outside data",
        "action_error": "action error", "own_value": "own value", "td_error": "TD error",
    }  # fmt: skip
    ranks = (r.truths[None] > r.truths[:, None]).sum(axis=1) + 1
    rows = [
        {**row._asdict(), "truth": truth, "rank": rank}
        for row, truth, rank in zip(r.verdict.rows, r.truths.tolist(), ranks.tolist(), strict=True)
    ]
    return (
        f"## Seed {r.seed}\n\n{r.verdict.sentence} In truth the best: {', '.join(r.best)}.\n\n"
        f"{markdown_table(rows, columns)}"
    )


def _notes(found: dict[str, Any]) -> list[str]:
    measure = found["measure"]
    return [
        *provenance(found),
        f"The truth is the mean {measure} of {found['episodes']} episodes at the last step, by the "
        f"mode. regret@k is how much {measure} is lost by trying only the first k. Means over "
        f"seeds, with {LEVEL:.0%} bootstrap intervals: of the correlation over candidates and "
        "episodes, of regrets over episodes.",
    ]


def draw(ranked: Sequence[Ranked], destination: Path, dataset: str, measure: str) -> None:
    """Every score against the truth: a point for each candidate."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 4, figsize=(12.0, 5.6), layout="constrained", sharey=True)
    for axis, (score, (words, _)) in zip(axes.flat, SCORES.items(), strict=False):
        for r in ranked:
            known = np.isfinite(r.scores[score])
            axis.scatter(r.scores[score][known], r.truths[known], s=22, alpha=0.75, label=r.seed)
        axis.set_title(words.replace("`", "").replace(", ", ",\n").replace(": ", ":\n"), fontsize=9)
        axis.tick_params(labelsize=7)
        axis.locator_params(axis="x", nbins=4)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel(measure, fontsize=9)
    legend = axes.flat[-1]
    legend.axis("off")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    legend.legend(handles, labels, title="seed", loc="center", frameon=False, fontsize=8)
    figure.suptitle(f"{dataset}: what each score says, and the truth", fontsize=11)
    save_figure(figure, destination)
