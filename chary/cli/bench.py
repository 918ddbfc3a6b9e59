"""`chary bench`: updates per second on this machine."""

from pathlib import Path
from typing import Any

import tyro

from chary.cli.output import Flag, show
from chary.config import require
from chary.errors import unknown_name
from chary.host.machine import cores, cpu_name, versions

COLUMNS = {
    "members": "members", "hidden": "hidden", "alpha": "alpha", "samples": "samples of H",
    "updates_per_s": "updates/s", "gflops": "GFLOP/s", "share_of_gemm": "share of matrix rate",
    "passes_counted": "passes", "compile_s": "compile s", "peak_mb": "peak MB",
}  # fmt: skip
COMMANDS = ("updates",)


def main(arguments: list[str]) -> int:
    if arguments and not arguments[0].startswith("-"):
        name, *arguments = arguments
        if name not in COMMANDS:
            raise unknown_name(
                "bench", name, COMMANDS, "All others are in the repository: `make bench`."
            )
    tyro.cli(updates, args=arguments, prog="chary bench")
    return 0


def give(
    bench: str,
    heading: str,
    rows: list[dict[str, Any]],
    columns: dict[str, str],
    *,
    out: Path | None,
    as_json: bool,
    notes: str = "",
    **facts: Any,
) -> None:
    """Print what was measured, and write it into a folder where one is given."""
    title = f"{cpu_name()}, {cores()} cores{f': {notes}' if notes else ''}"
    if out is not None:
        from chary.report.tables import write_page

        used = versions()
        notes = f"{title}; jax {used['jax']}, numpy {used['numpy']}."
        write_page(out / f"bench-{bench}.md", heading, rows, columns, notes=[notes])
    show(rows, columns, as_json=as_json, title=title, machine=cpu_name(), **facts)


def updates(members: tuple[int, ...] = (), out: Path | None = None, json: Flag = False) -> None:
    """Time MSG updates on random data (29 observations, 8 actions, batches of 256).

    Args:
        members: Measure only cases with these numbers of members. If omitted: all.
        out: Folder for a Markdown page with the table.
        json: Print the table as one JSON object.
    """
    from chary.bench.timing import BATCH
    from chary.bench.updates import CASES, WINDOWS, time_updates

    sizes = sorted({case.members for case in CASES})
    for size in members:
        require(size in sizes, "members", size, f"of {', '.join(map(str, sizes))}")
    cases = [case for case in CASES if not members or case.members in members]
    rates, rows = time_updates(cases)
    best = max(rates, key=lambda name: rates[name])
    notes = (
        f"{rates[best]:.0f} GFLOP/s in {best}'s products; batch {BATCH}, best of {WINDOWS} windows"
    )
    facts = {"gemm_gflops": rates[best], "gemm_rates": rates, "batch": BATCH}
    give("updates", HEADING, rows, COLUMNS, out=out, as_json=json, notes=notes, **facts)


HEADING = "Time MSG updates on random data (29 observations, 8 actions, batches of 256)"
