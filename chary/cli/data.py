"""`chary data list | show | collect`."""

from pathlib import Path
from typing import Annotated, Any

import tyro

from chary.cli.output import Flag, show
from chary.data import formats, load
from chary.data.dataset import Dataset
from chary.data.named import NAMED, cached_path, collect_named
from chary.errors import CharyError, unknown_name
from chary.settings import require


def list_(json: Flag = False) -> None:
    """The named datasets, and whether they are collected yet.

    Args:
        json: Print the table as one JSON object.
    """
    rows = [
        {
            "name": entry.name,
            "transitions": entry.transitions,
            "cached": cached_path(entry.name).exists(),
            "preset": entry.preset,
            "description": entry.description,
        }
        for entry in NAMED.values()
    ]
    show(rows, {key: key for key in rows[0]}, as_json=json)


def show_(dataset: Annotated[str, tyro.conf.Positional], /, json: Flag = False) -> None:
    """What is in a dataset: sizes, episodes, returns.

    Args:
        dataset: A name (collected now if it is not cached) or a file.
        json: Print it as one JSON object.
    """
    facts = describe(load(dataset))
    rows = [{"what": key, "value": value} for key, value in facts.items()]
    show(rows, {"what": "", "value": facts["name"]}, as_json=json, **facts)


def collect(
    name: Annotated[str, tyro.conf.Positional],
    /,
    steps: int | None = None,
    seed: int = 0,
    out: Path | None = None,
    json: Flag = False,
) -> None:
    """Collect a named dataset now, on every core.

    Args:
        name: One of `chary data list`.
        steps: Transitions; by default the named dataset's own number.
        seed: Seed of the collection.
        out: File to write (.hdf5 or .npz); without it the named dataset goes into the cache.
        json: Print what was collected as one JSON object.
    """
    if name not in NAMED:
        raise unknown_name("dataset", name, NAMED)
    require(steps is None or steps >= 1, "steps", steps, "at least 1")
    require(seed >= 0, "seed", seed, "at least 0")
    if out is None:
        if steps is not None or seed != 0:
            raise CharyError(
                "--steps and --seed change the data: say where it should go with --out."
            )
        dataset, where = load(name), cached_path(name)
    else:
        formats.format_of(out)  # a wrong ending is noticed before the work
        dataset, where = collect_named(name, transitions=steps, seed=seed), out
        formats.write(dataset, out)
    rows = [{"file": str(where), **describe(dataset)}]
    show(rows, {"file": "file", "transitions": "transitions", "episodes": "episodes"}, as_json=json)


def describe(dataset: Dataset) -> dict[str, Any]:
    """A dataset in numbers."""
    returns, lengths = dataset.episode_returns, dataset.episode_lengths
    return {
        "name": dataset.name,
        "transitions": dataset.size,
        "observation_size": dataset.observation_size,
        "action_size": dataset.action_size,
        "episodes": len(lengths),
        "ended_by_the_task": int(dataset.terminals.sum()),
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


def main(arguments: list[str]) -> int:
    tyro.extras.subcommand_cli_from_dict(
        {"list": list_, "show": show_, "collect": collect}, args=arguments, prog="chary data"
    )
    return 0
