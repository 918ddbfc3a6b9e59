"""From what a user asks for to complete settings: presets, and what suits the data and the machine."""

import difflib
import re
import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from chary import algos, data
from chary import config as settings
from chary.algos import paper
from chary.algos.critics import with_target_entropy
from chary.data import sources
from chary.data.dataset import Dataset
from chary.data.scaling import (
    RewardTransform,
    scale_for_returns,
    standard_rewards,
    uneven_scales,
    value_range,
)
from chary.errors import CharyError, unknown_name
from chary.execution.config import DEFAULT, Execution
from chary.execution.devices import counted
from chary.host.terminal import say
from chary.training.run_config import RunConfig, RunSpec
from chary.training.window_size import window_size

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
) -> RunSpec:
    """A run's settings: the preset's, with changes."""
    name = dataset.name if isinstance(dataset, Dataset) else str(dataset)
    config, run_config = configure(algorithm, preset, name, changes)
    changes = {**changes, "dataset": name}
    if isinstance(dataset, Dataset):
        changes["dataset"] = dataset.origin or name
        changes["data_file"] = Path(dataset.data_file) if dataset.data_file else None
    if run is not None:
        changes["run"] = Path(run)
    applied = settings.apply(changes, config, run_config, DEFAULT, source="chary.train")
    return RunSpec(algorithm, *applied, preset=preset)


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
    own: Mapping[str, Any] = {}
    """Those of the changes that the algorithm's authors made for this dataset alone."""


def find_preset(algorithm: str, preset: str, dataset: str) -> Preset:
    """The preset of that name: `auto` is what suits the dataset, `paper` its domain's `paper-*`."""
    presets = {OWN: SHORT, **algos.entry(algorithm).presets}
    named = sources.recognise(dataset) if preset in ("auto", "paper") else None
    if preset == "auto":
        preset = named.preset if named else OWN if dataset else "none"
    row, own = None, {}
    if preset == "paper":
        if named is None or named.domain is None:
            raise _not_in_the_paper(dataset, presets)
        preset, row = f"paper-{named.domain}", paper.row_of(algorithm, named.name)
        own = algos.entry(algorithm).by_dataset.get(paper.without_version(named.name), {})
    if preset != "none" and preset not in presets:
        known = ["auto", "none", "paper", *presets]
        raise unknown_name("preset", preset, known, f"(of {algorithm})")
    return Preset(preset, {**presets.get(preset, {}), **own}, row, own)


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


def explain(spec: RunSpec, dataset: str | Path | Dataset, varied: Collection[str] = ()) -> None:
    """Say where the numbers of the preset `paper` come from, leaving out what a population varies."""
    name = dataset.name if isinstance(dataset, Dataset) else str(dataset)
    found = find_preset(spec.algorithm, spec.preset, name)
    if found.row is not None:
        fixed = {key: getattr(spec.config, key) for key in ("beta", "alpha") if key not in varied}
        text = paper.describe(found.row, spec.config.members, fixed)
    elif found.own:
        kept = [n for n, x in found.own.items() if n not in varied and getattr(spec.config, n) == x]
        numbers = " and ".join(f"{name} {found.own[name]:g}" for name in kept)
        text = found.name + (f"; {numbers}, its authors' for this dataset" if kept else "")
    elif spec.preset == "paper":
        text = (
            f"{found.name}; the paper has no table of best settings for {spec.algorithm} on this "
            "dataset"
        )
    else:
        text = ""
    if text:
        say(f"preset {spec.preset}: {text}")


def explain_own(spec: RunSpec, dataset: Dataset) -> None:
    """Say what was taken for data without a known name; what is to be trained, and how it is scaled."""
    if dataset.named is not None:
        return
    config, run = spec.config, spec.run
    size = "x".join(map(str, getattr(config, "hidden", ())))
    members = (
        f"{config.members} members of {size}" if hasattr(config, "members") else f"layers {size}"
    )
    taken = find_preset(spec.algorithm, spec.preset, run.dataset or "data").name
    way = run.normalise_observations
    scaled = "left as they are" if way == "none" else f"scaled by {way}"
    say(
        f"{run.dataset}: data of your own. Preset {taken}: {members}, batches of {config.batch_size}, "
        f"{run.steps:,} steps. Observations are {scaled}; "
        f"learning sees {run.reward_scale:g} * (reward {run.reward_shift:+g})."
    )


def default_folder(algorithm: str, name: str, seed: int) -> Path:
    """Where a run goes unless the user says."""
    return Path("runs") / re.sub(r"[/:]", "-", f"{algorithm}-{name}-{seed}")


def complete(spec: RunSpec, dataset: str | Path | Dataset) -> tuple[RunSpec, Dataset]:
    """The dataset, loaded, and a run's settings with what suits it filled in."""
    run, dataset = complete_run(spec.algorithm, spec.run, dataset)
    config = with_target_entropy(spec.config, dataset.action_size)
    bins = getattr(config, "critic_loss", "squared") == "hl-gauss"
    if bins and config.value_range == "auto":
        assert run.reward_scale is not None and run.reward_shift is not None
        reward = RewardTransform(run.reward_scale, run.reward_shift)
        config = replace(config, value_range=value_range(dataset, reward, config.discount))
    execution = replace(spec.execution, devices=counted(spec.execution.devices))
    return spec._replace(config=config, run=run, execution=execution), dataset


def complete_run(
    algorithm: str, run: RunConfig, dataset: str | Path | Dataset
) -> tuple[RunConfig, Dataset]:
    """The dataset, and the run's own settings for it: folder, scales of rewards and observations."""
    if not isinstance(dataset, Dataset):
        dataset = data.load(dataset, data_file=run.data_file)
        run = replace(run, dataset=dataset.origin)
        if dataset.data_file:
            run = replace(run, data_file=Path(dataset.data_file))
    # What suits a named dataset goes with its name; data of the user's own gets a standard scale.
    named = dataset.named
    recommended = named.reward if named else _own_rewards(run, dataset)
    normalise = run.normalise_observations
    if normalise == "auto":
        normalise = "none" if named else "quantiles"
    if not named and normalise == "none":
        _warn_of_scales(dataset)
    run = replace(
        run,
        run=run.run or default_folder(algorithm, dataset.name, run.seed),
        reward_scale=reward_scale(run, dataset, recommended),
        reward_shift=recommended.shift if run.reward_shift is None else run.reward_shift,
        normalise_observations=normalise,
    )
    return run, dataset


def with_window(spec: RunSpec, dataset: Dataset) -> RunSpec:
    """A new run's settings with the number of members that are updated together, by the rule."""
    execution: Execution = spec.execution
    if (
        execution.window
        or execution.executor == "plain"
        or not algos.entry(spec.algorithm).executed
    ):
        return spec
    sizes = dataset.observation_size, dataset.action_size
    window = window_size(spec.config, execution.devices, *sizes)
    return spec._replace(execution=replace(execution, window=window))


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
