"""Training from Python: start a run, resume one, or open what it has learned."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chary import algos, data
from chary import config as settings
from chary.data import sources
from chary.data.dataset import Dataset
from chary.data.scaling import Scaling
from chary.data.tasks import find_task
from chary.errors import CharyError, DivergedError
from chary.evaluation.agent import Agent
from chary.evaluation.inputs import Names
from chary.execution import devices
from chary.execution import program as chunk
from chary.execution.processes import leader as turns
from chary.host.compile_cache import keep_compiled
from chary.runs.folder import RunFolder, claimed
from chary.training import groups as group
from chary.training import loop, prepare
from chary.training.groups import Spec, same_run
from chary.training.run_config import RunConfig
from chary.training.time_left import Forecast


def train(
    algorithm: str,
    dataset: str | Path | Dataset,
    *,
    preset: str = "auto",
    run: str | Path | None = None,
    resume: bool = False,
    **changes: Any,
) -> Agent:
    """Train an algorithm on a dataset and return the agent.

    `changes` are settings of the algorithm or of the run, with the names that
    `chary train <algorithm> --help` shows (with underscores). The preset "auto" is chosen by the
    dataset's name; "paper" has the paper's settings for a named dataset and the number of members.
    With `resume`, a run with the same settings in the folder is resumed, or opened if it is complete.
    """
    config, run_config = prepare.resolve(algorithm, dataset, preset, run, changes)
    return start(algorithm, config, run_config, dataset=dataset, preset=preset, go_on=resume)


def start(
    algorithm: str,
    config: Any,
    run: RunConfig,
    *,
    dataset: str | Path | Dataset,
    preset: str,
    go_on: bool = False,
    yes: bool = False,
) -> Agent:
    """Begin a run with complete settings, or go on with the same one where that is asked for.

    With `yes`, nobody is asked whether a run of days is meant.
    """
    keep_compiled()
    prepare.explain(algorithm, preset, dataset, config)
    run, dataset = prepare.complete(algorithm, run, dataset)
    assert run.run is not None
    prepare.check(config, run)
    config = prepare.settle(config, run, dataset)
    plan = prepare.make_plan(algorithm, [Spec(config, run)], dataset)
    with claimed(run.run):
        folder = same_run(algorithm, config, run, dataset)
        if folder is None:
            (folder,) = group.create(algorithm, [Spec(config, run)], dataset, plan.scaling, preset)
            prepare.explain_own(algorithm, preset, config, run)
        elif not go_on:
            raise CharyError(group.already(folder))
        group.keep_summary([folder], dataset)
        return plan.agent(_go_on(plan, [folder], yes=yes), 0)


def resume(run: str | Path, *, dataset: Dataset | None = None, steps: int | None = None) -> Agent:
    """Resume a run from its newest intact checkpoint, with the same bits as an uninterrupted run.

    All runs of a group are resumed together. `dataset` is needed only if the run was started with a
    dataset from memory; `steps` extends the run.
    """
    agent = resume_group(Path(run), dataset=dataset, steps=steps)[Path(run)]
    if agent is None:
        raise DivergedError(f"{run}: training diverged; the runs beside it have gone on.")
    return agent


def resume_group(
    run: Path,
    *,
    dataset: Dataset | None = None,
    steps: int | None = None,
    alone: bool = False,
    spread: devices.Devices | None = None,
    yes: bool = False,
) -> dict[Path, Agent | None]:
    """Go on with a run and those that are trained with it, unless it is to go on alone from now on.

    `spread` is on how many devices from now on, where that is to change. An agent for every folder,
    None where the run has diverged.
    """
    keep_compiled()
    RunFolder.open(run)  # refuses what is no run before claiming it
    paths = [run] if alone else group.companions(run)
    with group.all_claimed(paths):
        folders = [RunFolder.open(path) for path in paths]
        if alone:
            group.leave(folders[0])
        algorithm = group.spec_of(folders[0])[0]
        specs = [group.spec_of(folder)[1] for folder in folders]
        if spread is not None:
            specs = [group.moved(spec, devices.counted(spread)) for spec in specs]
        goal = max(spec.run.steps for spec in specs)
        if steps is not None and steps < goal:
            raise CharyError(f"{run}: already meant to run {goal} steps; --steps must not be less.")
        first = specs[0].run
        dataset = dataset or _load_again(run, first)
        for folder in folders:
            if dataset.fingerprint != folder.config["dataset"]["fingerprint"]:
                raise CharyError(
                    f"{folder.path}: the data of '{first.dataset}' is not what this run learned from "
                    f"(fingerprint {dataset.fingerprint[:12]}, not "
                    f"{folder.config['dataset']['fingerprint'][:12]})."
                )
        specs = [Spec(spec.config, replace(spec.run, steps=steps or goal)) for spec in specs]
        plan = prepare.make_plan(algorithm, specs, dataset)
        for folder, spec in zip(folders, specs, strict=True):
            if folder.config["run"]["steps"] != spec.run.steps or spread is not None:
                changed = {
                    "settings": settings.to_json(spec.config),
                    "run": settings.to_json(spec.run),
                }
                folder.write_config({**folder.config, **changed})
        group.keep_summary(folders, dataset)
        carry = _go_on(plan, folders, yes=yes)
        return {
            folder.path: None if folder.diverged() else plan.agent(carry, lane)
            for lane, folder in enumerate(folders)
        }


def _load_again(run: Path, config: RunConfig) -> Dataset:
    """The data that a run learns from, by its name or file; data from memory only its maker has."""
    from_memory = not Path(config.dataset).is_absolute() and sources.find(config.dataset) is None
    if from_memory and config.data_file is None:
        raise CharyError(
            f"{run}: was started with a dataset from memory ('{config.dataset}'), which no command can "
            f"load. Make the same dataset in Python and call chary.resume('{run}', dataset=dataset). To "
            "train and resume from the command line, write it to a file first: "
            "chary.data.formats.write(dataset, 'mine.npz')."
        )
    return data.load(config.dataset, data_file=config.data_file)


def _go_on(plan: loop.Plan, folders: Sequence[RunFolder], *, yes: bool) -> chunk.Carry:
    """Train to the end from the newest step of which all have a sound checkpoint, or from the start."""
    step, carries = group.restore(folders, plan.initial_carries())
    configs = [folder.config for folder in folders]
    carry = turns.begin(plan.algorithm, configs, chunk.together(carries), step)
    forecast = Forecast(plan.title, plan.run.steps, plan.flops, ask=not yes)
    return loop.run_loop(plan, folders, carry, step, forecast)


def open_run(run: str | Path, *, which: str = "last") -> Agent:
    """Open a run's agent: the last checkpoint, or the one with the best score."""
    keep_compiled()
    folder = RunFolder.open(Path(run))
    algorithm, (config, run_config) = group.spec_of(folder)
    if hasattr(config, "devices"):
        config = replace(config, devices=1)  # checkpoints are whole, wherever they come from
    if which not in ("last", "best"):
        raise CharyError(f"which is '{which}', but must be 'last' or 'best'.")
    best = folder.best() if which == "best" else None
    if which == "best" and best is None:
        raise CharyError(f"{run}: nothing was evaluated, so there is no best; take the last.")
    described = folder.config["dataset"]
    sizes = described["observation_size"], described["action_size"]
    made = algos.entry(algorithm).make(config, *sizes)
    like = chunk.initial_carry(made, config.batch_size, *sizes, seed=run_config.seed)
    steps = [best["step"]] if best else folder.checkpoint_steps()[::-1]
    _, (carry,), damage = group.restore_all([folder], [like], steps)
    for line in damage:
        warnings.warn(f"{line} Using an earlier one.", stacklevel=2)
    scaling = Scaling.from_json(folder.config["scaling"])
    return Agent(
        made,
        carry.state,
        scaling,
        None if run_config.env else find_task(described["name"]),
        seed=run_config.seed,
        folder=folder.path,
        env=run_config.env,
        names=Names(
            *(tuple(folder.config.get("columns", {}).get(part, ())) for part in Names._fields)
        ),
    )
