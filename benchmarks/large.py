"""A log of millions of rows, from CSV to a trained run: time and memory of each command."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from chary.errors import CharyError

OBSERVATIONS, ACTIONS, LENGTH = 6, 2, 1_000
UPDATES = 200


def time_large(rows: int) -> list[dict[str, Any]]:
    """A row for each command that someone with a large log gives, each in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="chary-bench-") as name:
        folder = Path(name)
        _write_log(folder / "log.csv", rows)
        columns = [
            "--observations",
            "o*",
            "--actions",
            "a*",
            "--reward",
            "r",
            "--episode",
            "episode",
        ]
        commands = {
            "import": ["data", "import", "log.csv", "--out", "log.npz", *columns],
            "check": ["data", "check", "log.npz"],
            f"train, {UPDATES} updates": [
                "train", "msg", "--dataset", "log.npz", "--steps", UPDATES, "--run", "run",
            ],
        }  # fmt: skip
        return [
            {"command": name, "rows": rows, **_measure(folder, words)}
            for name, words in commands.items()
        ]


def _write_log(path: Path, rows: int) -> None:
    """A walk of numbers that depend on each other, so that the doctor has nothing to stop at."""
    import pyarrow
    import pyarrow.csv

    rng = np.random.default_rng(0)
    state = np.cumsum(0.1 * rng.standard_normal((rows, OBSERVATIONS)), axis=0)
    action = np.tanh(rng.standard_normal((rows, ACTIONS)) - 0.1 * np.sin(state[:, :ACTIONS]))
    columns = {"episode": np.arange(rows) // LENGTH, "r": np.cos(state).sum(axis=1)}
    columns |= {f"o{i}": np.sin(column) for i, column in enumerate(state.T)}
    columns |= {f"a{i}": column for i, column in enumerate(action.T)}
    # Four decimals, as instruments and people write them.
    written = {name: np.round(column, 4) for name, column in columns.items()}
    pyarrow.csv.write_csv(pyarrow.table(written), path)


def _measure(folder: Path, words: list[Any]) -> dict[str, float]:
    """Seconds, processor time and the peak of memory of one command."""
    began = time.monotonic()
    with open(folder / "output.txt", "w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "chary", *map(str, words)],
            cwd=folder,
            stdout=output,
            stderr=output,
        )
        _, status, used = os.wait4(process.pid, 0)
        output.seek(0)
        if status:
            raise CharyError(f"chary {words[0]} failed: {output.read().strip()[-500:]}")
    return {
        "seconds": time.monotonic() - began,
        "processor_seconds": used.ru_utime + used.ru_stime,
        "peak_gb": used.ru_maxrss * 1024 / 1e9,
    }
