"""Figures of the theory laboratory."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from chary.report.figures import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from chary.theory.chain import ChainCurve
    from chary.theory.linear import LinearResult
    from chary.theory.width import WidthResult

SHARED, INDEPENDENT, EDGE = "#c44e52", "#31688e", "0.35"
WIDTH_COLOURS = {"ntk": INDEPENDENT, "maximal-update": "#55a868"}
NAMES = {
    "independent": "Independent",
    "double-q": "Independent double-Q",
    "shared-mean": "Shared mean",
    "shared-lcb": "Shared LCB",
    "shared-min": "Shared min",
    "ntk": "NTK",
    "maximal-update": "Maximal update",
}


# ---- linear models ---------------------------------------------------------------------------------


def draw_linear(result: "LinearResult", destination: Path, *, settings: str) -> None:
    """Which runs contract, the largest bonus in each, and one run where the bound is optimistic."""
    figure, axes = _canvas(1, 3, (12.5, 4.3))
    contraction, bonuses, example = axes[0]
    contraction.hist(result.contraction, bins=40, color="0.6")
    contraction.axvline(1.0, color="black", linewidth=1.0)
    drawn, kept = len(result.contraction), len(result.shared)
    contraction.set_title(f"{kept} of {drawn} runs contract", fontsize=10)
    contraction.set_xlabel(r"$\gamma\,\|C\|$; runs right of the line are left out")
    contraction.set_ylabel("runs")
    _largest_bonuses(bonuses, result)
    _one_run(example, result)
    _finish(
        figure, destination,
        "Shared pessimistic targets can be optimistic: in the runs right of zero in the middle the "
        "lower confidence bound lies above the value without pessimism. With independent targets it "
        "never does. Right: the run with the largest bonus; lines are Theorem 3.1, dots an ensemble "
        f"that was drawn and iterated. {settings}",
    )  # fmt: skip


def _largest_bonuses(axis: "Axes", result: "LinearResult") -> None:
    shared, independent = result.shared.max(axis=1), result.sampled_independent.max(axis=1)
    edges = np.histogram_bin_edges(np.concatenate([shared, independent]), bins=60)
    for values, colour, name in (
        (shared, SHARED, "shared, by Theorem 3.1"),
        (independent, INDEPENDENT, "independent, iterated members"),
    ):
        label = f"{name}: {(values > 0).sum()} of {len(values)} optimistic"
        axis.hist(values, bins=edges.tolist(), color=colour, alpha=0.6, label=label)
    axis.axvline(0.0, color="black", linewidth=1.0)
    axis.set_title("The largest bonus of each run", fontsize=10)
    axis.set_xlabel("bound minus value, largest over $(s', \\pi(s'))$")
    axis.set_ylabel("runs")
    axis.set_ylim(top=1.25 * axis.get_ylim()[1])  # room for the legend
    axis.legend(fontsize=8, loc="upper right", framealpha=1.0, edgecolor="none")


def _one_run(axis: "Axes", result: "LinearResult") -> None:
    run = result.shared.max(axis=1).argmax()
    order = np.argsort(result.shared[run])
    places = np.arange(1, len(order) + 1)
    for lines, dots, colour, name in (
        (result.shared, result.sampled_shared, SHARED, "shared"),
        (result.independent, result.sampled_independent, INDEPENDENT, "independent"),
    ):
        axis.plot(places, lines[run][order], color=colour, linewidth=1.4, label=name)
        axis.plot(places, dots[run][order], "o", color=colour, markersize=3, alpha=0.7)
    axis.axhline(0.0, color="black", linewidth=1.0)
    axis.set_title("One run, all its transitions", fontsize=10)
    axis.set_xlabel("transitions, in the order of shared targets' bonus")
    axis.set_ylabel("bound minus value")
    axis.legend(fontsize=8, frameon=False)


# ---- the chain -------------------------------------------------------------------------------------


def draw_chain(
    curves: "list[ChainCurve]", true: np.ndarray, destination: Path, *, settings: str
) -> None:
    """Mean and two standard deviations of each rule along the chain, and the spread below."""
    figure, axes = _canvas(2, len(curves), (2.7 * len(curves) + 0.6, 5.6), rows=(2, 1))
    for column, curve in enumerate(curves):
        _band(axes[0, column], curve.mean, curve.std, INDEPENDENT, true)
        axes[0, column].set_title(NAMES[curve.rule], fontsize=10)
        axes[1, column].plot(_grid(), curve.std, color=INDEPENDENT, linewidth=1.4)
        axes[1, column].set_ylim(bottom=0.0)
        axes[1, column].set_xlabel("state $s$")
    for row in axes:
        _share_height(row)
    axes[0, 0].set_ylabel(r"$Q(s, \pi(s))$, mean and 2 std")
    axes[1, 0].set_ylabel("std of the members")
    axes[0, 0].legend(fontsize=8, frameon=False, loc="upper left")
    _finish(
        figure, destination,
        "The policy walks to the right; the shaded interval has no data. Wanted: little spread on the "
        "right, where the data tells all, more on the left, from where the gap must be crossed, "
        f"rising through the gap from right to left. {settings}",
    )  # fmt: skip


# ---- widths ----------------------------------------------------------------------------------------


def draw_width(
    result: "WidthResult", rows: list[dict], true: np.ndarray, destination: Path, *, settings: str
) -> None:
    """Bands of each width in both parameterisations and of the closed forms, the spreads alone on a
    logarithmic scale below, and what becomes of two numbers as the width grows."""
    widths = sorted({width for _, width in result.values})
    columns = len(widths) + 2
    figure, axes = _canvas(3, columns, (2.5 * columns + 0.6, 8.2))
    for row, (name, colour) in zip(axes, WIDTH_COLOURS.items(), strict=False):
        for axis, below, width in zip(row, axes[2], widths, strict=False):
            members = result.values[name, width]
            mean, std = members.mean(axis=0), members.std(axis=0)
            _band(axis, mean, std, colour, true)
            axis.set_title(f"{NAMES[name]}, width {width}, N = {len(members)}", fontsize=8)
            below.plot(_grid(), std, color=colour, linewidth=1.4, label=NAMES[name])
            below.set_title(f"Width {width}", fontsize=8)
        row[0].set_ylabel(r"$Q(s, \pi(s))$, mean and 2 std")
    for column, curve, title in (
        (-2, result.finite_time, "NTK, infinite width,\nas many gradient steps"),
        (-1, result.complete, "NTK, infinite width,\ncomplete fits with ridge"),
    ):
        _band(axes[0, column], curve.mean, curve.std, SHARED, true)
        axes[0, column].set_title(title, fontsize=8)
        axes[2, column].plot(_grid(), curve.std, color=SHARED, linewidth=1.4)
        axes[2, column].set_title(title, fontsize=8)
    for axis in axes[2, : len(widths)]:
        axis.plot(
            _grid(), result.finite_time.std, "--", color=SHARED, linewidth=1.0, label="infinite"
        )
    for axis in axes[2]:
        _logarithmic(axis)
    axes[2, 0].set_ylabel("std of the members")
    # Complete fits may diverge, and have a height of their own.
    for group in (axes[0, :-1], axes[0, -1:], axes[1, : len(widths)], axes[2, :-1], axes[2, -1:]):
        _share_height(group)
        for axis in group:
            axis.set_xlabel("state $s$")
    _against_width(axes[1, -2], rows, "error", "distance from infinite width")
    _against_width(axes[1, -1], rows, "ratio", "std left over right of the gap")
    axes[1, -1].axhline(1.0, color="black", linewidth=0.8)
    axes[0, 0].legend(fontsize=7, frameon=False, loc="upper left")
    axes[2, 0].legend(fontsize=7, frameon=False, loc="lower left")
    _finish(
        figure, destination,
        "Top: networks in NTK parameterisation approach the infinitely wide one (red) as their width "
        "grows. Middle: in maximal-update parameterisation. Bottom: their spreads alone. Right, in the "
        "middle: each member's distance from what the infinitely wide network makes of the same initial "
        "function, relative to the latter's spread, and the form of the spread; bars are 95% bootstrap "
        f"intervals over members. {settings}",
    )  # fmt: skip


def _against_width(axis: "Axes", rows: list[dict], key: str, title: str) -> None:
    from matplotlib.ticker import NullLocator

    widths: list[int] = []
    for name, colour in WIDTH_COLOURS.items():
        mine = [row for row in rows if row["network"] == name and row[key] is not None]
        widths = [row["width"] for row in mine]
        values = np.array([row[key] for row in mine])
        low, high = np.array([row[f"{key}_interval"] for row in mine]).T
        bars = np.maximum([values - low, high - values], 0.0)
        axis.errorbar(widths, values, bars, fmt="o-", color=colour, markersize=3, label=NAMES[name])
    _logarithmic(axis)
    axis.set_xscale("log")
    axis.set_xticks(widths, [str(width) for width in widths])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlabel("width")
    axis.set_title(title, fontsize=8)
    axis.legend(fontsize=7, frameon=False)


# ---- shared by all ---------------------------------------------------------------------------------


def _canvas(
    height: int, width: int, size: tuple[float, float], rows: tuple[int, ...] | None = None
) -> "tuple[Figure, np.ndarray]":
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(
        height, width, figsize=size, layout="constrained", squeeze=False,
        gridspec_kw={"height_ratios": rows or (1,) * height},
    )  # fmt: skip


def _grid() -> np.ndarray:
    from chary.theory.mdp import GRID

    return GRID


def _band(axis: "Axes", mean: np.ndarray, std: np.ndarray, colour: str, true: np.ndarray) -> None:
    """Mean and two standard deviations along the chain, and the true value."""
    grid = _grid()
    axis.fill_between(grid, mean - 2 * std, mean + 2 * std, color=colour, alpha=0.25, linewidth=0)
    axis.plot(grid, mean, color=colour, linewidth=1.4)
    axis.plot(grid, true, "--", color="black", linewidth=0.9, label="true value")


def _share_height(axes: np.ndarray) -> None:
    """One height for all, with the gap marked."""
    from chary.theory.mdp import GAP

    low = min(axis.get_ylim()[0] for axis in axes)
    high = max(axis.get_ylim()[1] for axis in axes)
    for axis in axes:
        axis.set_ylim(low, high)
        axis.axvspan(-GAP, GAP, color="0.5", alpha=0.15, linewidth=0)
        axis.set_xlim(-1.0, 1.0)


def _logarithmic(axis: "Axes") -> None:
    """Heights on a logarithmic scale, in plain numbers."""
    from matplotlib.ticker import LogLocator, NullLocator

    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter("{x:g}")


def _finish(figure: "Figure", destination: Path, caption: str) -> None:
    """Small numbers, no boxes, and the caption below."""
    for axis in figure.axes:
        axis.tick_params(labelsize=8)
        axis.xaxis.label.set_fontsize(9)
        axis.yaxis.label.set_fontsize(9)
        axis.spines[["top", "right"]].set_visible(False)
    letters = int(figure.get_figwidth() * 15.5)
    figure.supxlabel(textwrap.fill(caption, letters), fontsize=8.5, color=EDGE, x=0.01, ha="left")
    save_figure(figure, destination)
