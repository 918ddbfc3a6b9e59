"""Collecting data in simulation, on every core."""

import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import TypeVar

from chary.machine import cores
from chary.progress import progress_bar

Job = TypeVar("Job")
Result = TypeVar("Result")


def run_jobs(work: Callable[[Job], Result], jobs: Sequence[Job], *, title: str) -> list[Result]:
    """Results in the order of the jobs, computed by as many processes as there are cores.

    Each job carries its own seed, so that the outcome is the same on any number of cores.
    """
    results: dict[int, Result] = {}
    # Fresh processes: a fork of one that runs JAX's threads may hang.
    context = multiprocessing.get_context("spawn")
    with (
        progress_bar(title, total=len(jobs)) as advance,
        ProcessPoolExecutor(min(cores(), len(jobs)), mp_context=context) as pool,
    ):
        with _without_main():
            indices = {pool.submit(work, job): index for index, job in enumerate(jobs)}
        for future in as_completed(indices):
            results[indices[future]] = future.result()
            advance(1)
    return [results[index] for index in range(len(jobs))]


@contextmanager
def _without_main() -> Iterator[None]:
    """Keep new processes from running the user's script, which would collect again and wait for us.

    Python runs the main module anew in each of them, found by these two attributes; the work comes
    from this package and has no need of it.
    """
    main = sys.modules["__main__"]
    hidden = {name: getattr(main, name, None) for name in ("__spec__", "__file__")}
    for name in hidden:
        setattr(main, name, None)
    try:
        yield
    finally:
        for name, value in hidden.items():
            setattr(main, name, value)
