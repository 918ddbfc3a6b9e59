"""Where a sweep is trained: on this machine, on Ray, or as an array job of SLURM."""

import re
from dataclasses import dataclass
from typing import Literal

from chary.config import Checked, Count, Positive, require
from chary.errors import CharyError
from chary.host.machine import cores

ONLY = {
    "address": ("ray",),
    "partition": ("slurm",),
    "time": ("slurm",),
    "dry_run": ("slurm",),
    "gpus_per_run": ("ray", "slurm"),
}
"""Options that not every place has."""
UNITS = {"m": 1, "min": 1, "h": 60, "d": 24 * 60}
"""Minutes."""


@dataclass(frozen=True)
class Where(Checked):
    """Where workers run, and what each of them gets."""

    on: Literal["local", "ray", "slurm"] = "local"
    """Where runs are trained. local: processes on this machine. ray: tasks of a Ray cluster. slurm: an
    array job, which is only submitted. Clusters must share the sweep's folder and the data."""
    jobs: Positive | None = None
    """Runs trained at once. If omitted: on this machine as many as its cores allow, on a cluster as
    many as it has room for."""
    cores_per_run: Positive | None = None
    """Cores of each run. If omitted: this machine's divided by --jobs, or 1 without --jobs."""
    together: bool = False
    """Train runs that differ only in seeds and in settings that are numbers as populations, in one
    worker, or with --jobs in so many. Without --jobs each has all cores of this machine."""
    gpus_per_run: Count = 0
    """GPUs of each run, on a cluster."""
    address: str | None = None
    """Address of a Ray cluster: HOST:PORT, or auto for the one that this machine belongs to. If
    omitted: one is started on this machine, for this sweep."""
    partition: str | None = None
    """Partition of SLURM."""
    time: str | None = None
    """Time limit of each run in SLURM: 90min, 8h, 2d. Runs that need longer are saved; submit again."""
    dry_run: bool = False
    """Only print the script for SLURM."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, places in ONLY.items():
            if getattr(self, name) and self.on not in places:
                option = name.replace("_", "-")
                raise CharyError(f"--{option} is for --on {' or '.join(places)}, not {self.on}.")
        if self.on == "local" and self.cores_per_run:
            require(
                self.cores_per_run <= cores(),
                "cores-per-run",
                self.cores_per_run,
                f"at most the {cores()} of this machine",
            )
        assert self.minutes is None or self.minutes > 0

    @property
    def minutes(self) -> int | None:
        """The time limit."""
        if self.time is None:
            return None
        found = re.fullmatch(r"(\d+)\s*([a-z]+)", self.time.strip())
        sound = found and found[2] in UNITS and int(found[1]) > 0
        require(bool(sound), "time", self.time, "a number with a unit: 90min, 8h or 2d")
        assert found is not None
        return int(found[1]) * UNITS[found[2]]

    @property
    def cores(self) -> int:
        """Cores of each run."""
        return self.cores_per_run or max(
            1, cores() // (self.jobs or (1 if self.together else cores()))
        )
