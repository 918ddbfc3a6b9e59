"""Training a study's runs: several at once, each in a process on its own share of the cores."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from chary import config as settings
from chary.errors import CharyError
from chary.host.machine import cores
from chary.host.terminal import StudyDisplay, duration, say
from chary.study.plan import Job, Plan
from chary.study.results import describe_run
from chary.training.loop import stop_requests

LOOK_SECONDS = 0.2
"""Time between looks at the processes."""
LOG_SECONDS = 2.0
"""Time between looks at how far their logs have got."""
GRACE_SECONDS = 30.0
"""How long a run may take to save itself; it loses only what came after its last checkpoint."""


def run_all(plan: Plan, *, at_once: int | None) -> None:
    """Train what is missing; what is complete stays as it is.

    Every run that fails is named at the end, the others continue. Raises KeyboardInterrupt, with every
    run saved, when the user asks to stop.
    """
    waiting = [job for job in plan.jobs if not job.finished]
    done = len(plan.jobs) - len(waiting)
    free = shares(at_once or cores())
    total = sum(job.run.steps for job in plan.jobs)
    complete = sum(job.run.steps for job in plan.jobs if job not in waiting)
    failures: list[str] = []
    warned: set[str] = set()
    looked = 0.0
    with (
        stop_requests() as stop_asked,
        StudyDisplay(len(plan.jobs), done, total, complete + _steps(waiting)) as display,
        _processes(plan) as processes,
    ):
        while waiting or processes.running:
            if stop_asked():
                say("stopping: every run saves itself (Ctrl-C again: at once)")
                processes.stop()
                raise KeyboardInterrupt("Everything is kept; the same command resumes.")
            while free and waiting:
                processes.begin(waiting.pop(0), free.pop())
            for process in processes.ended():
                free.append(process.cores)
                for line in process.lines("chary: warning: "):
                    if line not in warned:
                        say(f"chary: warning: {line}")
                        warned.add(line)
                if process.job.finished:
                    complete += process.job.run.steps
                    took = duration(time.monotonic() - process.began)
                    display.finished(f"{describe_run(plan, process.job)}, {took}")
                else:
                    failures.append(process.failure())
                    say(f"failed: {failures[-1]}")
            if time.monotonic() - looked > LOG_SECONDS:
                running = [process.job for process in processes.running]
                display.step(complete + _steps([*running, *waiting]))
                looked = time.monotonic()
            time.sleep(LOOK_SECONDS)
    if failures:
        raise CharyError(
            f"{len(failures)} of {len(plan.jobs)} runs failed; the others are kept, and the same "
            f"command resumes. {failures[0]}"
        )


def shares(count: int) -> list[list[int]]:
    """The cores of each of so many processes.

    All have as many, whichever runs are left to do: a run is resumed to the same bits only on as many
    cores as it began with.
    """
    known = hasattr(os, "sched_getaffinity")
    mine = sorted(os.sched_getaffinity(0)) if known else list(range(cores()))
    each = max(1, len(mine) // count)
    return [[mine[(i * each + j) % len(mine)] for j in range(each)] for i in range(count)]


def _steps(jobs: list[Job]) -> int:
    return sum(job.step for job in jobs)


class _Process(NamedTuple):
    """A run that is being trained."""

    job: Job
    cores: list[int]
    handle: subprocess.Popen[str]
    log: Path
    log_start: int
    began: float

    def lines(self, start: str) -> list[str]:
        """What it has written to its log in lines that begin so."""
        with open(self.log, errors="replace") as file:
            file.seek(self.log_start)
            return [line.removeprefix(start).strip() for line in file if line.startswith(start)]

    def failure(self) -> str:
        code = self.handle.returncode
        errors = self.lines("chary: error: ")
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return errors[-1] if errors else f"{self.job.folder}: the process {how}; see {self.log}."


class _Processes:
    """The processes of a study, which do not outlive it."""

    def __init__(self, plan: Plan):
        self._plan = plan
        self.running: list[_Process] = []

    def begin(self, job: Job, cores: list[int]) -> None:
        """Start a run or resume it; what it says goes to a log beside its folder."""
        log = job.folder.with_name(f"{job.folder.name}.log")
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            start = log.stat().st_size if log.exists() else 0
            with open(log, "a") as file:
                # A session of its own: Ctrl-C in the terminal is the study's to pass on.
                handle = subprocess.Popen(
                    [sys.executable, "-m", "chary.study.worker"],
                    stdin=subprocess.PIPE,
                    stdout=file,
                    stderr=file,
                    text=True,
                    start_new_session=True,
                )
        except OSError as error:
            raise CharyError(f"{log}: cannot be written ({error.strerror or error}).") from error
        self.running.append(_Process(job, cores, handle, log, start, time.monotonic()))
        order = {
            "cores": cores,
            "command": sys.argv,
            "algorithm": job.spec.algorithm,
            "preset": job.spec.preset,
            "settings": settings.to_json(job.spec.config),
            "run": settings.to_json(job.spec.run),
            "execution": settings.to_json(job.spec.execution),
        }
        assert handle.stdin is not None
        with suppress(BrokenPipeError):  # it died at once, which is noticed when we look
            handle.stdin.write(json.dumps(order) + "\n")
            handle.stdin.flush()

    def ended(self) -> list[_Process]:
        """Those that have ended since the last look."""
        ended = [process for process in self.running if process.handle.poll() is not None]
        for process in ended:
            self.running.remove(process)
            _close(process)
        return ended

    def stop(self) -> None:
        """Ask all to save themselves and wait until they have."""
        for process in self.running:
            process.handle.terminate()
        deadline = time.monotonic() + GRACE_SECONDS
        while self.running and time.monotonic() < deadline:
            self.ended()
            time.sleep(LOOK_SECONDS)

    def kill(self) -> None:
        """End all at once."""
        for process in self.running:
            process.handle.kill()
            process.handle.wait()
            _close(process)


@contextmanager
def _processes(plan: Plan) -> Iterator[_Processes]:
    processes = _Processes(plan)
    try:
        yield processes
    finally:
        processes.kill()


def _close(process: _Process) -> None:
    assert process.handle.stdin is not None
    with suppress(BrokenPipeError):
        process.handle.stdin.close()
