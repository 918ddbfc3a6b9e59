"""The maze as a picture: what the ensemble believes, and where policies go."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from chary.envs.mazes import Maze
from chary.report.figures import save_figure


def draw_maze(
    maze: Maze,
    maps: dict[str, np.ndarray],
    paths: dict[str, list[np.ndarray]],
    data: np.ndarray,
    destination: Path,
    *,
    title: str,
) -> None:
    """Heat maps of mean, std and lower confidence bound at rest, and each policy's paths.

    `maps` is what `chary.evaluation.diagnostics.maze_maps` gives, `data` a sample of logged positions.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = {
        "map_mean": "mean of the members' Q",
        "map_std": "their standard deviation",
        "map_lcb": "lower confidence bound",
    }
    columns = len(names) + len(paths)
    figure, axes = plt.subplots(1, columns, figsize=(3.3 * columns, 3.9), layout="constrained")
    extent = maze.extent
    for axis, (key, label) in zip(axes, names.items(), strict=False):
        colours = "magma" if key == "map_std" else "viridis"
        image = axis.imshow(maps[key], origin="lower", extent=extent, cmap=colours)
        figure.colorbar(image, ax=axis, orientation="horizontal", shrink=0.85, pad=0.02)
        axis.set_title(label, fontsize=10)
    for axis, (name, lines) in zip(axes[len(names) :], paths.items(), strict=True):
        draw_paths(axis, lines, data)
        axis.set_title(f"{name}: paths from the start", fontsize=10)
    for axis in axes:
        draw_plan(axis, maze)
    figure.suptitle(
        f"{title}   (circle: start, star: goal, cross: where a path ended)", fontsize=10
    )
    save_figure(figure, destination)


def draw_paths(
    axis, paths: Iterable[np.ndarray], logged: np.ndarray, *, colour: str | None = None
) -> None:
    """Paths with a cross where each ended, over a sample of logged positions."""
    axis.scatter(*logged[:, :2].T, s=1.0, color="0.82", linewidths=0, zorder=1)
    for path in paths:
        axis.plot(*path[:, :2].T, linewidth=1.2, alpha=0.8, color=colour, zorder=2)
        axis.plot(*path[-1, :2], "x", color="black", markersize=4, zorder=3)


def draw_plan(axis, maze: Maze) -> None:
    """The maze itself: walls, goal and start, and nothing beyond it."""
    draw_walls(axis, maze)
    axis.plot(*maze.point(maze.goal), "*", color="crimson", markersize=13, zorder=4)
    if maze.start:
        axis.plot(*maze.point(maze.start), "o", mfc="white", mec="black", ms=7, zorder=4)
    left, right, bottom, top = maze.extent
    axis.set(xlim=(left, right), ylim=(bottom, top), xticks=[], yticks=[], aspect="equal")


def draw_walls(axis, maze: Maze) -> None:
    """The maze's walls, over whatever is drawn."""
    from matplotlib.patches import Rectangle

    for cell in maze.wall_cells:
        corner = maze.centre(cell) - maze.size / 2
        axis.add_patch(Rectangle(tuple(corner), maze.size, maze.size, color="0.25", zorder=3))
