"""A dataset as one picture: episodes, coverage, actions and rewards."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from chary.data.dataset import Dataset
from chary.report.figures import as_text, figure_kind, save_figure
from chary.report.maze import draw_walls

if TYPE_CHECKING:
    from chary.envs.mazes import Maze

BARS = "#31688e"  # from the middle of viridis, the colours of the densities
BINS = 40
FEW = 12
"""Up to as many different values get a bar each."""
SHOWN = 300_000
"""Rows that densities are drawn from, evenly spread over the data."""


def draw_dataset(dataset: Dataset, destination: Path, *, maze: "Maze | None" = None) -> None:
    """Returns and lengths of episodes, where the data is, its actions, its rewards."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure_kind(destination)  # a wrong ending is noticed before the work
    figure, axes = plt.subplots(2, 3, figsize=(11.5, 6.8), layout="constrained")
    _bars(axes[0, 0], dataset.episode_returns, "return", "episodes")
    _bars(axes[0, 1], dataset.episode_lengths, "length", "episodes")
    _coverage(axes[0, 2], dataset, maze)
    _actions(axes[1, 0], dataset)
    _bars(axes[1, 1], dataset.rewards, "reward", "transitions")
    _reward_over_time(axes[1, 2], dataset)
    for axis in axes.flat:
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    sizes = f"{dataset.observation_size} observations, {dataset.action_size} actions"
    figure.suptitle(f"{as_text(dataset.name)}: {dataset.size:,} transitions, {sizes}", fontsize=11)
    save_figure(figure, destination)


def _bars(axis, values: np.ndarray, quantity: str, counted: str) -> None:
    """A histogram, or a bar with its count for each value where there are few."""
    from matplotlib.ticker import MaxNLocator

    different, counts = np.unique(values, return_counts=True)
    if len(different) <= FEW:
        bars = axis.bar(range(len(different)), counts, color=BARS, width=0.7)
        axis.bar_label(bars, [f"{count:,}" for count in counts], fontsize=8, padding=1)
        axis.set_xticks(range(len(different)), [f"{value:g}" for value in different])
        axis.set_xlim(-1, len(different))
    else:
        axis.hist(values, bins=BINS, color=BARS)
        axis.axvline(values.mean(), color="black", linewidth=0.8, linestyle=":")
    axis.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axis.yaxis.set_major_formatter("{x:,.0f}")
    axis.set_title(f"{quantity}, mean {values.mean():.4g}", fontsize=10)
    axis.set_xlabel(quantity, fontsize=9)
    axis.set_ylabel(counted, fontsize=9)


def _coverage(axis, dataset: Dataset, maze: "Maze | None") -> None:
    """How much data there is at each place: the first two observations."""
    from matplotlib.colors import LogNorm

    rows = _spread(dataset.size)
    if dataset.observation_size < 2:
        _bars(axis, dataset.observations[rows, 0], "observation 0", "transitions")
        return
    x, y = dataset.observations[rows, :2].T
    span = maze.extent if maze else (x.min(), x.max(), y.min(), y.max())
    wide = (span[1] > span[0]) and (span[3] > span[2])
    limits = [span[:2], span[2:]] if wide else None
    bins = int(np.clip(np.sqrt(len(x)), 20, 80))
    axis.hist2d(x, y, bins=bins, range=limits, norm=LogNorm(), cmap="viridis", rasterized=True)
    if maze:
        draw_walls(axis, maze)
        axis.plot(*maze.point(maze.goal), "*", color="crimson", markersize=11, zorder=4)
        axis.set(aspect="equal", xlim=span[:2], ylim=span[2:])
    axis.set_title("coverage, lighter is more", fontsize=10)
    axis.set_xlabel("observation 0", fontsize=9)
    axis.set_ylabel("observation 1", fontsize=9)


def _actions(axis, dataset: Dataset) -> None:
    """A line of colours for each dimension: how often each action was taken."""
    from matplotlib.colors import PowerNorm

    low, high = dataset.action_low, dataset.action_high
    unit = 2.0 * (dataset.actions[_spread(dataset.size)] - low) / (high - low) - 1.0
    edges = np.linspace(-1.0, 1.0, BINS + 1)
    shares = np.stack([np.histogram(column, bins=edges)[0] for column in unit.T]) / len(unit)
    extent = (-1, 1, dataset.action_size - 0.5, -0.5)
    norm = PowerNorm(
        0.5, vmin=0.0, vmax=shares.max()
    )  # bounds are often so full that the rest fades
    image = axis.imshow(shares, aspect="auto", extent=extent, cmap="viridis", norm=norm)
    bar = axis.figure.colorbar(image, ax=axis, pad=0.02)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)
    axis.set_xticks([-1, 0, 1])
    step = max(1, -(-dataset.action_size // 10))
    axis.set_yticks(range(0, dataset.action_size, step))
    axis.set_title("actions, share of each value", fontsize=10)
    axis.set_xlabel("-1 and 1 are the bounds", fontsize=9)
    axis.set_ylabel("dimension", fontsize=9)


def _reward_over_time(axis, dataset: Dataset) -> None:
    """Mean reward, and where four fifths of the rewards lie, by the time in an episode."""
    lengths = dataset.episode_lengths
    time = np.arange(dataset.size) - np.repeat(dataset.episode_ends + 1 - lengths, lengths)
    bins = min(50, int(lengths.max()))
    edges = np.linspace(0, lengths.max(), bins + 1)
    index = np.digitize(time, edges[1:-1])
    order = np.argsort(index, kind="stable")
    groups = np.split(dataset.rewards[order], np.searchsorted(index[order], np.arange(1, bins)))
    middles = (edges[:-1] + edges[1:]) / 2
    kept = [i for i, group in enumerate(groups) if group.size]
    low, high = np.array([np.quantile(groups[i], (0.1, 0.9)) for i in kept]).T
    axis.fill_between(middles[kept], low, high, color=BARS, alpha=0.2, linewidth=0)
    axis.plot(middles[kept], [groups[i].mean() for i in kept], color=BARS, linewidth=1.5)
    axis.set_title("reward over time, mean and 10 to 90%", fontsize=10)
    axis.set_xlabel("step of the episode", fontsize=9)
    axis.set_ylabel("reward", fontsize=9)


def _spread(size: int) -> slice:
    return slice(None, None, max(1, size // SHOWN))
