"""What else is measured: every kind of ensemble, files, starts, populations, simulation, reports.

    python -m benchmarks.bench ensembles --out results

`chary bench` measures updates a second, which users want to know of their own machine too.
"""

import sys
from pathlib import Path
from typing import Any

import tyro

from chary.cli import bench
from chary.cli.output import Flag
from chary.config import require
from chary.errors import CharyError, unknown_name

FEED_COLUMNS = {
    "transitions": "transitions in", "members": "members", "updates_per_s": "updates/s",
    "ratio": "of the speed from memory",
}  # fmt: skip
ENSEMBLE_COLUMNS = {
    "ensemble": "ensemble", "members": "members", "parameters": "parameters",
    "updates_per_s": "updates/s", "relative": "of no ensemble's", "relative_low": "least",
    "relative_high": "most", "paper": "paper", "peak_mb": "peak MB",
}  # fmt: skip
START_COLUMNS = {
    "start": "start", "members": "members", "seconds": "s to the first update",
    "of_first": "of the first start's",
}  # fmt: skip
SIMULATION_COLUMNS = {
    "task": "task", "work": "work", "steps_per_s": "steps/s", "of_simulator": "of the simulator's",
}  # fmt: skip
POPULATION_COLUMNS = {
    "runs": "runs", "members": "members", "hidden": "hidden",
    "after_one_another": "updates/s, one after another", "side_by_side": "updates/s, at once",
    "ratio": "ratio",
}  # fmt: skip
REPORT_COLUMNS = {"runs": "runs", "lines": "log lines each", "seconds": "seconds", "mb": "MB"}
LARGE_COLUMNS = {
    "command": "command", "rows": "rows", "seconds": "seconds",
    "processor_seconds": "processor seconds", "peak_gb": "peak GB",
}  # fmt: skip
LOGGING_COLUMNS = {"what": "kept for reports", "seconds": "seconds", "share": "share of the run"}
Out = Path | None


def main(arguments: list[str]) -> int:
    name = arguments[0] if arguments else "--help"
    if name in ("-h", "--help"):
        print(f"usage: python -m benchmarks.bench {{{','.join(COMMANDS)}}} [OPTIONS]")
        return 0
    try:
        if name not in COMMANDS:
            raise unknown_name("bench", name, COMMANDS)
        tyro.cli(COMMANDS[name], args=arguments[1:], prog=f"python -m benchmarks.bench {name}")
    except CharyError as error:
        print(f"bench: error: {error}", file=sys.stderr)
        return 2
    return 0


def give(name: str, rows: list[dict[str, Any]], columns: dict[str, str], **options: Any) -> None:
    """Print what was measured, and write it into a folder where one is given."""
    heading = (COMMANDS[name].__doc__ or "").partition("\n")[0].rstrip(".")
    bench.give(name, heading, rows, columns, **options)


def feeds(out: Out = None, json: Flag = False) -> None:
    """Compare data in memory with data in files, at 4 members of 3x256, in alternating windows.

    Args:
        out: Folder for a Markdown page with the table.
        json: Print the table as one JSON object.
    """
    from benchmarks.feeds import compare_feeds
    from chary.bench.timing import LARGE, Case

    rows = compare_feeds(Case(4, LARGE, 0.1))
    give("feeds", rows, FEED_COLUMNS, out=out, as_json=json)


def start(
    members: int = 8,
    hidden: tuple[int, ...] = (64, 64, 64),
    starts: int = 2,
    out: Out = None,
    json: Flag = False,
) -> None:
    """Time from the command to the first update: with nothing compiled, and once more.

    Args:
        members: Number of members.
        hidden: Sizes of the hidden layers.
        starts: Number of starts. All but the first find compiled programs.
        out: Folder for a Markdown page with the table.
        json: Print the table as one JSON object.
    """
    from benchmarks.start import time_starts

    require(members >= 1, "members", members, "at least 1")
    require(starts >= 1, "starts", starts, "at least 1")
    rows = time_starts(members, hidden, starts)
    give("start", rows, START_COLUMNS, out=out, as_json=json)


def population(
    runs: int = 4, members: tuple[int, ...] = (), out: Out = None, json: Flag = False
) -> None:
    """Compare runs trained at once in one program with the same runs one after another.

    Args:
        runs: Number of runs, with different seeds.
        members: Only cases with these numbers of members (8 of 3x64, 4 of 3x256; default: all).
        out: Folder for a Markdown page with the table.
        json: Print the table as one JSON object.
    """
    from benchmarks.population import CASES, time_populations

    require(runs >= 2, "runs", runs, "at least 2")
    sizes = sorted({case.members for case in CASES})
    for size in members:
        require(size in sizes, "members", size, f"of {', '.join(map(str, sizes))}")
    rows = time_populations([c for c in CASES if not members or c.members in members], runs)
    give("population", rows, POPULATION_COLUMNS, out=out, as_json=json)


def simulation(
    tasks: tuple[str, ...] = (),
    seconds: float = 3.0,
    repeats: int = 3,
    out: Out = None,
    json: Flag = False,
) -> None:
    """Time evaluations and collections, compared with the simulator alone on one core.

    Args:
        tasks: Tasks to measure. If omitted: a maze, a hopper and an ant.
        seconds: Seconds for which the simulator alone runs.
        repeats: Rounds, each in a fresh process; medians are shown.
        out: Folder for a Markdown page with the table.
        json: Print the table as one JSON object.
    """
    from benchmarks.simulation import TASKS, time_simulation

    require(seconds > 0, "seconds", seconds, "above 0")
    require(repeats >= 1, "repeats", repeats, "at least 1")
    rows = time_simulation(list(tasks or TASKS), seconds=seconds, repeats=repeats)
    give("simulation", rows, SIMULATION_COLUMNS, out=out, as_json=json)


def ensembles(
    members: tuple[int, ...] = (4, 64),
    kinds: tuple[str, ...] = (),
    hidden: tuple[int, ...] = (256, 256, 256),
    repeats: int = 3,
    seconds: float = 3.0,
    out: Out = None,
    json: Flag = False,
) -> None:
    """Time every kind of ensemble, CQL and F-BRC against a single Q-function, with the paper's numbers.

    Args:
        members: Numbers of members.
        kinds: Kinds of ensembles, batch-whole, cql or fbrc. If omitted: all.
        hidden: Sizes of the hidden layers.
        repeats: Rounds, each of which measures everything once, in a fresh process.
        seconds: Approximate seconds per measurement, without compilation.
        out: Folder for a Markdown page with the table.
        json: Print the table as one JSON object.
    """
    from benchmarks.ensembles import ALPHA, BASELINES, WHOLE, time_ensembles
    from chary.bench.timing import BATCH
    from chary.study.cells import known_ensembles

    require(bool(members) and min(members) >= 1, "members", members, "numbers of at least 1")
    require(bool(hidden) and min(hidden) >= 1, "hidden", hidden, "sizes of at least 1")
    require(repeats >= 1, "repeats", repeats, "at least 1")
    require(seconds > 0, "seconds", seconds, "above 0")
    beside = (*BASELINES, WHOLE)
    others = [kind for kind in kinds if kind not in beside]
    chosen = [kind for kind in kinds or beside if kind in beside]
    chosen += known_ensembles(others) if others or not kinds else []
    rows = time_ensembles(chosen, members, hidden, repeats=repeats, seconds=seconds)
    sizes = "x".join(map(str, hidden))
    notes = f"networks {sizes}, alpha {ALPHA}, batch {BATCH}, medians of {repeats} rounds"
    give("ensembles", rows, ENSEMBLE_COLUMNS, out=out, as_json=json, notes=notes, batch=BATCH)


def report(
    runs: tuple[int, ...] = (20, 300), lines: int = 1_000, out: Out = None, json: Flag = False
) -> None:
    """Time `chary report`, from the command to the page, on synthetic runs.

    Args:
        runs: Numbers of runs.
        lines: Log lines of each run.
        out: Folder for a Markdown page with the table.
        json: Print the table as one JSON object.
    """
    from benchmarks.reports import time_report

    require(bool(runs) and min(runs) >= 1, "runs", runs, "numbers of at least 1")
    require(lines >= 1, "lines", lines, "at least 1")
    rows = [time_report(count, lines) for count in runs]
    give("report", rows, REPORT_COLUMNS, out=out, as_json=json)


def logging(
    dataset: str = "pointmaze-umaze", steps: int = 10_000, out: Out = None, json: Flag = False
) -> None:
    """Train MSG's small preset and measure the share of time spent on data for reports.

    Args:
        dataset: Dataset to train on; it needs a simulator.
        steps: Gradient steps, with evaluations at the default interval.
        out: Folder for a Markdown page with the table.
        json: Print the table as one JSON object.
    """
    from benchmarks.reports import time_logging

    require(steps >= 1, "steps", steps, "at least 1")
    rows = time_logging(dataset, steps)
    if not json:
        rows = [{**row, "share": f"{row['share']:.2%}"} for row in rows]
    give(
        "logging", rows, LOGGING_COLUMNS, out=out, as_json=json, notes=f"{dataset}, {steps:,} steps"
    )


def large(rows: int = 5_000_000, out: Out = None, json: Flag = False) -> None:
    """Time and memory of importing, checking and training on a log of millions of rows.

    Args:
        rows: Rows of the log, of 6 observations and 2 actions each.
        out: Folder for a Markdown page with the table.
        json: Print the table as one JSON object.
    """
    from benchmarks.large import LENGTH, time_large

    require(rows >= 10 * LENGTH, "rows", rows, f"at least {10 * LENGTH}")
    give("large", time_large(rows), LARGE_COLUMNS, out=out, as_json=json)


COMMANDS = {
    "ensembles": ensembles, "feeds": feeds, "start": start, "population": population,
    "simulation": simulation, "report": report, "logging": logging, "large": large,
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
