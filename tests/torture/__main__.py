"""`python -m tests.torture`: all parts, two processes at a time, with a table of counts at the end.

What was done is not repeated when the same command is given again.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.torture.parts import PARTS, WHOLE, Budget, Row, estimate, part_of, rows_of, table, work

SAMPLE = 0.01
"""Of all cases, to estimate what they take."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of everything that is random")
    parser.add_argument("--minutes", type=float, default=WHOLE, help="of all parts together")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of cases")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--out", type=Path, default=Path("results/torture.md"))
    parser.add_argument("--folder", type=Path, help="to work in; the same one resumes")
    parser.add_argument("--dry-run", action="store_true", help="try a few cases, say what all take")
    parser.add_argument("--lane", type=int, help=argparse.SUPPRESS)  # of the one part that is named
    options = parser.parse_args()
    scale = SAMPLE if options.dry_run else options.scale
    usual = Path(tempfile.gettempdir()) / f"chary-torture-{options.seed}-{scale:g}"
    folder = (options.folder or usual).resolve()
    if options.lane is not None:
        (name,) = options.parts
        work(name, Budget(options.minutes, scale), options.seed, folder, options.lane)
        return 0
    _prepare(folder)
    began = time.monotonic()
    chosen = [n for n in PARTS if n in options.parts and not (options.dry_run and n == "soak")]
    lanes = [(name, lane) for name in chosen for lane in range(part_of(name).LANES)]
    with ThreadPoolExecutor(options.jobs) as pool:
        ended = list(pool.map(lambda one: _lane(one[0], one[1], options, scale, folder), lanes))
    rows: list[Row] = []
    complete = not any(ended)
    for name in chosen:
        wanted = Budget(0.0, scale).cases(part_of(name).WANTED)
        rows += (found := rows_of(name, folder, wanted))
        complete = complete and found[0].cases >= wanted
    print(table(rows))
    if options.dry_run:
        print(estimate(folder, options.parts))
    else:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        minutes = (time.monotonic() - began) / 60.0
        options.out.write_text(_page(options, minutes, rows))
    return 0 if complete and not any(row.failures for row in rows) else 1


def _prepare(folder: Path) -> None:
    """An environment that users' programs have too, with its own caches and memory of names."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.update(
        JAX_PLATFORMS="cpu",
        CHARY_STATE=str(folder / "state"),
        CHARY_CACHE=str(folder / "cache"),
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
        JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1",
        OPENBLAS_NUM_THREADS="1",
        PYTHONPATH=str(Path(__file__).parents[2]),
    )


def _lane(name: str, lane: int, options: argparse.Namespace, scale: float, folder: Path) -> int:
    """Work in a process of its own, on its share of the minutes."""
    share, words = PARTS[name]
    minutes = options.minutes / WHOLE * share / part_of(name).LANES
    if not lane:
        print(f"{name}: {words}; {minutes:.0f} minutes or less", file=sys.stderr, flush=True)
    given = {"--seed": options.seed, "--scale": scale, "--minutes": minutes, "--folder": folder}
    asked = [str(word) for pair in given.items() for word in pair]
    program = [sys.executable, "-m", "tests.torture", "--parts", name, "--lane", str(lane), *asked]
    return subprocess.run(program, check=False).returncode


def _page(options: argparse.Namespace, minutes: float, rows: list[Row]) -> str:
    from chary.host.machine import program

    return (
        f"# Torture\n\n    python -m tests.torture --seed {options.seed} --scale {options.scale:g} "
        f"--minutes {options.minutes:g}\n\nMade by {program()} in {minutes:.0f} minutes. An attempt is "
        f"no case if it did not come to what was tried.\n\n{table(rows)}"
    )


if __name__ == "__main__":
    sys.exit(main())
