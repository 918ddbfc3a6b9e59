"""`chary data list | show`: what there is, and what is in it."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from chary.cli.output import Flag, show
from chary.data import load, sources
from chary.data.dataset import Dataset
from chary.report.dataset import draw_dataset


def list_(json: Flag = False) -> None:
    """List the named datasets and whether they are on this machine.

    Args:
        json: Print the table as one JSON object.
    """
    rows = [
        {
            "name": entry.name,
            "transitions": entry.transitions,
            "source": entry.source,
            "present": entry.present(),
            "preset": entry.preset,
            "description": entry.description,
        }
        for entry in map(sources.find, sources.names())
        if entry is not None
    ]
    show(rows, {key: key for key in rows[0]}, as_json=json)


def show_(
    dataset: Annotated[str, tyro.conf.Positional],
    /,
    data_file: Path | None = None,
    figure: Path | None = None,
    json: Flag = False,
) -> None:
    """Show a dataset's sizes, episodes and returns.

    Args:
        dataset: A name (collected if not cached) or a file.
        data_file: File to read the named dataset from.
        figure: Also draw the data into this file (.png, .pdf or .svg).
        json: Print it as one JSON object.
    """
    loaded = load(dataset, data_file=data_file)
    if figure is not None:
        task = loaded.task
        draw_dataset(loaded, figure, maze=task.maze if task else None)
    facts = describe(loaded)
    rows = [{"what": key, "value": value} for key, value in facts.items()]
    show(rows, {"what": "", "value": facts["name"]}, as_json=json, **facts)


def describe(dataset: Dataset) -> dict[str, Any]:
    """A dataset in numbers; an episode is a walk, however many of its rows are at a goal."""
    ends = dataset.walk_ends
    lengths = np.diff(ends, prepend=-1)
    returns = np.add.reduceat(dataset.rewards.astype(np.float64), ends - lengths + 1)
    inside = np.setdiff1d(np.flatnonzero(dataset.terminals), ends)
    return {
        "name": dataset.name,
        "transitions": dataset.size,
        "observation_size": dataset.observation_size,
        "action_size": dataset.action_size,
        "episodes": len(lengths),
        "ended_by_the_task": int(dataset.terminals[ends].sum()),
        "goal_rows_inside": len(inside),
        "cut_short": int(dataset.timeouts.sum()),
        "length_mean": float(lengths.mean()),
        "return_mean": float(returns.mean()),
        "return_min": float(returns.min()),
        "return_max": float(returns.max()),
        "reward_mean": float(dataset.rewards.mean()),
        "actions_at_a_bound": float(
            (
                (dataset.actions <= dataset.action_low) | (dataset.actions >= dataset.action_high)
            ).mean()
        ),
        "fingerprint": dataset.fingerprint,
    }
