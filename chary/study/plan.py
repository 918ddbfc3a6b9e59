"""From a study's cells and seeds to the runs that it is made of."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from chary import algos
from chary.algos.size import CriticSize, critic_size
from chary.config import refuse_repeats, require
from chary.data.scaling import RewardTransform
from chary.errors import CharyError
from chary.execution.config import DEFAULT, Execution
from chary.study.cells import Cell
from chary.training import records, resolve
from chary.training.run_config import RunConfig, RunSpec


class Job(NamedTuple):
    """One run: a cell with one seed."""

    cell: Cell
    spec: RunSpec

    @property
    def run(self) -> RunConfig:
        return self.spec.run

    @property
    def folder(self) -> Path:
        return self.spec.folder


@dataclass(frozen=True)
class Plan:
    """A whole study."""

    name: str
    cells: list[Cell]
    seeds: tuple[int, ...]
    jobs: list[Job]
    """Every cell of the first seed, then of the next: an unfinished study still compares cells."""
    preset: str
    measure: str
    """What runs are scored by: success, score or return."""
    dataset: dict[str, Any]
    """Its name, fingerprint and number of transitions."""
    smallest_return: float
    """Of an episode in the data."""
    critics: dict[str, CriticSize]
    """How large the Q-functions are, by the cell's name."""


def make_plan(
    name: str,
    cells: list[Cell],
    seeds: Sequence[int],
    config: Any,
    run: RunConfig,
    *,
    runs: Path,
    preset: str,
    execution: Execution = DEFAULT,
) -> Plan:
    """Load the data and check everything that can be checked before training starts.

    `config` has the settings that cells change, or is None where each cell brings all of its own.
    """
    require(len(seeds) > 0, "seeds", "empty", "at least one number")
    require(run.final_episodes > 0, "final-episodes", run.final_episodes, "at least 1 in a study")
    refuse_repeats("seeds", seeds)
    refuse_repeats("algos" if config is None else "kinds", [cell.name for cell in cells])
    entries = {cell.name: algos.entry(cell.algorithm) for cell in cells}
    configs = {
        cell.name: replace(config or entries[cell.name].config(), **cell.changes) for cell in cells
    }
    run, dataset = resolve.complete_run("msg", run, run.dataset)
    task = dataset.task
    if task is None:
        raise CharyError(
            f"{run.dataset}: there is no simulator for '{dataset.name}', and a study is scored in one."
        )
    sizes = dataset.observation_size, dataset.action_size
    own = {cell.name: replace(run, **cell.run_changes) for cell in cells}
    scales = {
        cell: resolve.reward_scale(run, dataset, RewardTransform()) for cell, run in own.items()
    }
    jobs = [
        Job(
            cell,
            RunSpec(
                cell.algorithm,
                configs[cell.name],
                replace(
                    own[cell.name],
                    reward_scale=scales[cell.name],
                    seed=seed,
                    run=runs / cell.folder(seed),
                ),
                execution,
                cell.preset or preset,
            ),
        )
        for seed in seeds
        for cell in cells
    ]
    critics = {
        cell.name: critic_size(algos.build(cell.algorithm, configs[cell.name], *sizes), *sizes)
        for cell in cells
    }
    for job in jobs:  # another run in a folder is an error before anything is trained
        records.same_run(job.spec, dataset)
    measure = "score" if task.reference_scores else "return"
    return Plan(
        name=name,
        cells=cells,
        seeds=tuple(seeds),
        jobs=jobs,
        preset=preset,
        measure="success" if task.has_success else measure,
        dataset={
            "name": dataset.name,
            "fingerprint": dataset.fingerprint,
            "transitions": dataset.size,
        },
        smallest_return=float(dataset.episode_returns.min()),
        critics=critics,
    )
