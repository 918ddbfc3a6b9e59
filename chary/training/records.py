"""What a run folder records of its run (config.json), and whether it is the run that is asked for."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chary import algos
from chary import config as settings
from chary.algos.critics import with_target_entropy
from chary.data.dataset import Dataset
from chary.data.scaling import Scaling
from chary.data.summary import summarise
from chary.errors import CharyError
from chary.evaluation.agent import Agent
from chary.evaluation.limits import Limits, limits_of
from chary.execution.config import Execution
from chary.host.importing import require_trusted
from chary.host.machine import command_line, layout, source, versions
from chary.online.config import OnlineConfig
from chary.runs.folder import RunFolder
from chary.runs.schema import require_config
from chary.training.plan import kept_out, validation_split
from chary.training.run_config import RunConfig, RunSpec
from chary.version import __version__


def of(
    spec: RunSpec, dataset: Dataset, scaling: Scaling, held_out: Dataset | None
) -> dict[str, Any]:
    """The record of a new run."""
    record = {
        "chary": __version__,
        **_identity(spec, dataset),
        "preset": spec.preset,
        "scaling": scaling.to_json(),
        "columns": {
            "observations": dataset.observation_names,
            "actions": dataset.action_names,
        },
        "layout": layout(),
        "versions": versions(),
        "command": command_line(),
        "source": source(),
    }
    if held_out is not None:
        record["held_out"] = {"transitions": held_out.size, "fingerprint": held_out.fingerprint}
    return record


def same_run(spec: RunSpec, dataset: Dataset | None) -> RunFolder | None:
    """What is already in a run's folder, which must be the same run; None where nothing is.

    Without the dataset, only what does not depend on it is compared.
    """
    if not RunFolder.exists(spec.folder):
        return None
    folder = RunFolder.open(spec.folder)
    differences = _differences(folder, spec, dataset)
    if len(differences) == 1 and spec.run.steps > folder.config["run"]["steps"]:
        raise CharyError(
            f"{there(folder)}, with the same settings but {folder.config['run']['steps']} steps. Extend "
            f"it with `chary resume {folder.path} --steps {spec.run.steps}`, or choose another folder."
        )
    if differences:
        raise CharyError(
            f"{there(folder)}, with other settings ({'; '.join(differences)}). Choose another folder."
        )
    return folder


def spec_of(folder: RunFolder) -> RunSpec:
    """The settings that a run folder records."""
    record = folder.config
    try:
        require_config(record)
        algorithm = record["algorithm"]
        config = settings.from_json(entry_of(algorithm, folder.path).config, record["settings"])
        config = with_target_entropy(config, record["dataset"]["action_size"])
        run = settings.from_json(RunConfig, record["run"])
        execution = settings.from_json(Execution, Execution.recorded(record))
        acts = record.get("online")
        online = settings.from_json(OnlineConfig, acts) if acts else None
        Scaling.from_json(record["scaling"])  # damage is noticed here, not halfway through
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise CharyError(
            f"{folder.path}/config.json: damaged or of another version ({error})."
        ) from error
    run = replace(run, run=folder.path)  # it may have been moved
    return RunSpec(algorithm, config, run, execution, record.get("preset", "none"), online)


def entry_of(algorithm: str, folder: Path) -> algos.Entry:
    """The algorithm that a folder names; one of its maker's own is imported only if it is trusted."""
    if ":" in algorithm:
        require_trusted([algorithm], folder)
    return algos.entry(algorithm)


def record_changes(folder: RunFolder, spec: RunSpec) -> None:
    """Write down what a resumed run does otherwise from now on: its steps, trackers and execution."""
    recorded = spec_of(folder)
    if (spec.run, spec.execution) != (recorded.run, recorded.execution):
        folder.write_config({**folder.config, **_settings(spec)})


def keep_summary(folders: Sequence[RunFolder], dataset: Dataset) -> None:
    """Write down what the data is, in folders that do not have it yet."""
    without = [folder for folder in folders if not folder.has_data]
    if without:
        task = dataset.task
        scaling = without[0].config.get("scaling", {})
        normalised = any(deviation != 1.0 for deviation in scaling.get("observation_std", ()))
        summary = summarise(dataset, task.maze if task else None, normalised=normalised)
        for folder in without:
            folder.write_data(summary)


def keep_limits(folder: RunFolder, agent: Agent, dataset: Dataset, run: RunConfig) -> None:
    """Write down where the data ends for the critics of the last step, and tell the agent."""
    step = folder.checkpoint_steps()[-1]
    agent.limits = limits_at(folder, step)
    if agent.limits is None:
        agent.limits = limits_of(agent, *known_and_held_out(dataset, run), step)
        folder.save_limits(agent.limits.arrays())


def known_and_held_out(dataset: Dataset, run: RunConfig) -> tuple[Dataset, Dataset | None]:
    """What a run learned from, and the episodes that it did not, if any."""
    kept, held_out = kept_out(dataset, run)
    learned_from, validated_on = validation_split(kept, run)
    return learned_from, held_out or validated_on


def limits_at(folder: RunFolder, step: int) -> Limits | None:
    """What was written down; None for another step than the last, or where it was not."""
    try:
        arrays = folder.limits()
        limits = None if arrays is None else Limits.of_arrays(arrays)
    except (ValueError, KeyError, TypeError) as error:
        warnings.warn(
            f"{folder.path}/limits.npz: cannot be read ({error}). Delete it; `chary resume "
            f"{folder.path}` makes it again.",
            stacklevel=2,
        )
        return None
    return limits if limits is not None and limits.step == step else None


def already(folder: RunFolder, home: Path | None = None) -> str:
    """What to do about a run that is there: resume it, or extend it where it is complete."""
    goal, path = folder.config["run"]["steps"], home or folder.path
    steps = folder.checkpoint_steps()
    if steps and steps[-1] >= goal:
        return (
            f"{there(folder)}, its last. Extend it with `chary resume {path} --steps {2 * goal}`, say, "
            "or choose another folder."
        )
    return f"{there(folder)}. Resume it with `chary resume {path}`, or choose another folder."


def there(folder: RunFolder) -> str:
    """What a folder that is not empty holds."""
    steps = folder.checkpoint_steps()
    return f"{folder.path}: already holds a run, at step {steps[-1] if steps else 0}"


def warn_of_changes(folder: RunFolder) -> None:
    """Resuming is exact only on the same kind of machine with the same versions."""
    for part, now in (("layout", layout()), ("versions", versions())):
        before: dict[str, Any] = folder.config.get(part, {})
        changed = [f"{k} {before.get(k)} -> {v}" for k, v in now.items() if before.get(k) != v]
        if changed:
            warnings.warn(
                f"{folder.path}: resumed with another {part} ({'; '.join(changed)}); the result may "
                "differ in the last bits from an uninterrupted run.",
                stacklevel=3,
            )


def _identity(spec: RunSpec, dataset: Dataset) -> dict[str, Any]:
    """What makes a run this run and no other."""
    return {"algorithm": spec.algorithm, **_settings(spec), "dataset": _described(dataset)}


def _described(dataset: Dataset) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "fingerprint": dataset.fingerprint,
        "transitions": dataset.size,
        "observation_size": dataset.observation_size,
        "action_size": dataset.action_size,
    }


def _settings(spec: RunSpec) -> dict[str, Any]:
    return {
        "settings": settings.to_json(spec.config),
        "run": settings.to_json(spec.run),
        "execution": settings.to_json(spec.execution),
        **({"online": settings.to_json(spec.online)} if spec.online else {}),
    }


def _differences(folder: RunFolder, spec: RunSpec, dataset: Dataset | None) -> list[str]:
    """Settings in which the run in a folder differs from the one that is asked for."""
    recorded = folder.config.get("algorithm")
    if recorded != spec.algorithm:
        return [f"algorithm is {recorded} there, not {spec.algorithm}"]
    if dataset is not None:
        spec = spec._replace(config=with_target_entropy(spec.config, dataset.action_size))
    # Read as a run is: settings that are newer than it are there too, as what it did without them.
    parts = [(theirs, _settings(spec)[part]) for part, theirs in _settings(spec_of(folder)).items()]
    if dataset is not None:
        parts.append((folder.config["dataset"], _described(dataset)))
    return [
        f"{key} is {theirs.get(key)} there, not {mine[key]}"
        for theirs, mine in parts
        for key in mine
        if mine[key] != theirs.get(key) and not _open(key, mine[key], complete=dataset is not None)
    ]


def _open(key: str, value: Any, *, complete: bool) -> bool:
    """Whether a setting may be another: a folder has many names (runs/a, or its path), and a run that is
    there keeps what nobody asked to change: its window, its executor, the range of its values. Before
    the settings are complete, so is all that the data is to say."""
    if not complete and (value in (None, "auto", "all") or key in ("dataset", "data_file")):
        return True
    defaults = (("window", None), ("executor", "fused"), ("value_range", "auto"))
    return key == "run" or (key, value) in defaults
