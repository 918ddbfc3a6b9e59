"""Figures of the theory laboratory."""

import textwrap
from collections.abc import Iterable
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
INFINITE = SHARED
WIDTH_COLOURS = {"linearised": "#8172b3", "ntk": INDEPENDENT, "maximal-update": "#55a868"}
NAMES = {
    "independent": "Independent",
    "double-q": "Independent double-Q",
    "shared-mean": "Shared mean",
    "shared-lcb": "Shared LCB",
    "shared-min": "Shared min",
    "linearised": "NTK, linearised",
    "ntk": "NTK, trained",
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
        "never lies above the mean of the same members. Right: the run with the largest bonus; lines "
        f"are Theorem 3.1, dots an ensemble that was drawn and iterated. {settings}",
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
        "The policy walks to the right; the shaded interval has no data. Desired: little spread on the "
        "right, where the data tells all, more on the left, from where the gap must be crossed, "
        f"rising through the gap from right to left. {settings}",
    )  # fmt: skip


# ---- widths ----------------------------------------------------------------------------------------


def draw_width(
    result: "WidthResult", rows: list[dict], true: np.ndarray, destination: Path, *, settings: str
) -> None:
    """A row a width: bands of each kind of networks, and their spreads. Then infinite width, and what
    becomes of some numbers as the width or sigma_b grows."""
    widths = sorted({ensemble.width for ensemble in result.ensembles})
    figure, axes = _canvas(len(widths) + 2, 4, (10.6, 1.95 * (len(widths) + 2) + 0.6))
    bands, spreads, summary = axes[:-1, :3], axes[:-1, 3], axes[-1]
    for ensemble in result.ensembles:
        row, column = widths.index(ensemble.width), list(WIDTH_COLOURS).index(ensemble.network)
        title = f"{NAMES[ensemble.network]}, width {ensemble.width}, N = {len(ensemble.values)}"
        mean, std = ensemble.values.mean(axis=0), ensemble.values.std(axis=0)
        colour = WIDTH_COLOURS[ensemble.network]
        _with_spread(bands[row, column], spreads[row], mean, std, colour, true, title)
    for axis in spreads[:-1]:
        axis.plot(_grid(), result.infinite.std, "--", color=INFINITE, linewidth=1.0)
    for column, curve, style, title in (
        (0, result.infinite, "--", "NTK, infinite width, gradient steps"),
        (1, result.complete, ":", "NTK, infinite width, ridge"),
    ):
        _with_spread(
            bands[-1, column], spreads[-1], *curve, INFINITE, true, title, style=style
        )  # fmt: skip
    for axis in spreads:
        _logarithmic(axis)
        axis.set_title("std of the members", fontsize=8)
    for axis in bands.flat:  # not every width is trained
        axis.set_visible(axis.has_data())
    # Complete fits may diverge, and have a height of their own.
    for group in ([axis for axis in bands.flat if axis != bands[-1, 1]], [bands[-1, 1]], spreads):
        _share_height([axis for axis in group if axis.get_visible()])
    for axis in bands[:, 0]:
        axis.set_ylabel(r"$Q(s, \pi(s))$")
    for axis in axes[-2]:
        axis.set_xlabel("state $s$")
    bands[0, 0].legend(fontsize=7, frameon=False, loc="lower right")
    _against_width(summary[0], rows, "error", "distance from infinite width")
    _against_width(summary[1], rows, "left", "std left of the gap")
    _against_width(summary[2], rows, "ratio", "std left over right of the gap")
    _against_bias(summary[3], result.constants)
    _finish(
        figure, destination,
        "Bands are means and two standard deviations of linearised networks in NTK parameterisation, in "
        "closed form; of the same networks, trained; and of maximal-update networks, trained. Right: "
        "their spreads. Red: infinite width (dashed: as many gradient steps, dotted: complete fits with "
        "the ridge). Below: each member's distance from what infinite width makes of the same initial "
        "function; the size of the spread; its form; and its form at infinite width for several "
        f"constants. Bars are 95% bootstrap intervals over members. {settings}",
    )  # fmt: skip


def _with_spread(
    band: "Axes", spread: "Axes", mean: np.ndarray, std: np.ndarray, colour: str, true: np.ndarray,
    title: str, style: str = "-",
) -> None:  # fmt: skip
    """A band in its own panel, and its spread beside others in another."""
    _band(band, mean, std, colour, true)
    band.set_title(title, fontsize=8)
    spread.plot(_grid(), std, style, color=colour, linewidth=1.4)


def _against_width(axis: "Axes", rows: list[dict], key: str, title: str) -> None:
    from matplotlib.ticker import NullLocator

    for name, colour in WIDTH_COLOURS.items():
        mine = [row for row in rows if row["network"] == name and row[key] is not None]
        if not mine:
            continue
        widths, values = (np.array([row[k] for row in mine]) for k in ("width", key))
        bars = None
        if f"{key}_interval" in mine[0]:
            low, high = np.array([row[f"{key}_interval"] for row in mine]).T
            bars = np.maximum([values - low, high - values], 0.0)
        axis.errorbar(widths, values, bars, fmt="o-", color=colour, markersize=3, label=NAMES[name])
    infinite = next(row for row in rows if row["network"] == "infinite")
    if key in infinite:
        axis.axhline(infinite[key], color=INFINITE, linestyle="--", linewidth=1.0, label="infinite")
    _logarithmic(axis)
    axis.set_xscale("log")
    widths = sorted({row["width"] for row in rows if "width" in row})
    axis.set_xticks(widths, [str(width) for width in widths], rotation=45)
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlabel("width")
    axis.set_title(title, fontsize=8)
    if key == "error":  # once for all panels
        axis.legend(fontsize=6, frameon=False)


def _against_bias(axis: "Axes", constants: list[dict]) -> None:
    """Left over right at infinite width, for the constants that the paper does not give."""
    for key, marker, name in (("ratio", "o", "gradient steps"), ("ridge_ratio", "s", "ridge")):
        for weight_std, fill in ((1.0, INFINITE), (1.5, "none")):
            mine = [r for r in constants if r["weight_std"] == weight_std and r[key] is not None]
            axis.plot(
                [row["bias_std"] for row in mine], [row[key] for row in mine], marker,
                color=INFINITE, markerfacecolor=fill, markersize=4,
                label=rf"{name}, $\sigma_w = {weight_std:g}$",
            )  # fmt: skip
    axis.axhline(1.0, color="black", linewidth=0.8)
    axis.set_ylim(bottom=0.0)
    axis.set_xlabel(r"$\sigma_b$")
    axis.set_title("the same at infinite width", fontsize=8)
    axis.legend(fontsize=6, frameon=False, loc="lower right")


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


def _share_height(axes: "Iterable[Axes]") -> None:
    """One height for all, with the gap marked."""
    from chary.theory.mdp import GAP

    axes = list(axes)
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
