"""`python -m tests.torture`: all parts, one after the other, with a table of counts at the end.

A part that is done is not repeated when the same command is given again.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from tests.torture.parts import PARTS, Budget, Row, table, there


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of everything that is random")
    parser.add_argument("--minutes", type=float, default=110.0, help="of all parts together")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of cases")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--out", type=Path, default=Path("results/torture.md"))
    parser.add_argument("--folder", type=Path, help="to work in; the same one resumes")
    options = parser.parse_args()
    usual = Path(tempfile.gettempdir()) / f"chary-torture-{options.seed}-{options.scale:g}"
    folder = (options.folder or usual).resolve()
    _prepare(folder)
    parts = [name for name in options.parts if there(name)]
    rows: list[Row] = []
    for name in parts:
        done = folder / f"{name}.json"
        if not done.exists():
            print(f"{name}: {PARTS[name]}", file=sys.stderr, flush=True)
            began = time.monotonic()
            budget = Budget(options.minutes / len(parts), options.scale)
            found = import_module(f"tests.torture.{name}").run(budget, options.seed, folder / name)
            minutes = (time.monotonic() - began) / 60.0
            done.write_text(json.dumps({"rows": found, "minutes": minutes}))
        rows += [Row(*row) for row in json.loads(done.read_text())["rows"]]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(_page(options, folder, parts, rows))
    print(table(rows))
    return 1 if any(row.failures for row in rows) else 0


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
    )


def _page(options: argparse.Namespace, folder: Path, parts: list[str], rows: list[Row]) -> str:
    from chary.host.machine import program

    minutes = [json.loads((folder / f"{name}.json").read_text())["minutes"] for name in parts]
    took = ", ".join(f"{name} {m:.0f} min" for name, m in zip(parts, minutes, strict=True))
    return (
        f"# Torture\n\n    python -m tests.torture --seed {options.seed} --scale {options.scale:g} "
        f"--minutes {options.minutes:g}\n\nMade by {program()}. Clock time: {took}.\n\n{table(rows)}"
    )


if __name__ == "__main__":
    sys.exit(main())
