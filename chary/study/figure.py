"""The figure of a study."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chary.report.figures import LABELS, MOST_BANDS, as_text, palette, save_figure
from chary.report.statistics import LEVEL, bootstrap_each

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DIVERGED = "x"
"""How a run that diverged is marked, at the worst score."""


def draw_study(study: dict[str, Any], destination: Path) -> None:
    """Cells side by side with their learning curves, or scores against the size of the ensemble."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 4.6), layout="constrained")
    label = LABELS[study["measure"]]
    if study["study"] == "size":
        _against_size(left, study, "final", "")
        _against_size(right, study, "last_third", "last_third_")
        left.set(title="at the last step", ylabel=label)
        right.set(title="mean of the last third of evaluations")
    else:
        _side_by_side(left, study)
        _curves(right, study)
        left.set(title="at the last step, and over the last third (hollow)", xlabel=label)
        bands = "" if len(study["rows"]) <= MOST_BANDS else " (means alone)"
        right.set(title=f"while training{bands}", xlabel="gradient steps", ylabel=label)
    right.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    for axis in (left, right):
        axis.title.set_fontsize(10)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    seeds = len(study["seeds"])
    figure.suptitle(
        f"{as_text(study['dataset']['name'])}: {study['steps']:,} steps, {seeds} "
        f"seed{'s' if seeds > 1 else ''}, mean and {LEVEL:.0%} interval",
        fontsize=11,
    )
    save_figure(figure, destination)


def _side_by_side(axis: "Axes", study: dict[str, Any]) -> None:
    """A line for each cell: a point a seed, a cross if it diverged, and the mean with its interval."""
    rows = study["rows"]
    for place, (row, colour) in enumerate(zip(rows, palette(len(rows)), strict=True)):
        for key, shift, fill in (("final", -0.14, colour), ("last_third", 0.18, "white")):
            prefix = "" if key == "final" else "last_third_"
            heights = place + shift + np.linspace(-0.05, 0.05, len(row["runs"]))
            for run, height in zip(row["runs"], heights, strict=True):
                if run["diverged"]:
                    axis.scatter(run[key], height, s=22, marker=DIVERGED, color=colour, zorder=3)
                    continue
                axis.scatter(
                    run[key], height, s=22, facecolors=fill, edgecolors=colour, alpha=0.75, zorder=3
                )
            axis.plot(
                row[f"{prefix}mean"], place + shift, "|", color="black", markersize=13, zorder=4
            )
            if row[f"{prefix}low"] is not None:
                span = [row[f"{prefix}low"], row[f"{prefix}high"]]
                axis.plot(span, [place + shift] * 2, color="black", linewidth=1.0, zorder=2)
    names = [
        row["cell"] + (f"\n({row['diverged']} diverged)" if row["diverged"] else "") for row in rows
    ]
    axis.set_yticks(range(len(rows)), names)
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.grid(axis="x", linewidth=0.4, alpha=0.6)
    if study["measure"] == "success":
        axis.set_xlim(-0.03, 1.03)


def _curves(axis: "Axes", study: dict[str, Any]) -> None:
    """Mean over seeds at each evaluation, with intervals where there are few cells."""
    rows = study["rows"]
    # Thinner and thinner: equal curves lie on each other, and each is still seen.
    widths = np.linspace(3.2, 1.2, len(rows))
    for row, colour, width in zip(rows, palette(len(rows)), widths, strict=True):
        scores = curve(study, row)
        steps = sorted(scores)
        estimates = bootstrap_each([scores[step] for step in steps])
        # Where there is no interval, NaN draws nothing.
        mean, low, high = np.array(estimates, np.float64).reshape(-1, 3).T
        axis.plot(steps, mean, "o-", color=colour, linewidth=width, markersize=3, label=row["cell"])
        if len(rows) <= MOST_BANDS:
            axis.fill_between(steps, low, high, color=colour, alpha=0.12, linewidth=0)
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.grid(linewidth=0.4, alpha=0.6)
    if study["measure"] == "success":
        axis.set_ylim(-0.03, 1.03)


def curve(study: dict[str, Any], row: dict[str, Any]) -> dict[int, list[float]]:
    """The scores of a cell's runs at every step at which the study evaluated any of it.

    A run that diverged has the worst score from then on: the mean of those left would rise.
    """
    steps = {e["step"] for row in study["rows"] for run in row["runs"] for e in run["evaluations"]}
    scores: dict[int, list[float]] = {}
    for run in row["runs"]:
        found = {each["step"]: each[study["measure"]] for each in run["evaluations"]}
        if run["diverged"]:
            last = max(found, default=0)
            found |= dict.fromkeys((step for step in steps if step > last), study["worst"])
        for step, score in found.items():
            scores.setdefault(step, []).append(score)
    return scores


def _against_size(axis: "Axes", study: dict[str, Any], key: str, prefix: str) -> None:
    """A line for each pair of beta and alpha; a single member belongs to every beta."""
    rows = study["rows"]
    mean, low, high = (f"{prefix}{name}" for name in ("mean", "low", "high"))
    betas = sorted({row["changes"]["beta"] for row in rows if row["members"] > 1}, reverse=True)
    alphas = sorted({row["changes"]["alpha"] for row in rows})
    colours = dict(zip(alphas, palette(len(alphas)), strict=True))
    sizes = sorted({row["members"] for row in rows})
    styles = dict(zip(betas or [0.0], ("-", "--", ":", "-."), strict=False))
    pairs = [(beta, alpha) for beta in betas or [0.0] for alpha in alphas]
    for index, (beta, alpha) in enumerate(pairs):
        mine = [
            row
            for row in sorted(rows, key=lambda row: row["members"])
            if row["changes"]["alpha"] == alpha
            and (row["changes"]["beta"] == beta or row["members"] == 1)
        ]
        # Beside each other, so that intervals do not hide one another.
        shift = 1.0 + 0.05 * (index - (len(pairs) - 1) / 2)
        colour, style = colours[alpha], styles.get(beta, "-")
        places = [row["members"] * shift for row in mine]
        axis.plot(places, [row[mean] for row in mine], style, color=colour, marker="o", markersize=4,
            label=f"beta {beta:g}, alpha {alpha:g}")  # fmt: skip
        for row, place in zip(mine, places, strict=True):
            if row[low] is not None:
                axis.plot([place] * 2, [row[low], row[high]], color=colour, linewidth=1.0)
            for run in row["runs"]:
                marker = DIVERGED if run["diverged"] else "o"
                axis.scatter(
                    place, run[key], s=9, marker=marker, color=colour, alpha=0.45, zorder=1
                )
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes, [str(size) for size in sizes])
    axis.minorticks_off()
    axis.set_xlabel("members N")
    axis.grid(axis="y", linewidth=0.4, alpha=0.6)
    if study["measure"] == "success":
        axis.set_ylim(-0.03, 1.03)
