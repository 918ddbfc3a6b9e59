"""From settings and a dataset to all that the loop needs, refused here if it cannot be."""

import difflib
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax

from chary import algos, data
from chary import config as settings
from chary.algos import paper
from chary.algos.critics import with_target_entropy
from chary.data import finite, sources
from chary.data.dataset import Dataset
from chary.data.scaling import (
    RewardTransform,
    Scaling,
    scale_for_returns,
    standard_rewards,
    uneven_scales,
    value_range,
)
from chary.data.tasks import find_task
from chary.envs import Task
from chary.errors import CharyError, unknown_name
from chary.evaluation.inputs import Names
from chary.evaluation.own_env import own_task
from chary.execution import devices
from chary.execution.batches import make_feed
from chary.host.terminal import say
from chary.networks.matmul import multiplying_in
from chary.runs.folder import RunFolder
from chary.runs.tensorboard import require_tensorboard
from chary.training import loop
from chary.training.groups import Spec
from chary.training.run_config import RunConfig
from chary.training.window_size import window_size
from chary.types import Algorithm

OWN = "own-data"
"""The preset for data without a known name."""
SHORT: dict[str, Any] = {"steps": 20_000}
"""What it is for algorithms that have none of their own: their defaults, for a laptop's time."""


def resolve(
    algorithm: str,
    dataset: str | Path | Dataset,
    preset: str,
    run: str | Path | None,
    changes: dict[str, Any],
) -> tuple[Any, RunConfig]:
    """An algorithm's settings and the run's: the preset's, with changes."""
    name = dataset.name if isinstance(dataset, Dataset) else str(dataset)
    config, run_config = configure(algorithm, preset, name, changes)
    changes = {**changes, "dataset": name}
    if isinstance(dataset, Dataset):
        changes["dataset"] = dataset.origin or name
        changes["data_file"] = Path(dataset.data_file) if dataset.data_file else None
    if run is not None:
        changes["run"] = Path(run)
    return settings.apply(changes, config, run_config, source="chary.train")


def configure(
    algorithm: str, preset: str, dataset: str, given: Mapping[str, Any] | None = None
) -> tuple[Any, RunConfig]:
    """An algorithm's settings and the run's, as a preset has them for a dataset.

    `given` is what the user sets; of it the preset `paper` only looks at what decides the number of
    members. It is applied by the caller, and so wins over the preset.
    """
    found = find_preset(algorithm, preset, dataset)
    entry = algos.entry(algorithm)
    config, run = settings.apply(
        found.changes, entry.config(), RunConfig(), source=f"preset {found.name}"
    )
    if found.row is not None:
        deciding = {key: value for key, value in (given or {}).items() if key in paper.DECIDING}
        best = paper.choose(found.row, replace(config, **deciding).members)
        config = replace(config, beta=best.beta, alpha=best.alpha)
    return config, run


class Preset(NamedTuple):
    """A preset as a dataset has it."""

    name: str
    changes: dict[str, Any]
    row: str | None = None
    """The row of the paper's Table 1 that goes on top, where the preset asks for one and it is there."""


def find_preset(algorithm: str, preset: str, dataset: str) -> Preset:
    """The preset of that name: `auto` is what suits the dataset, `paper` its domain's `paper-*`."""
    presets = {OWN: SHORT, **algos.entry(algorithm).presets}
    named = sources.recognise(dataset) if preset in ("auto", "paper") else None
    if preset == "auto":
        preset = named.preset if named else OWN if dataset else "none"
    row = None
    if preset == "paper":
        if named is None or named.domain is None:
            raise _not_in_the_paper(dataset, presets)
        preset, row = f"paper-{named.domain}", paper.row_of(algorithm, named.name)
    if preset != "none" and preset not in presets:
        known = ["auto", "none", "paper", *presets]
        raise unknown_name("preset", preset, known, f"(of {algorithm})")
    return Preset(preset, presets.get(preset, {}), row)


def _not_in_the_paper(dataset: str, presets: Collection[str]) -> CharyError:
    known = [entry.name for entry in sources.NAMED.values() if entry.domain]
    close = difflib.get_close_matches(dataset, known, n=1)
    problem = f"'{dataset}' is not one of them" if dataset else "--dataset is missing"
    hint = f" (did you mean {close[0]}?)" if close else ""
    domains = ", ".join(name for name in presets if name.startswith("paper-"))
    return CharyError(
        f"--preset paper is for datasets that the paper uses, by name, but {problem}{hint}. Name one of "
        "D4RL or RL Unplugged, with --data-file for a file of your own; or choose the preset of a "
        f"domain: {domains}."
    )


def explain(
    algorithm: str,
    preset: str,
    dataset: str | Path | Dataset,
    config: Any,
    varied: Collection[str] = (),
) -> None:
    """Say where the numbers of the preset `paper` come from, leaving out what a population varies."""
    name = dataset.name if isinstance(dataset, Dataset) else str(dataset)
    found = find_preset(algorithm, preset, name)
    if found.row is not None:
        fixed = {key: getattr(config, key) for key in ("beta", "alpha") if key not in varied}
        text = paper.describe(found.row, config.members, fixed)
    elif preset == "paper":
        text = (
            f"{found.name}; the paper has no table of best settings for {algorithm} on this dataset"
        )
    else:
        text = ""
    if text:
        say(f"preset {preset}: {text}")


def explain_own(algorithm: str, preset: str, config: Any, run: RunConfig) -> None:
    """Say what was taken for data without a known name; what is to be trained, and how it is scaled."""
    if sources.recognise(run.dataset) is not None:
        return
    size = "x".join(map(str, getattr(config, "hidden", ())))
    members = (
        f"{config.members} members of {size}" if hasattr(config, "members") else f"layers {size}"
    )
    taken = find_preset(algorithm, preset, run.dataset or "data").name
    way = run.normalise_observations
    scaled = "left as they are" if way == "none" else f"scaled by {way}"
    say(
        f"{run.dataset}: data of your own. Preset {taken}: {members}, batches of {config.batch_size}, "
        f"{run.steps:,} steps. Observations are {scaled}; "
        f"learning sees {run.reward_scale:g} * (reward {run.reward_shift:+g})."
    )


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
    """Settings with what is for the data and this machine to say; a run that is there keeps its own."""
    config = with_target_entropy(config, dataset.action_size)
    bins = getattr(config, "critic_loss", "squared") == "hl-gauss"
    if bins and config.value_range == "auto":
        assert run.reward_scale is not None and run.reward_shift is not None
        reward = RewardTransform(run.reward_scale, run.reward_shift)
        config = replace(config, value_range=value_range(dataset, reward, config.discount))
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
        chunk = window_size(config, dataset.observation_size, dataset.action_size)
    return replace(config, chunk=chunk)


def complete(
    algorithm: str, run: RunConfig, dataset: str | Path | Dataset
) -> tuple[RunConfig, Dataset]:
    """The dataset, loaded, and a run's settings with what suits it filled in."""
    # What suits a named dataset goes with its name; data of the user's own gets a standard scale.
    named = sources.recognise(dataset.name if isinstance(dataset, Dataset) else str(dataset))
    if not isinstance(dataset, Dataset):
        dataset = data.load(dataset, data_file=run.data_file)
        run = replace(run, dataset=dataset.origin)
        if dataset.data_file:
            run = replace(run, data_file=Path(dataset.data_file))
    recommended = named.reward if named else _own_rewards(run, dataset)
    normalise = run.normalise_observations
    if normalise == "auto":
        normalise = "none" if named else "quantiles"
    if not named and normalise == "none":
        _warn_of_scales(dataset)
    folder = run.run or Path("runs") / re.sub(
        r"[/:]", "-", f"{algorithm}-{dataset.name}-{run.seed}"
    )
    # A run that is there was allowed to begin.
    if not (run.allow_finite_actions or RunFolder.exists(folder)):
        finite.refuse(dataset.name, dataset.actions, dataset.action_names)
    run = replace(
        run,
        run=folder,
        reward_scale=reward_scale(run, dataset, recommended),
        reward_shift=recommended.shift if run.reward_shift is None else run.reward_shift,
        normalise_observations=normalise,
    )
    return run, dataset


def _own_rewards(run: RunConfig, dataset: Dataset) -> RewardTransform:
    """A standard scale and shift, unless anything is said of either."""
    said = (run.reward_scale, run.reward_shift, run.return_range)
    return standard_rewards(dataset) if said == (None, None, None) else RewardTransform()


def _warn_of_scales(dataset: Dataset) -> None:
    """Networks hardly see a small column beside a large one, and doubt they build on it is none."""
    uneven = uneven_scales(dataset.observations)
    if uneven is not None:
        warnings.warn(
            f"{dataset.name}: {uneven.describe(dataset.observation_names)}, and nothing normalises "
            "them. Values and their spread will hardly depend on the smaller one. Leave out "
            "--normalise-observations, or set it to quantiles.",
            stacklevel=4,
        )


def reward_scale(run: RunConfig, dataset: Dataset, recommended: RewardTransform) -> float:
    """What rewards are multiplied by: what the returns ask for, what was given, or what suits."""
    if run.return_range is not None:
        return scale_for_returns(dataset, run.return_range)
    return recommended.scale if run.reward_scale is None else run.reward_scale


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
    _check_steps(run.n_step, [spec.config for spec in specs], algorithm)
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
            first,
            learn_from,
            scaling,
            config.batch_size,
            seeds=[s.run.seed for s in specs],
            n_step=run.n_step,
            discount=getattr(config, "discount", 1.0),
        ),
        held_out=held_out.transitions(scaling) if held_out else None,
        scaling=scaling,
        task=own_task(run.env, scaling) if run.env else task_of(dataset),
        names=Names(dataset.observation_names, dataset.action_names),
    )


def _check_steps(n_step: int, configs: Sequence[Any], algorithm: str) -> None:
    """Targets of several steps have the discount in the data, which all runs of a program share."""
    discounts = {getattr(config, "discount", None) for config in configs}
    if n_step > 1 and discounts == {None}:
        raise CharyError(f"--n-step {n_step}: {algorithm} has no TD targets to look ahead with.")
    if n_step > 1 and len(discounts) > 1:
        raise CharyError(
            f"--n-step {n_step}: runs with several discounts cannot be trained together, because the "
            "rewards of several steps are summed with one. Train them one after another."
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
