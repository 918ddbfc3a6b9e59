"""`chary sweep`: train every combination of settings and seeds, in a folder that can be resumed."""

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chary.algorithms import SUMMARIES
from chary.errors import CharyError, DivergedError

if TYPE_CHECKING:
    from chary.tune.sweep import Sweep

USAGE = """\
usage: chary sweep ALGORITHM --dataset NAME --grid SETTING=A,B,... --out FOLDER [OPTIONS]
       chary sweep FOLDER [OPTIONS]

The first line makes a sweep and trains it, the second resumes one. Finished runs are not repeated.

  chary sweep msg --dataset D --grid beta=-4,-8 alpha=0,0.1,0.5 --seeds 0 1 2 --out sweeps/a
  chary sweep sweeps/a                   resume
  chary sweep sweeps/a --cell 7          one run, for any scheduler
  chary sweep sweeps/a --status          what is done

`chary sweep ALGORITHM --help` and `chary sweep FOLDER --help` list all options."""
COLUMNS = {
    "cell": "cell", "run": "run", "state": "state", "step": "step", "steps": "of",
    "last": "last", "best": "best",
}  # fmt: skip


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    first, *options = arguments
    if first in SUMMARIES:
        return _make(first, options)
    if not Path(first).is_dir():
        raise CharyError(
            f"'{first}' is neither an algorithm ({', '.join(SUMMARIES)}) nor the folder of a sweep."
        )
    return _resume(Path(first), options)


def _make(algorithm: str, options: list[str]) -> int:
    """Plan a sweep, and train it."""
    from chary.cli.options import option, parse
    from chary.cli.output import Flag
    from chary.training import resolve
    from chary.tune import grid, local
    from chary.tune.sweep import create

    parsed = parse(
        algorithm,
        options,
        prog=f"chary sweep {algorithm}",
        description=f"Train {algorithm} with every combination of settings, in several seeds.",
        own=[
            option(
                "grid",
                tuple[str, ...],
                (),
                "Values of each setting: beta=-4,-8 hidden=64x64,256x256. A name such as paper-antmaze "
                "is one of the paper's search grids.",
            ),
            option(
                "seeds", tuple[int, ...], (0,), "Seeds. Every combination is trained with each."
            ),
            option(
                "out", Path | None, None, "Folder of the sweep. If omitted: sweeps/<algorithm>."
            ),
            option("jobs", int | None, None, "Runs trained at once. If omitted: one per core."),
            option("plan_only", Flag, False, "Only write the plan; train nothing."),
        ],
        hidden=frozenset({"seed", "run"}),
    )
    spec, own = parsed.spec, parsed.own
    folder = own.out or Path("sweeps") / algorithm
    varied = grid.parse(own.grid, spec)
    grid.combinations(spec, folder, varied, own.seeds)  # what makes no sense is refused first
    # Workers may start in other folders: the data goes by its whole path.
    run = resolve.complete(spec, spec.run.dataset)[0].run
    spec = spec._replace(run=replace(spec.run, dataset=run.dataset, data_file=run.data_file))
    specs = grid.combinations(spec, folder, varied, own.seeds)
    sweep = create(folder, specs)
    cells = sweep.named(specs)
    if not own.plan_only:
        local.run(sweep, cells, at_once=own.jobs)
    _show(sweep, as_json=parsed.json)
    return 0


def _resume(folder: Path, options: list[str]) -> int:
    """Train what is left of a sweep, or one cell of it, or say how far it is."""
    import tyro

    from chary.cli.output import Flag

    def resume(
        cell: int | None = None,
        cores: tuple[int, ...] = (),
        attached: Flag = False,
        status: Flag = False,
        jobs: int | None = None,
        json: Flag = False,
    ) -> None:
        """Train what is left of a sweep.

        Args:
            cell: Only this run, by its number in the plan, in this process.
            cores: Use only these cores.
            attached: End when standard input closes.
            status: Only show which runs are done.
            jobs: Runs trained at once, each on its share of the cores. If omitted: one per core.
            json: Print the table as one JSON object.
        """
        if cores and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, cores)  # before XLA counts the cores and makes its threads
        if attached:
            threading.Thread(target=_end_with_the_input, daemon=True).start()

        from chary.tune import local, sweep

        found = sweep.read(folder)
        if cell is not None:
            try:
                sweep.train(found.cell(cell))
            except DivergedError as error:  # the folder remembers it; to a sweep it is a result
                print(error)
            return
        if not status:
            local.run(found, found.cells, at_once=jobs)
        _show(found, as_json=json)

    tyro.cli(resume, args=options, prog=f"chary sweep {folder}")
    return 0


def _show(sweep: "Sweep", *, as_json: bool) -> None:
    """A row for every cell."""
    from chary.cli.output import show
    from chary.runs.folder import RunFolder, headline

    rows: list[dict[str, Any]] = []
    for cell in sweep.cells:
        row = {"cell": cell.number, "run": cell.folder.name, "state": cell.state}
        row |= {"step": cell.step, "steps": cell.spec.run.steps, "last": None, "best": None}
        if row["state"] != "waiting":
            folder = RunFolder.open(cell.folder)
            looks = {"last": folder.last(), "best": folder.best()}
            row |= {key: headline(look) for key, look in looks.items() if look is not None}
        rows.append(row)
    show(rows, COLUMNS, as_json=as_json, title=str(sweep.folder))


def _end_with_the_input() -> None:
    # Read from the descriptor: a thread that waits in sys.stdin would be in the way of a normal end.
    while os.read(0, 1):
        pass
    os._exit(1)
