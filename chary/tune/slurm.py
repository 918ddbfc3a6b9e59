"""A sweep on SLURM: one array job over the cells that are not finished.

SLURM starts `chary sweep FOLDER --cell K` for each; the folder is the truth there too. A time limit or
a preemption costs nothing: the run gets a signal in time, saves itself, and resumes when queued again.
"""

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from chary.errors import CharyError
from chary.tune.process import code_of
from chary.tune.sweep import Cell, Sweep, shared
from chary.tune.where import Where

SAVING_SECONDS = 120
"""How long before the time limit a run gets the signal to save itself."""


def submit(sweep: Sweep, cells: Sequence[Cell], where: Where) -> str:
    """Submit these cells; returns the number of the job."""
    try:
        done = subprocess.run(
            ["sbatch", "--parsable"],
            input=script(sweep, cells, where),
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise CharyError(
            f"--on slurm: sbatch cannot be run ({error.strerror}). Submit from a login node of the "
            "cluster, or add --dry-run for the script."
        ) from error
    if done.returncode:
        raise CharyError(f"--on slurm: sbatch refused the job: {done.stderr.strip()}")
    return done.stdout.strip().partition(";")[0]


def script(sweep: Sweep, cells: Sequence[Cell], where: Where) -> str:
    """What is submitted."""
    groups = shared(cells, together=where.together, at_once=where.jobs)
    numbers = sorted(group[0].number for group in groups)
    folder = sweep.folder.resolve()
    words = [sys.executable, "-m", "chary", "sweep", str(folder)]
    if code := code_of(tuple(cells)):
        words += ["--trust-code", *code]
    words.append("--cell")
    options = {
        "job-name": f"chary-{folder.name}",
        "array": _ranges(numbers) + (f"%{where.jobs}" if where.jobs else ""),
        "partition": where.partition,
        "time": where.minutes,
        "nodes": 1,
        "ntasks": 1,
        "cpus-per-task": where.cores_per_run or 1,
        "gres": f"gpu:{where.gpus_per_run}" if where.gpus_per_run else None,
        "chdir": Path.cwd(),
        "output": f"{str(folder).replace('%', '%%')}/cell-%a.log",  # in which %% is one
        "open-mode": "append",
        "requeue": "",
        # To the script's own process, which is the run's by then.
        "signal": f"B:TERM@{SAVING_SECONDS}",
    }
    lines = [
        f"#SBATCH --{name}" + (f"={shlex.quote(str(value))}" if value != "" else "")
        for name, value in options.items()
        if value is not None
    ]
    lines.append("cells=$SLURM_ARRAY_TASK_ID")
    for first, *others in ([cell.number for cell in group] for group in groups):
        if others:
            lines.append(
                f'test "$cells" = {first} && cells="{" ".join(map(str, [first, *others]))}"'
            )
    return "\n".join(["#!/bin/sh", *lines, f"exec {shlex.join(words)} $cells", ""])


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in order as SLURM writes them: 0-3,7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{a}-{b}" if b > a else str(a) for a, b in runs)
