"""The demonstration: a small maze, from collecting the data to a report on what was learned."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from chary import data
from chary.data.dataset import Dataset
from chary.data.tasks import find_task
from chary.evaluation.agent import Agent
from chary.evaluation.diagnostics import maze_maps
from chary.evaluation.rollouts import EvalResult
from chary.host.terminal import say
from chary.report.maze import draw_maze
from chary.report.page import write_report
from chary.report.page_data import page_data
from chary.report.story import read_runs
from chary.runs.folder import RunFolder
from chary.training import start as training

DATASET = "pointmaze-umaze"
EPISODES = 50
MSG_STEPS = 10_000
# Behavioural cloning runs until the likelihood of held-out episodes stops rising.
BC_SETTINGS = {
    "steps": 60_000,
    "validation": 0.1,
    "patience": 10,
    "log_every": 500,
    "eval_every": 0,
}
# The table has its own evaluations at the end; these are for the report, which shows what led there.
SHORT = {"eval_episodes": 5, "final_episodes": 10}


def run_demo(out: Path, *, seed: int) -> tuple[list[dict[str, Any]], Path, Path]:
    """Rows for the data, cloning and MSG, and the paths of the figure and of the report.

    Run folders are kept below `out`; those that are complete are used again.
    """
    dataset = data.load(DATASET)
    task = find_task(DATASET)
    assert task is not None and task.maze is not None
    rows = [_data_row(dataset)]
    agents: dict[str, Agent] = {}
    results: dict[str, EvalResult] = {}
    for name, settings in (
        ("bc", BC_SETTINGS),
        ("msg", {"steps": MSG_STEPS, "eval_every": MSG_STEPS // 5}),
    ):
        say(f"training {name} on {DATASET}, seed {seed}")
        began = time.monotonic()
        folder = out / f"{name}-seed{seed}"
        training.train(
            name, dataset, preset="small", seed=seed, run=folder, resume=True, **settings, **SHORT
        )
        seconds = time.monotonic() - began
        # Cloning that is stopped early is worth what it was at its best, not where it stopped.
        agents[name] = training.open_run(folder, which="best" if name == "bc" else "last")
        results[name] = agents[name].evaluate(EPISODES, paths=10)
        steps = RunFolder.open(folder).checkpoint_steps()[-1]
        rows.append({"name": name, **results[name].summary(), "seconds": seconds, "steps": steps})
    figure = out / f"maze-seed{seed}.png"
    sample = np.random.default_rng(0).integers(dataset.size, size=5_000)
    draw_maze(
        task.maze,
        maze_maps(agents["msg"], task.maze),
        {name.upper(): result.paths for name, result in results.items()},
        dataset.observations[sample],
        figure,
        title=f"{DATASET}, seed {seed}",
    )
    report = out / f"report-seed{seed}.html"
    folders = [out / f"{name}-seed{seed}" for name in agents]
    write_report(page_data(*read_runs(folders)), report)
    return rows, figure, report


def _data_row(dataset: Dataset) -> dict[str, Any]:
    """The logged episodes themselves: how many reached the goal, and in how many steps."""
    reached = dataset.terminals[dataset.episode_ends]
    task = find_task(dataset.name)
    assert task is not None
    mean = float(dataset.episode_returns.mean())
    return {
        "name": "data",
        "success": float(reached.mean()),
        "steps_to_goal": float(dataset.episode_lengths[reached].mean()),
        "return": mean,
        "score": task.normalise(mean),
    }
