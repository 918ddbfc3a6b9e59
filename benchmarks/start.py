"""How long it takes to the first update: with nothing compiled yet, and when started again."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from chary.bench.timing import random_dataset
from chary.errors import CharyError


def time_starts(members: int, hidden: tuple[int, ...], starts: int) -> list[dict[str, Any]]:
    """A row for every start of the same training, each in a process of its own.

    The first finds an empty folder for compiled programs; the others find what it left there.
    """
    from chary.data import formats

    with tempfile.TemporaryDirectory(prefix="chary-bench-") as folder:
        data = Path(folder) / "random.npz"
        formats.write(random_dataset(), data)
        seconds = [_start(Path(folder), data, members, hidden, i) for i in range(starts)]
    return [
        {
            "start": i + 1,
            "members": members,
            "hidden": list(hidden),
            "seconds": took,
            "of_first": took / seconds[0],
        }
        for i, took in enumerate(seconds)
    ]


def _start(folder: Path, data: Path, members: int, hidden: tuple[int, ...], number: int) -> float:
    """Seconds from the command to the end of the first update, which its log has the time of."""
    run = folder / f"run-{number}"
    words = [
        "train", "msg", "--dataset", data, "--preset", "none", "--members", members, "--hidden",
        *hidden, "--warmup-steps", 0, "--steps", 1, "--log-every", 1, "--run", run,
    ]  # fmt: skip
    own = {k: v for k, v in os.environ.items() if not k.startswith("JAX_COMPILATION_CACHE")}
    began = time.time()
    process = subprocess.run(
        [sys.executable, "-m", "chary", *map(str, words)],
        env={**own, "CHARY_CACHE": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode != 0:
        raise CharyError(f"the training to be timed failed: {process.stderr.strip()[-500:]}")
    return json.loads((run / "timing.jsonl").read_text())["time"] - began
