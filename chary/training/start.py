"""Training from Python: start runs, resume them, or open what they have learned.

Starting makes the run folders; training is then the same as resuming from step 0. One run and many go
the same way.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chary import algos
from chary import track as trackers
from chary.data import sources
from chary.data.dataset import Dataset
from chary.data.scaling import Scaling
from chary.data.tasks import find_task
from chary.errors import CharyError, DivergedError
from chary.evaluation.agent import Agent
from chary.evaluation.inputs import Names
from chary.execution import program
from chary.execution.devices import Devices, counted
from chary.execution.processes import leader
from chary.host.compile_cache import keep_compiled
from chary.host.importing import require_trusted, trust
from chary.runs.claims import claimed
from chary.runs.folder import RunFolder
from chary.training import groups, loop, plan, population, records, resolve
from chary.training.learned_from import check_data, load_again
from chary.training.run_config import RunSpec
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

    `changes` are settings by the names that `chary train <algorithm> --help` shows (with underscores).
    The preset "auto" is the one that suits a named dataset; "paper" has the paper's settings for a
    named dataset and the number of members. With `resume`, a run of the same settings that is already
    in the folder is resumed, or just opened where it is complete.
    """
    spec = resolve.resolve(algorithm, dataset, preset, run, changes)
    (agent,) = start(spec, dataset, resume=resume).values()
    assert agent is not None  # a run that diverges alone is an error
    return agent


def train_population(
    algorithm: str,
    dataset: str | Path | Dataset,
    *,
    seeds: Sequence[int] = (),
    settings: Mapping[str, Sequence[float]] | None = None,
    preset: str = "auto",
    run: str | Path | None = None,
    resume: bool = False,
    **changes: Any,
) -> list[Agent]:
    """Train every combination of settings in every seed, each in its own folder below `run`.

    All else is as in `chary.train`. The agents of runs that diverge are left out.
    """
    spec = resolve.resolve(algorithm, dataset, preset, run, changes)
    seeds = seeds or [spec.run.seed]
    agents = start(spec, dataset, seeds=seeds, varied=settings or {}, resume=resume)
    return [agent for agent in agents.values() if agent is not None]


def start(
    spec: RunSpec,
    dataset: str | Path | Dataset,
    *,
    seeds: Sequence[int] = (),
    varied: Mapping[str, Sequence[float]] | None = None,
    resume: bool = False,
    yes: bool = False,
) -> dict[Path, Agent | None]:
    """Train a run, or with `seeds` or `varied` a run of every combination below its folder.

    Runs that have begun are refused, or resumed where that is asked for. With `yes`, nobody is asked
    whether training for days is meant. Returns an agent for every folder, None where the run diverged.
    """
    many = bool(seeds or varied)
    if many and spec.run.validation:
        raise CharyError(
            "--validation holds out other episodes in every seed, but runs side by side share their "
            "data: train with --seed, one after the other."
        )
    if not (many or resume):
        _refuse_begun(spec, dataset)
    keep_compiled()
    resolve.explain(spec, dataset, varied or ())
    given = spec.run.run
    spec, dataset = resolve.complete(spec, dataset)
    specs = [spec]
    if many:
        below = given or spec.folder.with_name(spec.folder.name.removesuffix(f"-{spec.run.seed}"))
        specs = population.vary(spec, below, dataset, seeds, varied or {})
    return _start(specs, dataset, resume=resume, yes=yes)


def start_all(specs: Sequence[RunSpec], *, resume: bool) -> dict[Path, Agent | None]:
    """Train runs that differ only in folder, seed and the algorithm's settings, as `start` does."""
    keep_compiled()
    resolve.explain(specs[0], specs[0].run.dataset, ("beta", "alpha") if len(specs) > 1 else ())
    first, dataset = resolve.complete(specs[0], specs[0].run.dataset)
    known = {"dataset": first.run.dataset, "data_file": first.run.data_file}
    specs = [
        resolve.complete(spec._replace(run=replace(spec.run, **known)), dataset)[0]
        for spec in specs
    ]
    return _start(specs, dataset, resume=resume)


def _start(
    specs: Sequence[RunSpec], dataset: Dataset, *, resume: bool, yes: bool = False
) -> dict[Path, Agent | None]:
    trust(name for spec in specs for name in spec.own_code)
    with groups.all_claimed([each.folder for each in specs]):
        _make_folders(specs, dataset, resume=resume)
    agents = resume_all([each.folder for each in specs], dataset=dataset, yes=yes)
    return {each.folder: agents[each.folder] for each in specs}


def _refuse_begun(spec: RunSpec, dataset: str | Path | Dataset) -> None:
    """Refuse a folder with a run in it before data is loaded, where its name is known by then."""
    if isinstance(dataset, Dataset):
        name = dataset.name
    else:
        named = sources.recognise(str(dataset))
        name = named.name if named else None
    folder = spec.run.run
    if folder is None and name is not None:
        folder = resolve.default_folder(spec.algorithm, name, spec.run.seed)
    if folder is None or not RunFolder.exists(folder):
        return
    with claimed(folder):
        there = records.same_run(spec._replace(run=replace(spec.run, run=folder)), None)
        if there is not None and there.begun:
            raise CharyError(records.already(there))


def _make_folders(specs: Sequence[RunSpec], dataset: Dataset, *, resume: bool) -> None:
    """Folders for the runs that have not begun, in the groups that they are trained in."""
    there = {spec.folder: records.same_run(spec, dataset) for spec in specs}
    begun = [folder for folder in there.values() if folder and folder.begun]
    if begun and not resume:
        together = begun[0].path.parent if len(specs) > 1 else None
        raise CharyError(records.already(begun[0], together))
    new = [
        resolve.with_window(spec, dataset)
        for spec in specs
        if not resume or groups.to_be_made(there[spec.folder])
    ]
    for spec in new[:1]:
        plan.check(spec, dataset)
    run = specs[0].run
    scaling = plan.scaling_of(plan.split(dataset, run)[0], run)
    for group in population.grouped(new, dataset):
        groups.create(group, dataset, scaling)
    for spec in new[:1]:
        resolve.explain_own(spec, dataset)


def resume(
    run: str | Path,
    *,
    dataset: Dataset | None = None,
    steps: int | None = None,
    track: Sequence[str] | None = None,
    from_start: bool = False,
) -> Agent:
    """Resume a run from its newest intact checkpoint, with the same bits as an uninterrupted run.

    All runs of a group are resumed together. `dataset` is needed only if the run was started with a
    dataset from memory; `steps` extends the run; `track` names its trackers from now on. A run with
    logs but no intact checkpoint is an error; with `from_start` it begins again.
    """
    path = Path(run)
    agent = resume_group(path, dataset=dataset, steps=steps, track=track, from_start=from_start)[
        path
    ]
    if agent is None:
        raise DivergedError(f"{run}: training diverged; the runs trained with it are complete.")
    return agent


def resume_all(runs: Sequence[Path], **options: Any) -> dict[Path, Agent | None]:
    """Resume runs and those that are trained with them, one group after the other.

    An agent for every folder, None where the run diverged; DivergedError where all did.
    """
    agents: dict[Path, Agent | None] = {}
    message = ""
    for run in runs:
        if run in agents:
            continue
        try:
            agents |= resume_group(run, **options)
        except DivergedError as error:  # a whole group
            message = str(error)
            agents |= dict.fromkeys(groups.companions(run))
    if not any(agents.values()):
        raise DivergedError(message)
    return agents


def resume_group(
    run: Path,
    *,
    dataset: Dataset | None = None,
    steps: int | None = None,
    track: Sequence[str] | None = None,
    alone: bool = False,
    devices: Devices | None = None,
    yes: bool = False,
    from_start: bool = False,
) -> dict[Path, Agent | None]:
    """Resume a run and those that are trained with it, or from now on it `alone`.

    `devices` moves the runs to that many devices; `from_start` begins again where no checkpoint can be
    read. Returns as `resume_all` does.
    """
    keep_compiled()
    RunFolder.open(run)  # refuses what is no run before claiming it
    paths = [run] if alone else groups.companions(run)
    with groups.all_claimed(paths):
        folders = [RunFolder.open(path) for path in paths]
        if alone:
            groups.leave(folders[0])
        specs = [records.spec_of(folder) for folder in folders]
        for spec in specs:
            require_trusted(spec.own_code, spec.folder)
        if devices is not None:
            specs = [groups.moved(spec, counted(devices)) for spec in specs]
        goal = max(spec.run.steps for spec in specs)
        if steps is not None and steps < goal:
            raise CharyError(f"{run}: already meant to run {goal} steps; --steps must not be less.")
        dataset = dataset or load_again(run, specs[0].run)
        for folder in folders:
            check_data(folder, dataset)
        changed: dict[str, Any] = {"steps": steps or goal}
        if track is not None:
            changed["track"] = tuple(track)
        specs = [spec._replace(run=replace(spec.run, **changed)) for spec in specs]
        trackers.require(specs[0].run.track)
        made = plan.make_plan(specs, dataset)
        for folder, spec in zip(folders, specs, strict=True):
            records.record_changes(folder, spec)
        records.keep_summary(folders, dataset)
        step, carries = groups.restore(folders, made.initial_carries(), from_start=from_start)
        configs = [folder.config for folder in folders]
        carry = leader.begin(made.algorithm, configs, program.together(carries), step)
        forecast = Forecast(made.title, made.run.steps, made.flops, ask=not yes)
        carry = loop.run_loop(made, folders, carry, step, forecast)
        agents = {
            folder.path: None if folder.diverged() else made.agent(carry, lane)
            for lane, folder in enumerate(folders)
        }
        for folder, agent in zip(folders, agents.values(), strict=True):
            if agent is not None and made.run.final_episodes:
                records.keep_limits(folder, agent, dataset, made.run)
        return agents


def open_run(run: str | Path, *, which: str = "last") -> Agent:
    """Open a run's agent: the last checkpoint, or the one with the best score."""
    keep_compiled()
    folder = RunFolder.open(Path(run))
    spec = records.spec_of(folder)
    # Its simulator may never be needed, and is looked at when it is.
    require_trusted(spec._replace(run=replace(spec.run, env=None)).own_code, folder.path)
    if which not in ("last", "best"):
        raise CharyError(f"which is '{which}', but must be 'last' or 'best'.")
    best = folder.best() if which == "best" else None
    if which == "best" and best is None:
        raise CharyError(f"{run}: nothing was evaluated, so there is no best; take the last.")
    described = folder.config["dataset"]
    sizes = described["observation_size"], described["action_size"]
    # On one device, however it was trained: checkpoints are whole.
    made = algos.build(spec.algorithm, spec.config, *sizes)
    program.refuse_too_large(made, spec.config.batch_size, *sizes)
    like = program.initial_carry(made, spec.config.batch_size, *sizes, seed=spec.run.seed)
    steps = [best["step"]] if best else folder.checkpoint_steps()[::-1]
    step, (carry,), damage = groups.restore_all([folder], [like], steps)
    for line in damage:
        warnings.warn(f"{line} Using an earlier one.", stacklevel=2)
    names = folder.config.get("columns", {})
    limits = records.limits_at(folder, step)
    return Agent(
        made,
        carry.state,
        Scaling.from_json(folder.config["scaling"]),
        None if spec.run.env else find_task(described["name"]),
        seed=spec.run.seed,
        folder=folder.path,
        env=spec.run.env,
        names=Names(*(tuple(names.get(part, ())) for part in Names._fields)),
        limits=limits,
    )
