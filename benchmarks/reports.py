"""What reports cost: to make one from many runs, and to keep in every run what it needs."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chary.errors import CharyError
from tests.synthetic import synthetic_run


def time_report(runs: int, lines: int) -> dict[str, Any]:
    """Seconds from the command to the page, and its size, for runs with so many log lines."""
    with tempfile.TemporaryDirectory(prefix="chary-bench-") as folder:
        home = Path(folder)
        for seed in range(runs):
            members = 4 * (1 + seed % 4)  # four methods
            synthetic_run(
                home / f"run-{seed}", seed=seed, lines=lines, settings={"members": members}
            )
        page = home / "report.html"
        words = ["report", *sorted(map(str, home.glob("run-*"))), "--out", str(page)]
        began = time.monotonic()
        process = subprocess.run(
            [sys.executable, "-m", "chary", *words], capture_output=True, text=True, check=False
        )
        seconds = time.monotonic() - began
        if process.returncode != 0:
            raise CharyError(f"the report to be timed failed: {process.stderr.strip()[-500:]}")
        return {"runs": runs, "lines": lines, "seconds": seconds, "mb": page.stat().st_size / 1e6}


def time_logging(dataset: str, steps: int) -> list[dict[str, Any]]:
    """Train MSG's small preset, and see how much of the time goes into what reports need."""
    from chary.runs.folder import RunFolder
    from chary.training import groups, loop
    from chary.training import start as training

    spent: dict[str, float] = {}
    kept = {
        "summary of the data": (groups, "keep_summary"),
        "what the critics think": (loop, "diagnose"),
        "files of diagnostics": (RunFolder, "save_diagnostics"),
        "log lines": (RunFolder, "append"),
    }
    with tempfile.TemporaryDirectory(prefix="chary-bench-") as folder:
        began = time.monotonic()
        with _timed(kept, spent):
            training.train(
                "msg", dataset, preset="small", steps=steps, run=os.path.join(folder, "run")
            )
        total = time.monotonic() - began
    spent["altogether"] = sum(spent.values())
    return [{"what": what, "seconds": s, "share": s / total} for what, s in spent.items()]


@contextmanager
def _timed(places: dict[str, tuple[Any, str]], spent: dict[str, float]) -> Iterator[None]:
    """Add up the seconds that are spent in functions, by their names here."""

    def timing(function: Callable[..., Any], what: str) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            began = time.monotonic()
            try:
                return function(*arguments)
            finally:
                spent[what] += time.monotonic() - began

        return timed

    before = {what: getattr(home, name) for what, (home, name) in places.items()}
    for what, (home, name) in places.items():
        spent[what] = 0.0
        setattr(home, name, timing(before[what], what))
    try:
        yield
    finally:
        for what, (home, name) in places.items():
            setattr(home, name, before[what])
