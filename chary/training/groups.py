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
from typing import TypeVar

from chary import algos
from chary.data.dataset import Dataset
from chary.data.scaling import Scaling
from chary.errors import CharyError
from chary.execution.program import Carry
from chary.host.terminal import say
from chary.runs import checkpoints
from chary.runs.claims import claimed
from chary.runs.folder import RunFolder
from chary.training import records
from chary.training.plan import kept_out
from chary.training.run_config import RunSpec

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
    names = [spec.folder.name for spec in specs]
    _, held_out = kept_out(dataset, specs[0].run)
    for index, spec in enumerate(specs):
        record = records.of(spec, dataset, scaling, held_out)
        if len(specs) > 1:
            record["layout"]["population"] = {"names": names, "index": index}
        folders.append(RunFolder.create(spec.folder, record))
    return folders


def companions(run: Path) -> list[Path]:
    """The folders of all runs that are trained with this one, itself included."""
    population = RunFolder.open(run).population()
    if population is None:
        return [run]
    names, place = population
    beside = run if run.name == names[place] else run.resolve()
    paths = [beside.parent / name for name in names]
    paths[place] = run
    for index, (name, path) in enumerate(zip(names, paths, strict=True)):
        try:
            theirs = RunFolder.open(path).population()
            problem = "it is not of this group, or was resumed alone"
            sound = theirs == (names, index)
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
    if folder is None or folder.begun:
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


def restore(
    folders: Sequence[RunFolder], initial: Sequence[Carry], *, from_start: bool = False
) -> tuple[int, list[Carry]]:
    """The newest step from which all can resume, and their states there; logs are cut back to it.

    Runs that have logs but no checkpoint are refused: their checkpoints may be on a disk that is not
    mounted. With `from_start` they begin again, and what there was is put aside.
    """
    records.warn_of_changes(folders[0])
    steps = common_steps(folders)
    counts = [len(folder.checkpoint_steps()) for folder in folders]
    lost = [f for f, count in zip(folders, counts, strict=True) if not count and f.begun]
    try:
        if lost:
            raise CharyError(
                f"{lost[0].path}: has logs but no checkpoint ({lost[0].unseen_checkpoints()}). Nothing "
                "was changed. Mount or restore its checkpoints."
            )
        if not steps and max(counts) > 1:
            without = folders[counts.index(min(counts))].path
            raise CharyError(
                f"{without}: its checkpoints have no step in common with those of the runs in its "
                "group. Restore them, or resume a single run: `chary resume RUN --alone`."
            )
        if steps:
            step, carries, damage = restore_all(folders, initial, steps)
            for line in damage:
                warnings.warn(f"{line} Resuming from step {step}.", stacklevel=3)
            for folder in folders:
                folder.cut_back(step)
            return step, carries
    except CharyError as error:
        if not from_start:
            again = f"`chary resume {folders[0].path} --from-start`"
            raise CharyError(f"{error} To begin again at step 0: {again}.") from error
    # Asked for, or killed before all had saved for the first time.
    for folder in folders:
        aside = folder.put_aside()
        if aside is not None:
            say(f"{folder.path}: begins again at step 0; what there was is in {aside}")
    return 0, list(initial)


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
    raise CharyError(f"{folders[0].path}: no intact checkpoint to start from.{detail}")
