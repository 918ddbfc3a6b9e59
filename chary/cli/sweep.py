"""`chary sweep`: train every combination of settings and seeds, in a folder that can be resumed."""

import os
import threading
from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chary.algorithms import SUMMARIES, is_algorithm
from chary.errors import CharyError, DivergedError

if TYPE_CHECKING:
    from chary.tune.sweep import Cell, Sweep
    from chary.tune.where import Where

USAGE = """\
usage: chary sweep ALGORITHM --dataset NAME --grid SETTING=A,B,... --out FOLDER [OPTIONS]
       chary sweep paper-antmaze | paper-gym | paper-rlu --dataset NAME --out FOLDER [OPTIONS]
       chary sweep FOLDER [OPTIONS]

The first two make a sweep and train it, the third resumes one. Finished runs are not repeated. The
second is MSG with the paper's search grid, preset and number of seeds.

  chary sweep msg --dataset D --grid beta=-4,-8 alpha=0,0.1,0.5 --seeds 0 1 2 --out sweeps/a
  chary sweep sweeps/a                   resume
  chary sweep sweeps/a --on ray          on a Ray cluster, or --on slurm as an array job
  chary sweep sweeps/a --cell 7          one run, for any other scheduler
  chary sweep sweeps/a --status          what is done

`chary sweep ALGORITHM --help` and `chary sweep FOLDER --help` list all options."""
PAPER = ("paper-antmaze", "paper-gym", "paper-rlu")
"""The paper's search grids for MSG."""
PATIENCE = 30.0
"""Seconds that a worker waits for a predecessor that is just ending."""
COLUMNS = {
    "cell": "cell", "run": "run", "state": "state", "step": "step", "steps": "of",
    "last": "last", "best": "best",
}  # fmt: skip


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    first, *options = arguments
    if is_algorithm(first):
        return _make(first, options)
    if first in PAPER:
        return _make("msg", options, paper=first)
    if not Path(first).is_dir():
        raise CharyError(
            f"'{first}' is neither an algorithm ({', '.join(SUMMARIES)}) nor a sweep of the paper "
            f"({', '.join(PAPER)}) nor the folder of a sweep."
        )
    return _resume(Path(first), options)


def _make(algorithm: str, options: list[str], *, paper: str | None = None) -> int:
    """Plan a sweep, and train it; with `paper`, what it varies and the preset are the paper's."""
    from chary.algos.paper import GRIDS
    from chary.cli.options import option, parse
    from chary.cli.output import Flag
    from chary.training import resolve
    from chary.tune import grid
    from chary.tune.sweep import create
    from chary.tune.where import Where

    seeds = tuple(range(GRIDS[algorithm][paper].seeds)) if paper else (0,)
    name = paper or algorithm
    parsed = parse(
        algorithm,
        ["--preset", paper, *options] if paper else options,
        prog=f"chary sweep {name}",
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
                "seeds", tuple[int, ...], seeds, "Seeds. Every combination is trained with each."
            ),
            option("out", Path | None, None, f"Folder of the sweep. If omitted: sweeps/{name}."),
            option("plan_only", Flag, False, "Only write the plan; train nothing."),
            ("where", Where, field(default=Where())),
        ],
        hidden=frozenset({"seed", "run"}),
    )
    spec, own = parsed.spec, parsed.own
    folder = own.out or Path("sweeps") / name
    varied = grid.parse([*([paper] if paper else []), *own.grid], spec)
    grid.combinations(spec, folder, varied, own.seeds)  # what makes no sense is refused first
    # Workers may start in other folders: the data goes by its whole path.
    run = resolve.complete(spec, spec.run.dataset)[0].run
    spec = spec._replace(run=replace(spec.run, dataset=run.dataset, data_file=run.data_file))
    specs = grid.combinations(spec, folder, varied, own.seeds)
    sweep = create(folder, specs)
    cells = [] if own.plan_only else sweep.named(specs)
    _train(sweep, cells, own.where, as_json=parsed.json)
    return 0


def _resume(folder: Path, options: list[str]) -> int:
    """Train what is left of a sweep, or one cell of it, or say how far it is."""
    import tyro

    from chary.cli.output import Flag, TrustCode
    from chary.tune.where import Where

    def resume(
        cell: tuple[int, ...] = (),
        cores: tuple[int, ...] = (),
        attached: Flag = False,
        status: Flag = False,
        trust_code: TrustCode = (),
        json: Flag = False,
        where: Where = Where(),  # noqa: B008
    ) -> None:
        """Train what is left of a sweep.

        Args:
            cell: Only this run, by its number in the plan, in this process. Several go together.
            cores: Use only these cores.
            attached: End when standard input closes; wait for a predecessor that is just ending.
            status: Only show which runs are done.
            trust_code: Import this module:Name, which the plan names.
            json: Print the table as one JSON object.
            where: Where runs are trained.
        """
        if cores and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, cores)  # before XLA counts the cores and makes its threads
        if attached:
            threading.Thread(target=_end_with_the_input, daemon=True).start()

        from chary.host.importing import trust
        from chary.tune import sweep

        trust(trust_code)
        found = sweep.read(folder)
        if cell:
            try:
                sweep.train(
                    [found.cell(number) for number in cell], patience=PATIENCE if attached else 0.0
                )
            except DivergedError as error:  # the folder remembers it; to a sweep it is a result
                print(error)
            return
        _train(found, [] if status else found.cells, where, as_json=json)

    tyro.cli(
        resume, args=options, prog=f"chary sweep {folder}", config=(tyro.conf.OmitArgPrefixes,)
    )
    return 0


def _train(sweep: "Sweep", cells: "Sequence[Cell]", where: "Where", *, as_json: bool) -> None:
    """Train what is left of these cells, or submit it, and show the whole sweep."""
    from chary.tune import slurm, workers
    from chary.tune.sweep import require_known_code

    left = [cell for cell in cells if not cell.finished]
    facts: dict[str, Any] = {}
    require_known_code(left)
    if where.on != "slurm":
        workers.train_all(sweep, cells, where)
    elif left and where.dry_run:
        print(slurm.script(sweep, left, where), end="")
        return
    elif left:
        facts["job"] = slurm.submit(sweep, left, where)
        if not as_json:
            print(f"Submitted job {facts['job']}: {len(left)} runs")
    _show(sweep, as_json=as_json, **facts)


def _show(sweep: "Sweep", *, as_json: bool, **facts: Any) -> None:
    """A row for every cell."""
    from chary.cli.output import show
    from chary.runs.folder import RunFolder
    from chary.runs.logs import headline

    rows: list[dict[str, Any]] = []
    for cell in sweep.cells:
        row = {"cell": cell.number, "run": cell.folder.name, "state": cell.state}
        row |= {"step": cell.step, "steps": cell.spec.run.steps, "last": None, "best": None}
        if row["state"] != "waiting":
            folder = RunFolder.open(cell.folder)
            looks = {"last": folder.last(), "best": folder.best()}
            row |= {key: headline(look) for key, look in looks.items() if look is not None}
        rows.append(row)
    show(rows, COLUMNS, as_json=as_json, title=str(sweep.folder), **facts)


def _end_with_the_input() -> None:
    # Read from the descriptor: a thread that waits in sys.stdin would be in the way of a normal end.
    while os.read(0, 1):
        pass
    os._exit(1)
