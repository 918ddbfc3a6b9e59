"""Many runs at once: over seeds, and over settings that are numbers in the learner's state.

    chary.train_population("msg", dataset, seeds=[0, 1], settings={"alpha": [0.1, 0.5]}, run="runs/x")

trains four runs in runs/x/alpha0.1-seed0 and so on, each what it would be alone but for rounding. Runs
whose update is the same program are trained side by side as one; others, and more than memory takes, one
group after the other.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any, TypeVar

import jax

from chary import algos
from chary.algos import paper
from chary.config import refuse_repeats
from chary.data.dataset import Dataset
from chary.errors import CharyError
from chary.execution.cost import cost_of
from chary.execution.program import trace_update
from chary.host.machine import available_memory
from chary.host.terminal import say
from chary.runs.folder import RunFolder
from chary.training.run_config import RunSpec

Run = TypeVar("Run")
SHARE_OF_MEMORY = 0.8
"""What runs side by side may take of the memory that is free."""
CPU_BYTES = 256e6
"""What they may take on a CPU: large networks keep it busy by themselves, and more of them at once only
push each other out of its caches."""


def vary(
    spec: RunSpec,
    below: Path,
    dataset: Dataset,
    seeds: Sequence[int],
    varied: Mapping[str, Sequence[float]],
) -> list[RunSpec]:
    """Every combination of the settings in every seed, in folders below one, named by what they are."""
    if RunFolder.exists(below):
        raise CharyError(f"{below}: is a run itself; choose another --run for the folder of many.")
    made = algos.build(spec.algorithm, spec.config, dataset.observation_size, dataset.action_size)
    state = jax.eval_shape(made.init, jax.random.key(0))
    can_vary = [name for name in state.hyper._fields if hasattr(spec.config, name)]
    for name, values in varied.items():
        if name not in can_vary:
            raise CharyError(
                f"--population varies '{name}', which is not a number in {spec.algorithm}'s state. "
                f"These can vary: {', '.join(can_vary)}."
            )
        refuse_repeats(f"population {name}", values)
    seeds = seeds or [spec.run.seed]
    refuse_repeats("seeds", seeds)
    specs: list[RunSpec] = []
    for values, seed in product(product(*varied.values()), seeds):
        changes = dict(zip(varied, values, strict=True))
        words = [f"{name}{value:.9g}" for name, value in changes.items()]
        folder = below / "-".join([*words, f"seed{seed}"])
        specs.append(
            spec._replace(
                config=replace(spec.config, **changes),
                run=replace(spec.run, seed=seed, run=folder),
            )
        )
    return specs


def parse(
    words: Sequence[str],
    algorithm: str,
    config: Any,
    *,
    option: str = "--population",
    read: Callable[[str, str], Any] = lambda _, text: float(text),
) -> dict[str, tuple[Any, ...]]:
    """What `--population alpha=0,0.1 beta=-4,-8` asks for, or `--population paper-antmaze tau=0.01`.

    `read` makes a value of a setting's name and a text.
    """
    varied: dict[str, tuple[Any, ...]] = {}
    for word in words:
        name, equals, texts = word.partition("=")
        setting = name.replace("-", "_")
        if not equals:
            members = getattr(config, "members", None)
            asked = paper.grid_values(algorithm, word, members, option=option)
        else:
            try:
                asked = {setting: tuple(read(setting, text) for text in texts.split(","))}
            except ValueError:
                raise CharyError(
                    f"{option} has '{word}', but must be settings with their values, such as "
                    "alpha=0,0.1,0.5."
                ) from None
        for setting, values in asked.items():
            if setting in varied:
                raise CharyError(
                    f"{option} {' '.join(words)}: has values of {setting} twice. Name them once."
                )
            refuse_repeats(f"{option.removeprefix('--')} {setting}", values)
        varied |= asked
    return varied


def grouped(specs: Sequence[RunSpec], dataset: Dataset) -> list[list[RunSpec]]:
    """Runs whose update is the same program together, as many at once as memory takes."""
    if len(specs) < 2:
        return [list(specs)] if specs else []
    sizes = dataset.observation_size, dataset.action_size
    updates = {
        spec.config: trace_update(
            algos.build(spec.algorithm, spec.config, *sizes, spec.execution),
            spec.config.batch_size,
            *sizes,
        )
        for spec in {spec.config: spec for spec in specs}.values()
    }
    texts = {config: update.lower().as_text() for config, update in updates.items()}
    programs: dict[str, list[RunSpec]] = {}
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


def split_evenly(runs: Sequence[Run], most: int) -> list[list[Run]]:
    """As few groups as can be, none larger than allowed and all about as large."""
    count = math.ceil(len(runs) / most)
    cuts = [round(i * len(runs) / count) for i in range(count + 1)]
    return [list(runs[a:b]) for a, b in pairwise(cuts)]


def runs_in(folder: Path) -> list[Path]:
    """The run in a folder, or those of a population below it."""
    if RunFolder.exists(folder) or not any(folder.glob("*/config.json")):
        return [folder]
    return sorted(path.parent for path in folder.glob("*/config.json"))
