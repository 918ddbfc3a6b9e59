"""`chary reproduce antmaze`: make the tables of the antmaze page again, from the data on."""

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from chary.cli.output import Flag, show
from chary.errors import CharyError, unknown_name

PAGES = {"antmaze": "MSG on D4RL's antmaze: scores, independence, size, cheaper ensembles"}
COLUMNS = {
    "table": "table", "dataset": "dataset", "cells": "cells", "seeds": "seeds", "runs": "runs",
    "updates": "updates per run", "hours": "hours", "memory": "memory (MB)",
}  # fmt: skip


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        names = "\n".join(f"  {name:<8} {text}" for name, text in PAGES.items())
        print(f"usage: chary reproduce PAGE [OPTIONS]\n\n{names}\n")
        print("`chary reproduce PAGE --help` lists every option with its default.")
        return 0
    page, *options = arguments
    if page not in PAGES:
        raise unknown_name("page", page, PAGES)

    def reproduce(
        tables: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
        /,
        budget: Literal["small", "paper"] = "small",
        data: Path = Path("."),
        mazes: tuple[str, ...] = (),
        seeds: tuple[int, ...] = (),
        runs: Path = Path("runs/antmaze"),
        out: Path = Path("results/antmaze"),
        jobs: int = 1,
        dry_run: Flag = False,
        json: Flag = False,
    ) -> None:
        """Train the runs of the tables and write the tables. The same command resumes.

        Args:
            tables: Only these tables: scores, independence, size, ensembles. If omitted: all.
            budget: small (4 members, 30,000 to 100,000 updates, two or three seeds) or paper (64
                members, 2,000,000 updates, five seeds; for GPUs).
            data: Folder with antmaze-umaze-v2.hdf5 and so on.
            mazes: Only these datasets, such as antmaze-umaze-v2. If omitted: all.
            seeds: Only these seeds. If omitted: all.
            runs: Folder for the run folders.
            out: Folder for pages, numbers and figures.
            jobs: Runs trained at once, each on its share of the cores.
            dry_run: Only print the runs, hours and memory.
            json: Print the result as one JSON object.
        """
        from chary.study import antmaze

        spent = antmaze.BUDGETS[budget]
        chosen = [p for p in antmaze.parts(tables, spent) if not mazes or p.dataset in mazes]
        chosen = [
            p._replace(seeds=tuple(s for s in p.seeds if not seeds or s in seeds)) for p in chosen
        ]
        chosen = [p for p in chosen if p.seeds]
        if not chosen:
            raise CharyError(
                "--mazes and --seeds leave nothing of these tables. `chary reproduce antmaze --dry-run` "
                "lists what there is."
            )
        if dry_run:
            _foretell(chosen, as_json=json)
            return
        made = [_make(part, spent.eval_every, data, runs, out, jobs) for part in chosen]
        show(
            made,
            {"table": "table", "dataset": "dataset", "page": "page"},
            as_json=json,
            title="written",
        )

    tyro.cli(reproduce, args=options, prog=f"chary reproduce {page}")
    return 0


def _make(
    part: Any, eval_every: int, data: Path, runs: Path, out: Path, jobs: int
) -> dict[str, Any]:
    """Train a table's runs on one dataset and write its page."""
    from chary.study import plan, results
    from chary.study.page import write_study
    from chary.study.walks import draw_walks
    from chary.training.run_config import RunConfig

    file = data / f"{part.dataset}.hdf5"
    if not file.exists():
        raise CharyError(
            f"{file}: not there. Collect it (`chary data collect {part.dataset} --controller FILE "
            f"--steps 1000000 --out {file}`), or download D4RL's own (`chary data download "
            f"{part.dataset}`) and name its folder with --data."
        )
    run = RunConfig(
        dataset=part.dataset,
        data_file=file,
        steps=part.steps,
        eval_every=eval_every,
        eval_episodes=50,
        final_episodes=100,
    )
    began = time.monotonic()
    study = plan.make_plan(
        part.name, part.cells, part.seeds, None, run, runs=runs / part.name, preset="-"
    )
    results.train(study, at_once=jobs)
    write_study(study, out, seconds=time.monotonic() - began)
    if part.table == "scores":
        draw_walks(study, out / f"walks-{part.dataset}.png")
    return {
        "table": part.table,
        "dataset": part.dataset,
        "page": str(out / f"study-{part.name}.md"),
    }


def _foretell(chosen: list[Any], *, as_json: bool) -> None:
    """What the runs will take: their arithmetic at the speed of a few updates made now."""
    from chary.study.estimate import estimate

    rows = [
        {
            "table": part.table,
            "dataset": part.dataset,
            "cells": len(part.cells),
            "seeds": " ".join(map(str, part.seeds)),
            "runs": len(part.cells) * len(part.seeds),
            "updates": part.steps,
            **estimate(part)._asdict(),
        }
        for part in chosen
    ]
    hours = sum(row["hours"] for row in rows)
    show(
        rows,
        COLUMNS,
        as_json=as_json,
        title=f"{hours:.1f} hours of training, evaluations not counted",
    )
