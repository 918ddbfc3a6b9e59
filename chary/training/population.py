"""Many runs at once: over seeds, and over settings that are numbers in the learner's state.

    chary.train_population("msg", dataset, seeds=[0, 1], settings={"alpha": [0.1, 0.5]}, run="runs/x")

trains four runs in runs/x/alpha0.1-seed0 and so on, each what it would be alone but for rounding. Runs
whose update is the same program are trained side by side as one; others, and more than memory takes, one
group after the other.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import jax

from chary import algos
from chary.algos import paper
from chary.config import refuse_repeats
from chary.data.dataset import Dataset
from chary.errors import CharyError, DivergedError
from chary.evaluation.agent import Agent
from chary.execution.cost import cost_of
from chary.execution.program import trace_update
from chary.host.compile_cache import keep_compiled
from chary.host.machine import available_memory
from chary.host.terminal import say
from chary.runs.folder import RunFolder
from chary.training import groups as group
from chary.training import prepare
from chary.training import start as training
from chary.training.groups import Spec
from chary.training.run_config import RunConfig

SHARE_OF_MEMORY = 0.8
"""What runs side by side may take of the memory that is free."""
CPU_BYTES = 256e6
"""What they may take on a CPU: large networks keep it busy by themselves, and more of them at once only
push each other out of its caches."""


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
    """Train every combination of settings with every seed, each in its own folder below `run`.

    Everything else is as in `chary.train`. Agents of diverged runs are left out.
    """
    config, run_config = prepare.resolve(algorithm, dataset, preset, run, changes)
    agents = start(
        algorithm,
        config,
        run_config,
        dataset=dataset,
        preset=preset,
        seeds=seeds,
        varied=settings or {},
        resume=resume,
    )
    return [agent for agent in agents.values() if agent is not None]


def start(
    algorithm: str,
    config: Any,
    run: RunConfig,
    *,
    dataset: str | Path | Dataset,
    preset: str,
    seeds: Sequence[int],
    varied: Mapping[str, Sequence[float]],
    resume: bool = False,
    yes: bool = False,
) -> dict[Path, Agent | None]:
    """Make the folders of a population that are not there, then go on with all of them.

    An agent for every folder, None where the run has diverged.
    """
    if run.validation:
        raise CharyError(
            "--validation holds out other episodes in every seed, but runs of a population share their "
            "data: train with --seed, one after the other."
        )
    keep_compiled()
    prepare.explain(algorithm, preset, dataset, config, varied)
    home = run.run
    run, dataset = prepare.complete(algorithm, run, dataset)
    assert run.run is not None
    home = home or run.run.with_name(run.run.name.removesuffix(f"-{run.seed}"))
    config = prepare.settle(config, run, dataset)
    specs = vary(algorithm, config, replace(run, run=home), dataset, seeds, varied)
    prepare.check(*specs[0])
    prepare.task_of(dataset)  # refuses a borrowed name before anything is made
    with group.all_claimed([spec.folder for spec in specs]):
        there = {spec.folder: group.same_run(algorithm, *spec, dataset) for spec in specs}
        begun = [folder for folder in there.values() if folder and folder.checkpoint_steps()]
        if begun and not resume:
            raise CharyError(group.already(begun[0], home))
        new = [spec for spec in specs if not (resume and there[spec.folder])]
        scaling = prepare.scaling_of(dataset, run)
        for together in grouped(algorithm, new, dataset) if new else []:
            group.create(algorithm, together, dataset, scaling, preset)
        if new:
            prepare.explain_own(algorithm, preset, config, run)
    agents = go_on([spec.folder for spec in specs], dataset=dataset, yes=yes)
    return {spec.folder: agents[spec.folder] for spec in specs}


def go_on(runs: Sequence[Path], **options: Any) -> dict[Path, Agent | None]:
    """Go on with runs and those beside them, one group after the other; None for those that diverge."""
    agents: dict[Path, Agent | None] = {}
    message = ""
    for run in runs:
        if run in agents:
            continue
        try:
            agents |= training.resume_group(run, **options)
        except DivergedError as error:  # a whole group
            message = str(error)
            agents |= dict.fromkeys(group.companions(run))
    if not any(agents.values()):
        raise DivergedError(message)
    return agents


def vary(
    algorithm: str,
    config: Any,
    run: RunConfig,
    dataset: Dataset,
    seeds: Sequence[int],
    varied: Mapping[str, Sequence[float]],
) -> list[Spec]:
    """Every combination of the settings in every seed, with a folder named after what it is."""
    assert run.run is not None
    if RunFolder.exists(run.run):
        raise CharyError(
            f"{run.run}: is a run itself; choose another --run for the folder of many."
        )
    made = algos.entry(algorithm).make(config, dataset.observation_size, dataset.action_size)
    state = jax.eval_shape(made.init, jax.random.key(0))
    can_vary = [name for name in state.hyper._fields if hasattr(config, name)]
    for name, values in varied.items():
        if name not in can_vary:
            raise CharyError(
                f"--population varies '{name}', which is not a number in {algorithm}'s state. These can "
                f"vary: {', '.join(can_vary)}."
            )
        refuse_repeats(f"population {name}", values)
    seeds = seeds or [run.seed]
    refuse_repeats("seeds", seeds)
    specs: list[Spec] = []
    for values, seed in product(product(*varied.values()), seeds):
        changes = dict(zip(varied, values, strict=True))
        words = [f"{name}{value:.9g}" for name, value in changes.items()]
        folder = run.run / "-".join([*words, f"seed{seed}"])
        specs.append(Spec(replace(config, **changes), replace(run, seed=seed, run=folder)))
    return specs


def parse(words: Sequence[str], algorithm: str, config: Any) -> dict[str, tuple[float, ...]]:
    """What `--population alpha=0,0.1 beta=-4,-8` asks for, or `--population paper-antmaze tau=0.01`."""
    varied: dict[str, tuple[float, ...]] = {}
    for word in words:
        name, equals, values = word.partition("=")
        if not equals:
            asked = paper.grid_values(algorithm, word, getattr(config, "members", None))
        else:
            asked = {name.replace("-", "_"): _numbers(word, values)}
        for setting in asked:
            if setting in varied:
                raise CharyError(
                    f"--population {' '.join(words)}: has values of {setting} twice. Name them once."
                )
        varied |= asked
    return varied


def _numbers(word: str, values: str) -> tuple[float, ...]:
    try:
        return tuple(float(value) for value in values.split(","))
    except ValueError:
        raise CharyError(
            f"--population has '{word}', but must be settings with their values, such as "
            "alpha=0,0.1,0.5."
        ) from None


def grouped(algorithm: str, specs: Sequence[Spec], dataset: Dataset) -> list[list[Spec]]:
    """Runs whose update is the same program together, as many at once as memory takes."""
    sizes = dataset.observation_size, dataset.action_size
    make = algos.entry(algorithm).make
    updates = {
        config: trace_update(make(config, *sizes), config.batch_size, *sizes)
        for config in dict.fromkeys(spec.config for spec in specs)
    }
    texts = {config: update.lower().as_text() for config, update in updates.items()}
    programs: dict[str, list[Spec]] = {}
    for spec in specs:
        programs.setdefault(texts[spec.config], []).append(spec)
    each = max(cost_of(update).memory for update in updates.values())
    data = 0 if dataset.is_mapped else 4 * dataset.size * 2 * (sum(sizes) + 1)
    room = SHARE_OF_MEMORY * (available_memory() - data)
    if jax.default_backend() == "cpu":
        room = min(room, CPU_BYTES)
    at_once = max(1, int(room / each))
    groups = [part for runs in programs.values() for part in split_evenly(runs, at_once)]
    if len(groups) > 1:
        counts = " + ".join(str(len(runs)) for runs in groups)
        reasons = [f"{len(programs)} different programs"] if len(programs) > 1 else []
        if len(groups) > len(programs):
            reasons += [f"at {each / 1e6:.3g} MB a run no more than {at_once} fit well"]
        say(f"{len(specs)} runs, one group after the other: {counts} ({'; '.join(reasons)})")
    return groups


def split_evenly(runs: Sequence[Spec], most: int) -> list[list[Spec]]:
    """As few groups as can be, none larger than allowed and all about as large."""
    count = math.ceil(len(runs) / most)
    cuts = [round(i * len(runs) / count) for i in range(count + 1)]
    return [list(runs[a:b]) for a, b in pairwise(cuts)]


def runs_in(folder: Path) -> list[Path]:
    """The run in a folder, or those of a population below it."""
    if RunFolder.exists(folder) or not any(folder.glob("*/config.json")):
        return [folder]
    return sorted(path.parent for path in folder.glob("*/config.json"))
