"""Part (d): tiny runs for hours, with evaluations and checkpoints, in one process whose memory, files
and threads are counted.

    python -m tests.torture.soak SECONDS FOLDER

is that process; it prints a line of JSON for every run.
"""

import gc
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.torture import parts
from tests.torture.parts import Budget, Check

MAIN, WANTED, LANES = "soak", 1, 1
MOST_SLOPE = 1.0
"""MB an hour."""
WARM_UP = 0.4
"""Share of the time after which memory must be flat."""
WINDOWS = 20
"""Stretches of time whose lowest samples are compared: what threads hold for a moment, ten megabytes now
and then, is not what stays."""
SHORTEST = 20.0
"""Minutes below which a slope says nothing."""


@contextmanager
def torture(budget: Budget, seed: int, folder: Path) -> Iterator[parts.Case]:
    """One process, for all the minutes there are; one that was stopped begins anew."""
    del seed
    yield lambda _: _soaked(budget.minutes, folder)


def _soaked(minutes: float, folder: Path) -> list[Check]:
    """Let the process work, and judge its samples."""
    import numpy as np

    words = [sys.executable, "-m", "tests.torture.soak", str(60.0 * minutes), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    samples = [json.loads(line) for line in done.stdout.splitlines()]
    (folder / "samples.json").write_text(json.dumps(samples))
    if done.returncode or len(samples) < 2:
        return [Check(MAIN, "failed", f"after {len(samples)} runs: {done.stderr[-300:]}")]
    late = samples[int(WARM_UP * len(samples)) :]
    lowest = lows(late)
    hours = [sample["seconds"] / 3600.0 for sample in lowest]
    memory = [sample["memory"] for sample in lowest]
    slope = float(np.polyfit(hours, memory, 1)[0]) if late[1:] else 0.0
    grown = f"{memory[0]:.1f} to {memory[-1]:.1f} MB, {slope:+.2f} MB an hour"
    judged = minutes >= SHORTEST
    checks = [Check("soak: memory", grown, grown if judged and slope > MOST_SLOPE else "", judged)]
    for name in ("files", "threads"):
        first, last = late[0][name], late[-1][name]
        most = max(sample[name] for sample in late[: max(1, len(late) // 2)])
        told = f"{first} to {last}"
        checks.append(Check(f"soak: {name}", told, told if last > most else ""))
    wrong = [f"{check.what}: {check.problem}" for check in checks if check.problem]
    told = f"of {minutes:.0f} minutes, {len(samples):,} runs" + ("" if judged else f"; {grown}")
    return [Check(MAIN, told, "; ".join(wrong)), *checks]


def lows(samples: list[dict[str, float]]) -> list[dict[str, float]]:
    """The sample with the least memory of each window; few samples are taken as they are."""
    size = max(1, len(samples) // WINDOWS)
    windows = (samples[start : start + size] for start in range(0, len(samples), size))
    return [min(window, key=lambda sample: sample["memory"]) for window in windows]


def own_memory() -> float:
    """Megabytes of this process that are no pages of files, which the system keeps or drops."""
    status = Path("/proc/self/status").read_text()
    (kilobytes,) = (line.split()[1] for line in status.splitlines() if line.startswith("RssAnon"))
    return int(kilobytes) / 1024


def main() -> None:
    seconds, folder = float(sys.argv[1]), Path(sys.argv[2])
    import chary
    from chary.data.collect.mazes import Job, collect_block
    from chary.data.dataset import Dataset
    from chary.host.machine import give_back_memory, share_heaps

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
        gc.collect()  # what waits to be collected comes and goes by megabytes
        give_back_memory()
        sample = {
            "seconds": time.monotonic() - began,
            "memory": own_memory(),
            "files": len(os.listdir("/proc/self/fd")),
            "threads": len(os.listdir("/proc/self/task")),
        }
        print(json.dumps(sample), flush=True)


if __name__ == "__main__":
    main()
