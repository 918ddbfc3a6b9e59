"""`chary tune msg`: choose beta and alpha as the paper advises."""

from dataclasses import field, replace
from pathlib import Path

from chary.errors import CharyError

USAGE = """\
usage: chary tune msg --dataset NAME [--budget 12] [--blind] [OPTIONS]

Choose beta and alpha for MSG as its paper advises: low beta and a range of alpha first, then beta is
raised from the best alpha. Runs are scored in the simulator, or with --blind (or without a simulator) as
`chary select` ranks them. Ends with the command for a last run with a large ensemble. Given again, the
same command resumes.

  chary tune msg --dataset pointmaze-medium --budget 12 --out tunes/a
  chary tune msg --dataset mine.csv --budget 12 --out tunes/b
  chary tune msg --dataset D --budget 12 --on ray --out tunes/c

`chary tune msg --help` lists all options."""


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    algorithm, *options = arguments
    if algorithm != "msg":
        raise CharyError(
            f"chary tune is for msg, whose beta and alpha it chooses, not {algorithm}."
        )

    from chary.cli.options import option, parse
    from chary.cli.output import Flag, show, tell
    from chary.training import resolve
    from chary.tune import workflow
    from chary.tune.where import Where

    parsed = parse(
        algorithm,
        options,
        prog="chary tune msg",
        description="Choose beta and alpha as the paper advises.",
        own=[
            option("budget", int, 12, "Pairs of beta and alpha to train."),
            option("seeds", tuple[int, ...], (0,), "Seeds. Every pair is trained with each."),
            option("blind", Flag, False, "Never look at a simulator: rank runs as `chary select`."),
            option("search_members", int, 4, "Members of an ensemble during the search."),
            option("final_members", int, 64, "Members of the last run's ensemble."),
            option("out", Path | None, None, "Folder of the search. If omitted: tunes/msg."),
            ("where", Where, field(default=Where())),
        ],
        hidden=frozenset({"seed", "run", "members", "beta", "alpha"}),
    )
    spec, own = parsed.spec, parsed.own
    if own.where.on == "slurm":
        raise CharyError("--on slurm only submits runs; a search waits for them: use local or ray.")
    complete, dataset = resolve.complete(spec, spec.run.dataset)
    run = complete.run
    spec = spec._replace(run=replace(spec.run, dataset=run.dataset, data_file=run.data_file))
    blind = own.blind or (dataset.task is None and spec.run.env is None)
    tuned = workflow.tune(
        spec,
        own.out or Path("tunes") / algorithm,
        budget=own.budget,
        seeds=own.seeds,
        blind=blind,
        members=own.search_members,
        final_members=own.final_members,
        where=own.where,
    )
    last = tuned.steps[-1]
    rows = [{"beta": b, "alpha": a, "score": s} for (b, a), s in last.scores.items()]
    rows.sort(key=lambda row: -row["score"])
    columns = {"beta": "beta", "alpha": "alpha", "score": "score"}
    show(rows, columns, as_json=parsed.json, title=f"Score: {last.remark}", command=tuned.command)
    if not parsed.json:
        tell(f"Train the last run:\n  {tuned.command}")
    return 0
