"""Training from Python: start a run, go on with one, or open what it has learned."""

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from chary import algos, chunk, data, loop, settings
from chary.agent import Agent
from chary.data import sources
from chary.data.dataset import Dataset
from chary.data.scaling import RewardTransform, Scaling, scale_for_returns
from chary.envs import Task, find_task
from chary.errors import CharyError, unknown_name
from chary.feed import make_feed
from chary.machine import command_line, layout, versions
from chary.runs import RunFolder, claimed
from chary.settings import RunConfig
from chary.tensorboard import require_tensorboard
from chary.version import __version__


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
    name = dataset.name if isinstance(dataset, Dataset) else str(dataset)
    config, run_config = configure(algorithm, preset, name)
    changes["dataset"] = name
    if isinstance(dataset, Dataset):
        changes["dataset"] = dataset.origin or name
        changes["data_file"] = Path(dataset.data_file) if dataset.data_file else None
    if run is not None:
        changes["run"] = Path(run)
    config, run_config = settings.apply(changes, config, run_config, source="chary.train")
    return start(algorithm, config, run_config, dataset=dataset, preset=preset, go_on=resume)


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
) -> Agent:
    """Begin a run with complete settings, or go on with the same one where that is asked for."""
    run, dataset = complete(algorithm, run, dataset)
    assert run.run is not None
    if getattr(config, "warmup_steps", 0) >= run.steps:
        warnings.warn(
            f"all {run.steps} steps are warm-up (--warmup-steps is {config.warmup_steps}): the policy "
            "will learn nothing from rewards. Set --warmup-steps or take a --preset.",
            stacklevel=2,
        )
    if run.tensorboard:
        require_tensorboard()
    plan = _plan(algorithm, config, run, dataset)
    with claimed(run.run):
        folder = same_run(algorithm, config, run, dataset)
        if folder is None:
            record = {
                "chary": __version__,
                **_identity(algorithm, config, run, dataset),
                "preset": preset,
                "scaling": plan.scaling.to_json(),
                "layout": layout(),
                "versions": versions(),
                "command": command_line(),
            }
            return _train(plan, RunFolder.create(run.run, record), None, 0)
        if not go_on:
            raise CharyError(
                f"{_there(folder)}. Go on with `chary resume {folder.path}`, or choose another folder."
            )
        return _go_on(folder, plan)


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


def same_run(algorithm: str, config: Any, run: RunConfig, dataset: Dataset) -> RunFolder | None:
    """What is already in a run's folder, which must be the same run; None where nothing is."""
    assert run.run is not None
    if not RunFolder.exists(run.run):
        return None
    folder = RunFolder.open(run.run)
    differences = _differences(folder.config, _identity(algorithm, config, run, dataset))
    if differences:
        raise CharyError(
            f"{_there(folder)}, with other settings ({'; '.join(differences)}). Choose another folder."
        )
    return folder


def _identity(algorithm: str, config: Any, run: RunConfig, dataset: Dataset) -> dict[str, Any]:
    """What makes a run this run and no other."""
    return {
        "algorithm": algorithm,
        "settings": settings.to_json(config),
        "run": settings.to_json(run),
        "dataset": {
            "name": dataset.name,
            "fingerprint": dataset.fingerprint,
            "transitions": dataset.size,
            "observation_size": dataset.observation_size,
            "action_size": dataset.action_size,
        },
    }


def resume(run: str | Path, *, dataset: Dataset | None = None, steps: int | None = None) -> Agent:
    """Go on with a run from its newest sound checkpoint, to the same bits as if never interrupted.

    `dataset` is needed only where the run was started with one from memory; `steps` lengthens the
    run.
    """
    RunFolder.open(Path(run))  # refuses what is no run before claiming it
    with claimed(Path(run)):
        folder = RunFolder.open(Path(run))
        algorithm, config, run_config = _settings_of(folder)
        run_config = replace(run_config, run=folder.path)  # it may have been moved
        if steps is not None and steps < run_config.steps:
            raise CharyError(
                f"{run}: already meant to run {run_config.steps} steps; --steps must not be less."
            )
        dataset = dataset or data.load(run_config.dataset, data_file=run_config.data_file)
        if dataset.fingerprint != folder.config["dataset"]["fingerprint"]:
            raise CharyError(
                f"{run}: the data of '{run_config.dataset}' is not what this run learned from "
                f"(fingerprint {dataset.fingerprint[:12]}, not "
                f"{folder.config['dataset']['fingerprint'][:12]})."
            )
        if steps is not None:
            run_config = replace(run_config, steps=steps)
            folder.write_config({**folder.config, "run": settings.to_json(run_config)})
        return _go_on(folder, _plan(algorithm, config, run_config, dataset))


def _go_on(folder: RunFolder, plan: loop.Plan) -> Agent:
    """Train on from the newest sound checkpoint."""
    _warn_of_changes(folder)
    carry, step = None, 0
    if folder.checkpoint_steps():
        step, carry, damage = folder.restore(plan.initial_carry())
        for line in damage:
            warnings.warn(f"{line} Going on from step {step}.", stacklevel=3)
    folder.cut_back(step)
    return _train(plan, folder, carry, step)


def open_run(run: str | Path, *, which: str = "last") -> Agent:
    """What a run has learned: its last state, or the one that scored best."""
    folder = RunFolder.open(Path(run))
    algorithm, config, run_config = _settings_of(folder)
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


def _plan(algorithm: str, config: Any, run: RunConfig, dataset: Dataset) -> loop.Plan:
    """Put together what the loop needs."""
    assert run.reward_scale is not None and run.reward_shift is not None
    reward = RewardTransform(run.reward_scale, run.reward_shift)
    made = algos.entry(algorithm).make(config, dataset.observation_size, dataset.action_size)
    if run.validation and made.validate is None:
        raise CharyError(
            f"--validation holds out data to score an algorithm on, but {algorithm} has no such score."
        )
    held_out = None
    learn_from = dataset
    if run.validation:
        learn_from, held_out = dataset.split(run.validation, run.seed)
    scaling = Scaling.of(learn_from, reward, normalise_observations=run.normalise_observations)
    return loop.Plan(
        algorithm=made,
        batch_size=config.batch_size,
        discount=getattr(config, "discount", None),
        run=run,
        feed=make_feed(made, learn_from, scaling, config.batch_size, seed=run.seed),
        held_out=held_out.transitions(scaling) if held_out else None,
        scaling=scaling,
        task=_task_of(dataset),
    )


def _task_of(dataset: Dataset) -> Task | None:
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


def _train(plan: loop.Plan, folder: RunFolder, carry: chunk.Carry | None, step: int) -> Agent:
    carry = loop.run_loop(plan, folder, carry or plan.initial_carry(), step)
    return plan.agent(carry.state)


def _settings_of(folder: RunFolder) -> tuple[str, Any, RunConfig]:
    """The algorithm and settings that a run folder records."""
    try:
        algorithm = folder.config["algorithm"]
        config = settings.from_json(algos.entry(algorithm).config, folder.config["settings"])
        run = settings.from_json(RunConfig, folder.config["run"])
        described = ("name", "fingerprint", "observation_size", "action_size")
        for part, keys in (("dataset", described), ("scaling", Scaling._fields)):
            for key in keys:
                folder.config[part][key]  # a damaged file is noticed here, not halfway through
    except (KeyError, TypeError, AttributeError) as error:
        raise CharyError(
            f"{folder.path}/config.json: damaged or of another version ({error})."
        ) from error
    return algorithm, config, run


def _differences(there: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Settings in which the run in a folder differs from the one that is wanted."""
    if there.get("algorithm") != wanted["algorithm"]:
        return [f"algorithm is {there.get('algorithm')} there, not {wanted['algorithm']}"]
    differences: list[str] = []
    for part in ("settings", "run", "dataset"):
        mine, theirs = wanted[part], there.get(part, {})
        # A folder may be called by another name: runs/a, or its whole path.
        changed = [key for key in mine if mine[key] != theirs.get(key) and key != "run"]
        differences += [f"{key} is {theirs.get(key)} there, not {mine[key]}" for key in changed]
    return differences


def _there(folder: RunFolder) -> str:
    steps = folder.checkpoint_steps()
    return f"{folder.path}: already holds a run, at step {steps[-1] if steps else 0}"


def _warn_of_changes(folder: RunFolder) -> None:
    """Resuming is exact only on the same kind of machine with the same versions."""
    for part, now in (("layout", layout()), ("versions", versions())):
        before = folder.config.get(part, {})
        changed = [f"{k} {before.get(k)} -> {v}" for k, v in now.items() if before.get(k) != v]
        if changed:
            warnings.warn(
                f"{folder.path}: resumed with another {part} ({'; '.join(changed)}); the result may "
                "differ in the last bits from an uninterrupted run.",
                stacklevel=3,
            )
