"""`chary bench`: updates per second, as a share of the machine's matrix-multiply rate."""

from typing import Any

import tyro

from chary.bench import BATCH, CASES, LARGE, WINDOWS, Case, compare_feeds, run_bench
from chary.cli.output import Flag, show
from chary.machine import cpu_name
from chary.settings import require

COLUMNS = {
    "members": "members", "hidden": "hidden", "alpha": "alpha", "updates_per_s": "updates/s",
    "gflops": "GFLOP/s", "share_of_gemm": "share of matrix rate", "passes_counted": "passes",
    "compile_s": "compile s", "peak_mb": "peak MB",
}  # fmt: skip

FEED_COLUMNS = {
    "transitions": "transitions in", "members": "members", "updates_per_s": "updates/s",
    "ratio": "of the speed from memory",
}  # fmt: skip


def main(arguments: list[str]) -> int:
    def bench(members: tuple[int, ...] = (), feeds: Flag = False, json: Flag = False) -> None:
        """Time MSG updates on random data (29 observations, 8 actions, batches of 256).

        Args:
            members: Only cases with these numbers of members; all by default.
            feeds: Compare data in memory with data in files instead, at 4 members of 3x256.
            json: Print the table as one JSON object.
        """
        if feeds:
            rows = compare_feeds(Case(4, LARGE, 0.1))
            show(rows, FEED_COLUMNS, as_json=json, title=cpu_name(), machine=cpu_name())
            return
        sizes = sorted({case.members for case in CASES})
        for size in members:
            require(size in sizes, "members", size, f"of {', '.join(map(str, sizes))}")
        cases = [case for case in CASES if not members or case.members in members]
        rates, rows = run_bench(cases)
        best = max(rates, key=lambda name: rates[name])
        title = (
            f"{cpu_name()}: {rates[best]:.0f} GFLOP/s in {best}'s matrix products; "
            f"batch {BATCH}, best of {WINDOWS} windows"
        )
        facts: dict[str, Any] = {
            "gemm_gflops": rates[best], "gemm_rates": rates, "machine": cpu_name(), "batch": BATCH,
        }  # fmt: skip
        if not json:
            rows = [{**row, "hidden": "x".join(map(str, row["hidden"]))} for row in rows]
        show(rows, COLUMNS, as_json=json, title=title, **facts)

    tyro.cli(bench, args=arguments, prog="chary bench")
    return 0
