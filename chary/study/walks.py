"""Where each method's policy goes in a maze, side by side: the picture of a table of scores."""

from pathlib import Path

import numpy as np

from chary import data
from chary.envs import find_task
from chary.report.figures import palette, save_figure
from chary.report.maps import paths_in
from chary.report.maze import draw_paths, draw_plan
from chary.runs.arrays import read_arrays
from chary.runs.folder import RunFolder
from chary.study.plan import Plan

WORDS = {
    "msg-fast": "MSG", "msg-shared": "MSG, shared targets", "rebrac": "ReBRAC", "iql": "IQL",
    "bc": "cloning",
}  # fmt: skip
"""The cells that are drawn, in this order."""
LOGGED = 4_000
"""Logged positions that are drawn."""


def draw_walks(plan: Plan, destination: Path) -> None:
    """A maze for each method with its first seed's paths at the last step, and every seed's success."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    run = plan.jobs[0].run
    dataset = data.load(run.dataset, data_file=run.data_file)
    task = find_task(run.dataset)
    assert task is not None and task.maze is not None
    maze = task.maze
    rows = np.random.default_rng(0).integers(dataset.size, size=LOGGED)
    logged = np.asarray(dataset.observations[rows])[:, :2]
    figure, axes = plt.subplots(
        1, len(WORDS), figsize=(2.9 * len(WORDS), 3.7), layout="constrained"
    )
    for axis, (cell, words), colour in zip(axes, WORDS.items(), palette(len(WORDS)), strict=True):
        folders = [RunFolder.open(job.folder) for job in plan.jobs if job.cell.name == cell]
        scores = [folder.last() for folder in folders]
        last = read_arrays(folders[0].diagnostics()[-1], ("paths", "path_lengths"))
        draw_paths(axis, paths_in(last), logged, colour=colour)
        draw_plan(axis, maze)
        left, right, bottom, top = maze.extent
        edge = 0.75 * maze.size  # of the wall around everything, a strip is enough
        axis.set(xlim=(left + edge, right - edge), ylim=(bottom + edge, top - edge))
        successes = ", ".join(f"{score['success']:.2f}" for score in scores if score)
        axis.set_title(f"{words}\n{successes}", fontsize=15)  # pages show it at half its size
    figure.suptitle(
        f"{run.dataset}, {run.steps:,} updates: success with each seed, and paths with the "
        "first (circle: start, star: goal, cross: end of a path)",
        fontsize=14,
    )
    save_figure(figure, destination)
