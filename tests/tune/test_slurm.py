"""SLURM: the script that is submitted, and what becomes of it under a stand-in for sbatch."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from chary.cli import main
from chary.runs.folder import RunFolder
from chary.tune import slurm, sweep
from chary.tune.where import Where
from tests.tune.test_sweep import data, specs_of

__all__ = ["data"]

SBATCH = """\
#!{python}
# Runs the array here, one task after the other; of a job of a minute the first reaches its limit.
import glob, os, re, shlex, signal, subprocess, sys, time
script = sys.stdin.read()
options = dict(re.findall(r"^#SBATCH --([a-z-]+)=?(.*)$", script, re.M))
options = {{name: "".join(shlex.split(value)) for name, value in options.items()}}
first, _, last = options["array"].partition("%")[0].partition("-")
for number in range(int(first), int(last or first) + 1):
    with open(options["output"].replace("%a", str(number)), "a") as log:
        task = subprocess.Popen(
            ["sh", "-c", script], stdout=log, stderr=log, cwd=options["chdir"],
            env={{**os.environ, "SLURM_ARRAY_TASK_ID": str(number)}},
        )
    if options["time"] == "1" and str(number) == first:
        while not glob.glob(os.path.dirname(options["output"]) + "/*/metrics.jsonl"):
            time.sleep(0.02)
        task.send_signal(getattr(signal, "SIG" + options["signal"].split(":")[1].split("@")[0]))
    task.wait()
print("4321;cluster")
"""


@pytest.fixture
def sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for SLURM's command."""
    path = tmp_path / "bin" / "sbatch"
    path.parent.mkdir()
    path.write_text(SBATCH.format(python=sys.executable))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
    return path


def test_the_script_says_everything(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a sweep 50%"
    planned = sweep.create(folder, specs_of(data, folder, seeds=(0, 1, 2)))
    monkeypatch.chdir(tmp_path)
    where = Where(on="slurm", partition="gpu", time="8h", jobs=4, cores_per_run=2, gpus_per_run=1)
    cells = [planned.cells[number] for number in (0, 1, 2, 5)]
    assert (
        slurm.script(planned, cells, where)
        == f"""\
#!/bin/sh
#SBATCH --job-name='chary-a sweep 50%'
#SBATCH --array=0-2,5%4
#SBATCH --partition=gpu
#SBATCH --time=480
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=2
#SBATCH --gres=gpu:1
#SBATCH --chdir={tmp_path}
#SBATCH --output='{tmp_path}/a sweep 50%%/cell-%a.log'
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:TERM@120
cells=$SLURM_ARRAY_TASK_ID
exec {shlex.quote(sys.executable)} -m chary sweep '{folder}' --cell $cells
"""
    )
    least = slurm.script(planned, cells[:1], Where(on="slurm"))
    assert "--array=0\n" in least and "partition" not in least and "gres" not in least


@pytest.mark.long
@pytest.mark.usefixtures("sbatch")
def test_a_job_that_reaches_its_limit_is_submitted_again(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a"
    long: dict[str, Any] = {"steps": 8000, "log_every": 100}
    planned = sweep.create(folder, specs_of(data, folder, **long))

    def submit(time: str) -> dict[str, Any]:
        words = ["--on", "slurm", "--partition", "p", "--time", time, "--json"]
        assert main(["sweep", str(folder), *words]) == 0
        return json.loads(capsys.readouterr().out)

    first = submit("1min")
    assert first["job"] == "4321"
    assert [row["state"] for row in first["rows"]] == ["begun", "complete"]
    begun = RunFolder.open(planned.cells[0].folder)
    assert begun.checkpoint_steps()[-1] >= 100  # it saved itself
    assert "Saved at step" in (folder / "cell-0.log").read_text()
    done = (planned.cells[1].folder / "metrics.jsonl").read_bytes()
    again = submit("8h")
    assert [row["state"] for row in again["rows"]] == ["complete"] * 2
    assert "job" not in submit("8h")  # nothing is left
    (alone, _) = sweep.create(tmp_path / "b", specs_of(data, tmp_path / "b", **long)).cells
    sweep.train([alone])
    whole = (alone.folder / "metrics.jsonl").read_bytes()
    assert (begun.path / "metrics.jsonl").read_bytes() == whole != done


def test_without_sbatch_or_where_it_refuses(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "a"
    sweep.create(folder, specs_of(data, folder))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["sweep", str(folder), "--on", "slurm"]) == 2
    assert "sbatch cannot be run" in capsys.readouterr().err
    assert main(["sweep", str(folder), "--on", "slurm", "--dry-run"]) == 0
    assert "#SBATCH --array=0-1\n" in capsys.readouterr().out
    (tmp_path / "sbatch").write_text("#!/bin/sh\necho invalid partition >&2\nexit 1\n")
    (tmp_path / "sbatch").chmod(0o755)
    assert main(["sweep", str(folder), "--on", "slurm"]) == 2
    assert "sbatch refused the job: invalid partition" in capsys.readouterr().err
