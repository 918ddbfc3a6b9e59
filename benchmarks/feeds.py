"""Data in memory against data in files."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from chary.bench.timing import Case, algorithm_of, feed_of, random_dataset, stepper

WINDOW_SECONDS = 1.5
WINDOWS = 10


def compare_feeds(case: Case) -> list[dict[str, Any]]:
    """Updates a second with all transitions on the device, and with batches from mapped files.

    Windows of the two alternate, so that a machine that changes speed is fair to both.
    """
    from chary.data import formats

    algorithm, in_memory = algorithm_of(case), random_dataset()
    with tempfile.TemporaryDirectory(prefix="chary-bench-") as folder:
        path = Path(folder) / "data.columns"
        formats.write(in_memory, path)
        datasets = {"memory": in_memory, "files": formats.read(path)}
        advance = {name: stepper(algorithm, feed_of(algorithm, d)) for name, d in datasets.items()}
        once = {name: [advance[name](1) for _ in range(3)][-1] for name in datasets}
        steps = max(2, round(WINDOW_SECONDS / min(once.values())))
        seconds: dict[str, list[float]] = {name: [] for name in datasets}
        for _ in range(WINDOWS):
            for name in datasets:
                seconds[name].append(advance[name](steps))
    medians = {name: float(np.median(times)) for name, times in seconds.items()}
    return [
        {
            "transitions": name,
            "members": case.members,
            "hidden": list(case.hidden),
            "updates_per_s": 1.0 / median,
            "ratio": medians["memory"] / median,
        }
        for name, median in medians.items()
    ]
