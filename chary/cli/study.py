"""`chary study targets|ensembles|size|baselines|selection`: train variants, compare them."""

import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from chary.cli.options import Option, option, parse
from chary.cli.output import show, tell
from chary.config import require
from chary.errors import unknown_name

STUDIES = {
    "targets": "Compare kinds of TD targets: do independent targets matter?",
    "ensembles": "Compare kinds of ensembles: can cheaper kinds replace separate networks?",
    "size": "Compare ensemble sizes, for several beta and alpha: how many members are needed?",
    "baselines": "Compare algorithms with their own settings, for the same number of steps.",
    "selection": "Compare scores that rank policies without a simulator, against the simulator.",
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "ensembles": {"targets": "independent"},
    "selection": {"holdout": 0.2},
}
EPISODES = 100
"""Of every evaluation on the way: these count in a study, as the last one does."""


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        names = "\n".join(f"  {name:<10} {text}" for name, text in STUDIES.items())
        print(f"usage: chary study STUDY --dataset NAME [OPTIONS]\n\n{names}\n")
        print("`chary study STUDY --help` lists every setting with its default.")
        return 0
    name, *options = arguments
    if name not in STUDIES:
        raise unknown_name("study", name, STUDIES)

    from chary.algos.msg_config import MSGConfig
    from chary.study import cells, plan, results, selection

    varied = {
        "targets": {"targets"},
        "ensembles": {"ensemble"},
        "size": {"members", "beta", "alpha"},
        "baselines": {
            *(field.name for field in fields(MSGConfig)),
            *cells.LEARNED_FROM,
            "validation",
            "patience",
        },
        "selection": set[str](),
    }[name]
    parsed = parse(
        "msg",
        options,
        prog=f"chary study {name}",
        description=f"{STUDIES[name]} Run again to resume where it stopped.",
        own=[*_own(name), *_common(name)],
        hidden=frozenset({"seed", "run", *varied}),
        defaults=DEFAULTS.get(name, {}) | {"eval_episodes": EPISODES},
    )
    own = parsed.own
    require(own.jobs is None or own.jobs >= 1, "jobs", own.jobs, "at least 1")
    spec = parsed.spec
    config, run = spec.config, spec.run
    if name == "baselines":
        chosen = cells.algorithm_cells(own.algos, spec.preset, run.dataset)
        # Nothing of MSG's own ways is for the others.
        config, run = None, replace(run, reward_scale=None, reward_shift=None, return_range=None)
    elif name == "selection":
        require(
            run.holdout > 0.0, "holdout", run.holdout, "above 0: select compares policies there"
        )
        chosen = selection.candidate_cells(
            config, spec.preset, run.dataset, betas=own.betas, alphas=own.alphas, others=own.others
        )
        config = None
    elif name == "size":
        chosen = cells.size_cells(own.sizes, own.betas, own.alphas)
    elif name == "targets":
        chosen = cells.target_cells(own.kinds)
    else:
        chosen = cells.ensemble_cells(own.kinds)
    began = time.monotonic()
    study = plan.make_plan(
        name,
        chosen,
        own.seeds,
        config,
        run,
        runs=own.runs,
        preset=spec.preset,
        execution=spec.execution,
    )
    results.train(study, at_once=own.jobs)
    out = own.out or own.runs
    write = _write_selection if name == "selection" else _write
    write(study, out, began=began, as_json=parsed.json)
    return 0


def _write(study: Any, out: Path, *, began: float, as_json: bool) -> None:
    """Page, numbers and figure of what was compared; the table on the terminal."""
    from chary.study.page import columns, table_rows, write_study

    found = write_study(study, out, seconds=time.monotonic() - began)
    _show(study, found, table_rows(found), columns(found), out / f"study-{study.name}", as_json)


def _write_selection(study: Any, out: Path, *, began: float, as_json: bool) -> None:
    """The same of scores that rank policies."""
    from chary.study.selection import rank
    from chary.study.selection_page import COLUMNS, file_name, table_rows, write_selection

    found = write_selection(study, rank(study), out, seconds=time.monotonic() - began)
    _show(study, found, table_rows(found), COLUMNS, out / file_name(study), as_json)


def _show(
    study: Any,
    found: dict[str, Any],
    rows: list[dict[str, Any]],
    columns: dict[str, str],
    written: Path,
    as_json: bool,
) -> None:
    files = {kind: f"{written}.{kind}" for kind in ("md", "json", "png")}
    if as_json:
        facts: dict[str, Any] = {key: value for key, value in found.items() if key != "rows"}
        show(found["rows"], {}, as_json=True, **facts, files=files)
        return
    title = f"{study.dataset['name']}, {found['steps']:,} steps"
    show(rows, columns, as_json=False, title=title)
    tell(f"page:   {files['md']}\nfigure: {files['png']}\nruns:   {study.jobs[0].folder.parent}")


def _own(name: str) -> list[Option]:
    """Options of what the study compares."""
    if name == "baselines":
        words = "Only these algorithms, or algorithm:preset. If omitted: all."
        return [option("algos", tuple[str, ...], (), words)]
    if name == "selection":
        return [
            option("betas", tuple[float, ...], (0.0, -8.0), "Values of MSG's beta."),
            option("alphas", tuple[float, ...], (0.0, 0.1, 1.0), "Values of MSG's alpha."),
            option(
                "others",
                tuple[str, ...],
                ("bc", "td3-bc", "iql", "cql", "rebrac"),
                "Other algorithms among the candidates.",
            ),
        ]  # fmt: skip
    if name != "size":
        return [option("kinds", tuple[str, ...], (), "Only these kinds. If omitted: all.")]
    return [
        option("sizes", tuple[int, ...], (1, 4, 16, 64), "Numbers of members to compare."),
        option("betas", tuple[float, ...], (-4.0,), "Values of beta, each with every alpha."),
        option(
            "alphas", tuple[float, ...], (0.0, 0.1, 0.5, 1.0), "Values of alpha, each with every beta."
        ),
    ]  # fmt: skip


def _common(name: str) -> list[Option]:
    """Options of every study."""
    runs = Path("runs") / f"study-{name}"
    return [
        option("seeds", tuple[int, ...], (0, 1, 2), "Seeds. Every variant is trained once with each."),
        option("runs", Path, runs, "Folder for the run folders, <variant>-seed<k>."),
        option(
            "out", Path | None, None, "Folder for page, numbers, figure. If omitted: that of the runs."
        ),
        option(
            "jobs",
            int | None,
            None,
            "Runs trained at once, each on its share of the cores. If omitted: one per core.",
        ),
    ]  # fmt: skip
