"""`chary data collect`: new data from simulation."""

from pathlib import Path
from typing import Annotated

import tyro

from chary.cli.data.catalogue import describe
from chary.cli.output import JsonFlag, show
from chary.data import formats, load
from chary.data.sources import collected
from chary.errors import CharyError, unknown_name


def collect(
    name: Annotated[str, tyro.conf.Positional],
    /,
    steps: int | None = None,
    seed: int = 0,
    out: Path | None = None,
    json: JsonFlag = False,
) -> None:
    """Collect a named dataset now, on every core.

    Args:
        name: One of `chary data list`.
        steps: Transitions; by default the named dataset's own number.
        seed: Seed of the collection.
        out: File to write (.hdf5 or .npz); without it the named dataset goes into the cache.
        json: Print what was collected as one JSON object.
    """
    if name not in collected.TRANSITIONS:
        raise unknown_name("dataset", name, collected.TRANSITIONS)
    if steps is not None and steps < 1:
        raise CharyError(f"--steps is {steps}, but must be at least 1.")
    if seed < 0:
        raise CharyError(f"--seed is {seed}, but must be at least 0.")
    if out is None:
        if steps is not None or seed != 0:
            raise CharyError(
                "--steps and --seed change the data: say where it should go with --out."
            )
        dataset, where = load(name), collected.cached_path(name)
    else:
        formats.format_of(out)  # a wrong ending is noticed before the work
        dataset, where = collected.collect(name, transitions=steps, seed=seed), out
        formats.write(dataset, out)
    rows = [{"file": str(where), **describe(dataset)}]
    show(rows, {"file": "file", "transitions": "transitions", "episodes": "episodes"}, as_json=json)
