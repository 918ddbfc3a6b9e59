"""Runs that one program trains side by side, as folders: who they are, and where they resume together.

A run alone is a group of one. The folders of a larger group stand beside each other, and each one's
config.json has the names of all (`layout.population`), because a run resumes to the same bits only with
the same others.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from chary import algos
from chary import config as settings
from chary.algos.critics import with_target_entropy
from chary.data.dataset import Dataset
from chary.data.scaling import Scaling
from chary.data.summary import summarise
from chary.errors import CharyError
from chary.execution.config import Execution
from chary.execution.program import Carry
from chary.host.machine import command_line, layout, source, versions
from chary.runs import checkpoints
from chary.runs.folder import RunFolder, claimed
from chary.training.plan import kept_out
from chary.training.run_config import RunConfig, RunSpec
from chary.version import __version__

State = TypeVar("State")


@contextmanager
def all_claimed(paths: Sequence[Path]) -> Iterator[None]:
    """Hold the folders of all runs for this process."""
    with ExitStack() as claims:
        for path in paths:
            claims.enter_context(claimed(path))
        yield


def create(specs: Sequence[RunSpec], dataset: Dataset, scaling: Scaling) -> list[RunFolder]:
    """New folders for runs that are trained together."""
    folders: list[RunFolder] = []
    code = source()
    _, held_out = kept_out(dataset, specs[0].run)
    for index, spec in enumerate(specs):
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
            "source": code,
        }
        if held_out is not None:
            described = {"transitions": held_out.size, "fingerprint": held_out.fingerprint}
            record["held_out"] = described
        if len(specs) > 1:
            names = [other.folder.name for other in specs]
            record["layout"]["population"] = {"names": names, "index": index}
        folders.append(RunFolder.create(spec.folder, record))
    return folders


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


def companions(run: Path) -> list[Path]:
    """The folders of all runs that are trained with this one, itself included."""
    population = RunFolder.open(run).config.get("layout", {}).get("population")
    if population is None:
        return [run]
    names: list[str] = population["names"]
    beside = run if run.name == names[population["index"]] else run.resolve()
    paths = [beside.parent / name for name in names]
    paths[population["index"]] = run
    for index, (name, path) in enumerate(zip(names, paths, strict=True)):
        try:
            theirs = RunFolder.open(path).config.get("layout", {}).get("population")
            problem = "it is not of this group, or was resumed alone"
            sound = theirs == {"names": names, "index": index}
        except CharyError as error:
            problem, sound = str(error), False
        if not sound:
            raise CharyError(
                f"{run} is trained in a group with {len(names) - 1} others, of which '{name}' cannot be "
                f"resumed ({problem.rstrip('.')}). Restore that folder, or resume this run alone, with "
                f"the same result up to rounding: `chary resume {run} --alone`."
            )
    return paths


def to_be_made(folder: RunFolder | None) -> bool:
    """Whether a run is not there, or its group was killed while its folders were made."""
    if folder is None or folder.checkpoint_steps():
        return folder is None
    try:
        companions(folder.path)
    except CharyError:
        return True
    return False


def leave(folder: RunFolder) -> None:
    """From now on the run is trained alone."""
    alone = {k: v for k, v in folder.config["layout"].items() if k != "population"}
    folder.write_config({**folder.config, "layout": alone})


def moved(spec: RunSpec, devices: int) -> RunSpec:
    """The run as it is trained on that many devices."""
    execution = replace(spec.execution, devices=devices)
    if not algos.entry(spec.algorithm).executed:
        raise CharyError(f"{spec.folder}: --devices divides ensembles; {spec.algorithm} has none.")
    if execution.window and spec.config.members // devices % execution.window:
        execution = replace(execution, window=None)  # windows that do not fit any more
    return spec._replace(execution=execution)


def record_changes(folder: RunFolder, spec: RunSpec) -> None:
    """Write down what a resumed run does otherwise from now on: its steps and its execution."""
    recorded = spec_of(folder)
    if (spec.run.steps, spec.execution) != (recorded.run.steps, recorded.execution):
        folder.write_config({**folder.config, **_settings(spec)})


def restore(folders: Sequence[RunFolder], initial: Sequence[Carry]) -> tuple[int, list[Carry]]:
    """The newest step from which all can resume, and their states there; logs are cut back to it."""
    warn_of_changes(folders[0])
    steps = common_steps(folders)
    counts = [len(folder.checkpoint_steps()) for folder in folders]
    if not steps and max(counts) <= 1:  # killed before all had saved for the first time
        step, carries, damage = 0, list(initial), []
    elif not steps:
        without = folders[counts.index(min(counts))].path
        raise CharyError(
            f"{without}: its checkpoints have no step in common with those of the runs in its group. "
            f"Restore them, or resume a single run: `chary resume RUN --alone`."
        )
    else:
        step, carries, damage = restore_all(folders, initial, steps)
    for line in damage:
        warnings.warn(f"{line} Resuming from step {step}.", stacklevel=3)
    for folder in folders:
        folder.cut_back(step)
    return step, carries


def common_steps(folders: Sequence[RunFolder]) -> list[int]:
    """Steps from which runs can resume together, the newest first: all have a checkpoint of it, except
    those that had diverged by then."""
    steps = {step for folder in folders for step in folder.checkpoint_steps()}
    return [
        step
        for step in sorted(steps, reverse=True)
        if all(step in folder.checkpoint_steps() or folder.diverged(step) for folder in folders)
    ]


def restore_all(
    folders: Sequence[RunFolder], likes: Sequence[State], steps: Sequence[int]
) -> tuple[int, list[State], list[str]]:
    """The first of these steps at which every checkpoint is sound, the states, and what is damaged.

    Runs that had diverged by then have none; what they are given is the state in `likes`.
    """
    damage: list[str] = []
    for step in steps:
        states: list[State] = []
        for folder, like in zip(folders, likes, strict=True):
            if step not in folder.checkpoint_steps() and folder.diverged(step):
                states.append(like)
                continue
            try:
                states.append(checkpoints.restore(folder.checkpoint_folder, step, like))
            except checkpoints.DamagedCheckpointError as error:
                damage.append(f"{folder.checkpoint_folder / str(step)}: damaged ({error}).")
                break
        else:
            return step, states, damage
    detail = f" {' '.join(damage)}" if damage else ""
    raise CharyError(
        f"{folders[0].path}: no intact checkpoint to start from.{detail} Train again in another --run."
    )


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


def spec_of(folder: RunFolder) -> RunSpec:
    """The settings that a run folder records."""
    record = folder.config
    try:
        algorithm = record["algorithm"]
        config = settings.from_json(algos.entry(algorithm).config, record["settings"])
        config = with_target_entropy(config, record["dataset"]["action_size"])
        run = settings.from_json(RunConfig, record["run"])
        execution = settings.from_json(Execution, Execution.recorded(record))
        described = ("name", "fingerprint", "observation_size", "action_size")
        for part, keys in (("dataset", described), ("scaling", Scaling._fields)):
            for key in keys:
                record[part][key]  # a damaged file is noticed here, not halfway through
    except (KeyError, TypeError, AttributeError) as error:
        raise CharyError(
            f"{folder.path}/config.json: damaged or of another version ({error})."
        ) from error
    run = replace(run, run=folder.path)  # it may have been moved
    return RunSpec(algorithm, config, run, execution, record.get("preset", "none"))


def warn_of_changes(folder: RunFolder) -> None:
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
