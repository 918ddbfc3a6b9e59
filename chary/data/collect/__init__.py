"""Collecting data in simulation, on every core."""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

from chary.progress import progress_bar

Job = TypeVar("Job")
Result = TypeVar("Result")


def run_jobs(work: Callable[[Job], Result], jobs: Sequence[Job], *, title: str) -> list[Result]:
    """Results in the order of the jobs, computed by as many processes as there are cores.

    Each job carries its own seed, so that the outcome is the same on any number of cores.
    """
    results: dict[int, Result] = {}
    workers = min(len(os.sched_getaffinity(0)), len(jobs))
    # Fresh processes: a fork of one that runs JAX's threads may hang.
    context = multiprocessing.get_context("spawn")
    with (
        progress_bar(title, total=len(jobs)) as advance,
        ProcessPoolExecutor(workers, mp_context=context) as pool,
    ):
        indices = {pool.submit(work, job): index for index, job in enumerate(jobs)}
        for future in as_completed(indices):
            results[indices[future]] = future.result()
            advance(1)
    return [results[index] for index in range(len(jobs))]
