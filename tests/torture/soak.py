"""Part (d): tiny runs for hours, with evaluations and checkpoints, in one process whose memory, files
and threads are counted.

    python -m tests.torture.soak SECONDS FOLDER

is that process; it prints a line of JSON for every run.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.torture.parts import Budget, Row

MOST_SLOPE = 1.0
"""MB an hour."""
WARM_UP = 0.4
"""Share of the time after which memory must be flat."""
SHORTEST = 20.0
"""Minutes below which a slope says nothing."""


def run(budget: Budget, seed: int, folder: Path) -> list[Row]:
    """Let the process work, and judge its samples."""
    import numpy as np

    del seed
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "tests.torture.soak", str(60.0 * budget.minutes), str(folder)]
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
        check=False,
    )
    samples = [json.loads(line) for line in done.stdout.splitlines()]
    (folder / "samples.json").write_text(json.dumps(samples))
    if done.returncode or len(samples) < 2:
        return [Row("soak", len(samples), 1, done.stderr[-300:])]
    late = samples[int(WARM_UP * len(samples)) :]
    hours = np.array([sample["seconds"] / 3600.0 for sample in late])
    slope = (
        float(np.polyfit(hours, [sample["memory"] for sample in late], 1)[0]) if late[1:] else 0.0
    )
    judged = budget.minutes >= SHORTEST
    first, last = late[0], late[-1]
    rows = [
        Row(
            "soak: tiny runs, memory",
            len(samples),
            judged and slope > MOST_SLOPE,
            f"{first['memory']:.0f} to {last['memory']:.0f} MB, {slope:+.1f} MB an hour"
            + ("" if judged else " (too short to judge)"),
        )
    ]
    for name in ("files", "threads"):
        grown = last[name] > max(sample[name] for sample in late[: max(1, len(late) // 2)])
        rows.append(Row(f"soak: {name}", len(samples), grown, f"{first[name]} to {last[name]}"))
    return rows


def main() -> None:
    seconds, folder = float(sys.argv[1]), Path(sys.argv[2])
    import chary
    from chary.data.collect.mazes import Job, collect_block
    from chary.data.dataset import Dataset
    from chary.host.machine import share_heaps

    share_heaps()
    maze = collect_block(Job("pointmaze-umaze", 2_000, seed=0, block=0))
    data = Dataset.from_columns(maze, name="pointmaze-umaze")
    settings: dict[str, Any] = {
        "preset": "none", "hidden": (8, 8), "batch_size": 16, "steps": 200, "log_every": 5,
        "eval_every": 50, "eval_episodes": 1, "final_episodes": 1,
    }  # fmt: skip
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        shutil.rmtree(folder / "run", ignore_errors=True)
        chary.train("bc", data, run=folder / "run", **settings)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        sample = {
            "seconds": time.monotonic() - began,
            "memory": pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
            "files": len(os.listdir("/proc/self/fd")),
            "threads": len(os.listdir("/proc/self/task")),
        }
        print(json.dumps(sample), flush=True)


if __name__ == "__main__":
    main()
