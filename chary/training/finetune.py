"""Start runs that learn in their task: from a trained run, or from nothing.

Both make an ordinary run folder whose first checkpoint, of step 0, is what they start with. Training is
then the same as resuming it.
"""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from chary import algos
from chary import config as settings
from chary.data import formats
from chary.data.dataset import Dataset
from chary.errors import CharyError
from chary.evaluation.agent import Agent
from chary.evaluation.own_env import task_of
from chary.execution import program
from chary.online.config import OnlineConfig
from chary.online.first_rows import random_rows
from chary.runs.folder import RunFolder
from chary.training import groups, plan, records, resolve, start
from chary.training.learned_from import check_data, load_again
from chary.training.run_config import RunSpec


def finetune(
    run: str | Path,
    *,
    dataset: Dataset | None = None,
    out: str | Path | None = None,
    yes: bool = True,
    **changes: Any,
) -> Agent:
    """Let a trained run learn on in its task, in a run folder of its own (`out`).

    `changes` are settings by the names that `chary finetune --help` shows (with underscores). `dataset`
    is needed only if the run was started with a dataset from memory.
    """
    parent = Path(run)
    folder = RunFolder.open(parent)
    was = records.spec_of(folder)
    online, ours = settings.apply(
        {"parent": parent.resolve(), **changes}, OnlineConfig(), was.run, source="finetune"
    )
    ours = replace(ours, run=Path(out or f"{parent}-finetuned"), patience=0)
    config = was.config
    if getattr(config, "policy_decay_steps", 0):
        config = replace(config, policy_decay_steps=0)  # its end was that of the parent
    spec = RunSpec(
        was.algorithm, config, ours, replace(was.execution, devices=1), was.preset, online
    )
    dataset = dataset or load_again(parent, was.run)
    check_data(folder, dataset)
    trained = start.open_run(parent).state
    return _begin(spec, dataset, trained, yes=yes)


def train_online(
    algorithm: str,
    env: str | None = None,
    *,
    dataset: str | Path | Dataset | None = None,
    preset: str = "auto",
    run: str | Path | None = None,
    yes: bool = True,
    **changes: Any,
) -> Agent:
    """Learn in a task from nothing: from what is tried alone, or beside logged data.

    Data that has a task of its own needs no `env`.

    `changes` are settings by the names that `chary train-online <algorithm> --help` shows.
    """
    acting = {f.name for f in fields(OnlineConfig)}
    online = OnlineConfig(**{name: value for name, value in changes.items() if name in acting})
    others = {name: value for name, value in changes.items() if name not in acting}
    spec = resolve.resolve(algorithm, dataset or env or "", preset, run, {**others, "env": env})
    return start_online(spec._replace(online=online), dataset, yes=yes)


def start_online(spec: RunSpec, dataset: str | Path | Dataset | None, *, yes: bool = True) -> Agent:
    """Begin a run that has no parent; without data its first rows are random actions."""
    online, env = spec.online, spec.run.env
    assert online is not None
    if spec.algorithm in ("msg", "cql"):  # they clone first, of which there is nothing to gain here
        spec = spec._replace(config=replace(spec.config, warmup_steps=0))
    if dataset:
        spec, dataset = resolve.complete(spec, dataset)
        return _begin(spec, dataset, None, yes=yes)
    if env is None:
        raise CharyError("--env is missing: a Gymnasium id, or your own module:make.")
    folder = spec.run.run or resolve.default_folder(spec.algorithm, env, spec.run.seed)
    with groups.all_claimed([folder]):
        if RunFolder.exists(folder):
            raise CharyError(records.already(RunFolder.open(folder)))
        task = task_of(env)
        seconds = online.step_seconds
        rows = random_rows(task, max(online.warmup, 1), spec.run.seed, step_seconds=seconds)
        formats.write(rows, folder / "start.npz")
        # What was random is data now; all else is sampled as it comes.
        online = replace(online, warmup=0, retain=None)
        run = replace(spec.run, run=folder)
        spec, dataset = resolve.complete(
            spec._replace(run=run, online=online), folder / "start.npz"
        )
        _make(spec, dataset, None)
    return _train(spec, dataset, yes=yes)


def _begin(spec: RunSpec, dataset: Dataset, state: Any, *, yes: bool) -> Agent:
    """Make the run's folder with what it starts from, then train."""
    with groups.all_claimed([spec.folder]):
        _make(spec, dataset, state)
    return _train(spec, dataset, yes=yes)


def _make(spec: RunSpec, dataset: Dataset, state: Any) -> None:
    spec = resolve.with_window(_complete(spec, dataset), dataset)
    there = records.same_run(spec, dataset)
    if there is not None and there.checkpoint_steps():  # without one it was killed as it began
        raise CharyError(records.already(there))
    plan.check(spec, dataset)
    learn_from, _ = plan.split(dataset, spec.run)
    (folder,) = groups.create([spec], dataset, plan.scaling_of(learn_from, spec.run))
    if state is not None:
        sizes = dataset.observation_size, dataset.action_size
        made = algos.build(spec.algorithm, spec.config, *sizes)
        like = program.initial_carry(made, spec.config.batch_size, *sizes, seed=spec.run.seed)
        folder.save_checkpoint(0, like._replace(state=state))


def _train(spec: RunSpec, dataset: Dataset, *, yes: bool) -> Agent:
    agent = start.resume_all([spec.folder], dataset=dataset, yes=yes)[spec.folder]
    assert agent is not None  # a run that diverges alone is an error
    return agent


def _complete(spec: RunSpec, dataset: Dataset) -> RunSpec:
    """The settings with what they leave open, refused where rounds do not fit."""
    online, run = spec.online, spec.run
    assert online is not None
    sizes = dataset.observation_size, dataset.action_size
    if algos.build(spec.algorithm, spec.config, *sizes).values is None:
        raise CharyError(
            f"{spec.algorithm} has no critics, so it cannot learn from what it tries in its task."
        )
    if online.loosen_steps is None:
        online = replace(online, loosen_steps=run.steps // 5)
    if run.env is None and dataset.task is None:
        raise CharyError(
            f"'{dataset.name}' has no simulator to act in. Name one with --env: a Gymnasium id, or "
            "your own module:make."
        )
    for name in ("steps", "log_every", "eval_every"):
        if getattr(run, name) % online.environments:
            raise CharyError(
                f"--{name.replace('_', '-')} is {getattr(run, name)}, but must be a multiple of "
                f"--environments ({online.environments}): all of them are stepped together."
            )
    return spec._replace(online=online)
