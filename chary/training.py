"""Training from Python: start a run, go on with one, or open what it has learned."""

import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from chary import algos, chunk, data, devices, group, loop, settings, turns
from chary.agent import Agent
from chary.compiled import keep_compiled
from chary.data import sources
from chary.data.dataset import Dataset
from chary.data.scaling import RewardTransform, Scaling, scale_for_returns
from chary.envs import Task, find_task
from chary.errors import CharyError, DivergedError, unknown_name
from chary.feed import make_feed
from chary.forecast import Forecast
from chary.group import Spec, same_run
from chary.products import multiplying_in
from chary.runs import RunFolder, claimed
from chary.settings import RunConfig
from chary.tensorboard import require_tensorboard
from chary.types import Algorithm


def train(
    algorithm: str,
    dataset: str | Path | Dataset,
    *,
    preset: str = "auto",
    run: str | Path | None = None,
    resume: bool = False,
    **changes: Any,
) -> Agent:
    """Train an algorithm on a dataset and return what it learned.

    `changes` are settings of the algorithm or of the run, by the names that
    `chary train <algorithm> --help` shows (with underscores). The preset "auto" is the one that suits
    a named dataset. With `resume`, a run of the same settings that is already in the folder is gone on
    with, or just opened where it is complete.
    """
    config, run_config = resolve(algorithm, dataset, preset, run, changes)
    return start(algorithm, config, run_config, dataset=dataset, preset=preset, go_on=resume)


def resolve(
    algorithm: str,
    dataset: str | Path | Dataset,
    preset: str,
    run: str | Path | None,
    changes: dict[str, Any],
) -> tuple[Any, RunConfig]:
    """An algorithm's settings and the run's: the preset's, with changes."""
    name = dataset.name if isinstance(dataset, Dataset) else str(dataset)
    config, run_config = configure(algorithm, preset, name)
    changes = {**changes, "dataset": name}
    if isinstance(dataset, Dataset):
        changes["dataset"] = dataset.origin or name
        changes["data_file"] = Path(dataset.data_file) if dataset.data_file else None
    if run is not None:
        changes["run"] = Path(run)
    return settings.apply(changes, config, run_config, source="chary.train")


def configure(algorithm: str, preset: str, dataset: str) -> tuple[Any, RunConfig]:
    """An algorithm's settings and the run's, as a preset has them."""
    entry = algos.entry(algorithm)
    if preset == "auto":
        named = sources.recognise(dataset)
        preset = named.preset if named else "none"
    if preset != "none" and preset not in entry.presets:
        raise unknown_name("preset", preset, ["none", *entry.presets], f"(of {algorithm})")
    changes = entry.presets.get(preset, {})
    return settings.apply(changes, entry.config(), RunConfig(), source=f"preset {preset}")


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
    run, dataset = complete(algorithm, run, dataset)
    assert run.run is not None
    check(config, run)
    config = settle(config, run, dataset)
    plan = make_plan(algorithm, [Spec(config, run)], dataset)
    with claimed(run.run):
        folder = same_run(algorithm, config, run, dataset)
        if folder is None:
            (folder,) = group.create(algorithm, [Spec(config, run)], dataset, plan.scaling, preset)
        elif not go_on:
            raise CharyError(
                f"{group.there(folder)}. Go on with `chary resume {folder.path}`, or choose another "
                "folder."
            )
        group.keep_summary([folder], dataset)
        return plan.agent(_go_on(plan, [folder], yes=yes), 0)


def check(config: Any, run: RunConfig) -> None:
    """Refuse what cannot be trained, and warn of what teaches nothing, before anything is made."""
    if getattr(config, "warmup_steps", 0) >= run.steps:
        warnings.warn(
            f"all {run.steps} steps are warm-up (--warmup-steps is {config.warmup_steps}): the policy "
            "will learn nothing from rewards. Set --warmup-steps or take a --preset.",
            stacklevel=3,
        )
    if run.tensorboard:
        require_tensorboard()


def settle(config: Any, run: RunConfig, dataset: Dataset) -> Any:
    """Settings with what is for this machine to say; a run that is there already keeps its own."""
    if hasattr(config, "devices"):
        config = replace(config, devices=devices.counted(config.devices))
    elif jax.process_count() > 1:
        raise CharyError(
            "several processes divide the members of an ensemble among them, as msg's; this algorithm "
            "is for one."
        )
    if getattr(config, "chunk", 0) is not None:
        return config
    assert run.run is not None
    if RunFolder.exists(run.run):
        chunk = RunFolder.open(run.run).config.get("settings", {}).get("chunk")
    else:
        from chary.fastest import fastest_chunk

        chunk = fastest_chunk(config, dataset.observation_size, dataset.action_size)
    return replace(config, chunk=chunk)


def complete(
    algorithm: str, run: RunConfig, dataset: str | Path | Dataset
) -> tuple[RunConfig, Dataset]:
    """The dataset, loaded, and a run's settings with what suits it filled in."""
    # A file of your own is taken as it is; what suits a named dataset goes with its name.
    named = sources.recognise(dataset.name if isinstance(dataset, Dataset) else str(dataset))
    if not isinstance(dataset, Dataset):
        dataset = data.load(dataset, data_file=run.data_file)
        run = replace(run, dataset=dataset.origin)
        if dataset.data_file:
            run = replace(run, data_file=Path(dataset.data_file))
    recommended = named.reward if named else RewardTransform()
    run = replace(
        run,
        run=run.run
        or Path("runs") / re.sub(r"[/:]", "-", f"{algorithm}-{dataset.name}-{run.seed}"),
        reward_scale=reward_scale(run, dataset, recommended),
        reward_shift=recommended.shift if run.reward_shift is None else run.reward_shift,
    )
    return run, dataset


def reward_scale(run: RunConfig, dataset: Dataset, recommended: RewardTransform) -> float:
    """What rewards are multiplied by: what the returns ask for, what was given, or what suits."""
    if run.return_range is not None:
        return scale_for_returns(dataset, run.return_range)
    return recommended.scale if run.reward_scale is None else run.reward_scale


def resume(run: str | Path, *, dataset: Dataset | None = None, steps: int | None = None) -> Agent:
    """Go on with a run from its newest sound checkpoint, to the same bits as if never interrupted.

    Runs that are trained together go on together. `dataset` is needed only where the run was started
    with one from memory; `steps` lengthens the run.
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
        dataset = dataset or data.load(first.dataset, data_file=first.data_file)
        for folder in folders:
            if dataset.fingerprint != folder.config["dataset"]["fingerprint"]:
                raise CharyError(
                    f"{folder.path}: the data of '{first.dataset}' is not what this run learned from "
                    f"(fingerprint {dataset.fingerprint[:12]}, not "
                    f"{folder.config['dataset']['fingerprint'][:12]})."
                )
        specs = [Spec(spec.config, replace(spec.run, steps=steps or goal)) for spec in specs]
        plan = make_plan(algorithm, specs, dataset)
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


def _go_on(plan: loop.Plan, folders: Sequence[RunFolder], *, yes: bool) -> chunk.Carry:
    """Train to the end from the newest step of which all have a sound checkpoint, or from the start."""
    step, carries = group.restore(folders, plan.initial_carries())
    configs = [folder.config for folder in folders]
    carry = turns.begin(plan.algorithm, configs, chunk.together(carries), step)
    forecast = Forecast(plan.title, plan.run.steps, plan.flops, ask=not yes)
    return loop.run_loop(plan, folders, carry, step, forecast)


def open_run(run: str | Path, *, which: str = "last") -> Agent:
    """What a run has learned: its last state, or the one that scored best."""
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
    _, carry, damage = folder.restore(like, step=best["step"] if best else None)
    for line in damage:
        warnings.warn(f"{line} Using an earlier one.", stacklevel=2)
    scaling = Scaling.from_json(folder.config["scaling"])
    return Agent(
        made,
        carry.state,
        scaling,
        find_task(described["name"]),
        seed=run_config.seed,
        folder=folder.path,
    )


def make_plan(algorithm: str, specs: Sequence[Spec], dataset: Dataset) -> loop.Plan:
    """Put together what the loop needs for runs that differ only in seeds and continuous settings."""
    config, run = specs[0]
    sizes = dataset.observation_size, dataset.action_size

    def make(config: Any) -> Algorithm[Any]:
        made = algos.entry(algorithm).make(config, *sizes)
        return replace(made, update=multiplying_in(run.matmul, made.update))

    # Equal settings are one value, so that what is compiled for one run serves the next.
    made = {c: make(c) for c in dict.fromkeys(spec.config for spec in specs)}
    first = made[config]
    if run.validation and first.validate is None:
        raise CharyError(
            f"--validation holds out data to score an algorithm on, but {algorithm} has no such score."
        )
    learn_from, held_out = dataset, None
    if run.validation:
        learn_from, held_out = dataset.split(run.validation, run.seed)
    scaling = scaling_of(learn_from, run)
    members = f", {config.members} members" if hasattr(config, "members") else ""
    title = (
        f"{len(specs)} runs of {algorithm}{members} each" if len(specs) > 1 else algorithm + members
    )
    return loop.Plan(
        lanes=tuple(
            loop.Lane(made[config], getattr(config, "discount", None), run) for config, run in specs
        ),
        title=title,
        batch_size=config.batch_size,
        feed=make_feed(
            first, learn_from, scaling, config.batch_size, seeds=[s.run.seed for s in specs]
        ),
        held_out=held_out.transitions(scaling) if held_out else None,
        scaling=scaling,
        task=task_of(dataset),
    )


def scaling_of(dataset: Dataset, run: RunConfig) -> Scaling:
    """How a run sees the data that it learns from."""
    assert run.reward_scale is not None and run.reward_shift is not None
    reward = RewardTransform(run.reward_scale, run.reward_shift)
    return Scaling.of(dataset, reward, normalise_observations=run.normalise_observations)


def task_of(dataset: Dataset) -> Task | None:
    """The simulator that goes by the dataset's name, if it takes such observations and actions."""
    task = find_task(dataset.name)
    if task is None:
        return None
    environment = task.make()
    spaces = environment.observation_space.shape, environment.action_space.shape
    environment.close()
    sizes = (dataset.observation_size,), (dataset.action_size,)
    if spaces != sizes:
        raise CharyError(
            f"the data is called '{dataset.name}' like a task whose observations and actions are "
            f"{spaces}, but has {sizes}. Give it another name."
        )
    return task
