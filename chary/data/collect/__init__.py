"""Collecting data in simulation: on every core, in blocks that survive an interruption."""

import multiprocessing
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from chary.data import formats
from chary.data.columns import COLUMNS
from chary.data.dataset import Dataset
from chary.errors import CharyError
from chary.host.files import whole
from chary.host.machine import cores
from chary.host.parts import check_settings, locked
from chary.host.terminal import progress_bar

Job = TypeVar("Job")
Result = TypeVar("Result")
Columns = dict[str, np.ndarray]
# One process a core: a second layer of threads would only be in the way, and could round differently.
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def run_jobs(
    work: Callable[[Job], Result], jobs: Sequence[Job], *, title: str, done: int = 0
) -> list[Result]:
    """Results in the order of the jobs, computed by as many processes as there are cores.

    Each job carries its own seed, so that the outcome is the same on any number of cores. The bar
    begins at `done`, for jobs that were finished before.
    """
    if not jobs:
        return []
    results: dict[int, Result] = {}
    # Fresh processes: a fork of one that runs JAX's threads may hang.
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    with (
        progress_bar(title, total=done + len(jobs)) as advance,
        ProcessPoolExecutor(
            min(cores(), len(jobs)), mp_context=context, initializer=_begin_worker
        ) as pool,
    ):
        advance(done)
        try:
            with _single_threaded_children(), _without_main():
                indices = {pool.submit(work, job): index for index, job in enumerate(jobs)}
            for future in as_completed(indices):
                results[indices[future]] = future.result()
                advance(1)
        except BaseException as error:  # do not wait for what nobody wants any more
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()
            if isinstance(error, BrokenProcessPool):
                raise CharyError(
                    "a collecting process was killed, perhaps for want of memory. "
                    "Run the same command again."
                ) from error
            raise
    return [results[index] for index in range(len(jobs))]


def collect_dataset(
    work: Callable[[Job], Columns],
    jobs: Sequence[Job],
    *,
    name: str,
    settings: Mapping[str, str | int | float | bool],
    collected_by: str,
    out: Path | None,
) -> Dataset:
    """One dataset from the blocks that `work` makes of the jobs, written to `out`.

    With `out`, finished blocks are kept in `<out>.parts` until the file is whole, and the same call goes
    on from there; `settings` are what must be equal for that. Columns beyond a dataset's own, such as
    `infos/qpos`, go into the file too.
    """
    title = f"collecting {name}"
    if out is None:
        return _assemble(run_jobs(work, jobs, title=title), name, collected_by)[0]
    settings = {**settings, "blocks": len(jobs), "mujoco": version("mujoco")}
    folder = out.with_name(f"{out.name}.parts")
    with locked(folder, work="collection"):
        check_settings(folder, settings, work="collection")
        paths = [folder / f"{index:05d}.npz" for index in range(len(jobs))]
        missing = [
            Part(job, path) for job, path in zip(jobs, paths, strict=True) if not path.exists()
        ]
        done = len(jobs) - len(missing)
        try:
            run_jobs(partial(_make_part, work), missing, title=title, done=done)
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(
                "What is finished is kept: run the same command again to resume."
            ) from stop
        blocks = [_read_part(path) for path in paths]
        dataset, others = _assemble(blocks, name, collected_by)
        formats.write(dataset, out, others=others)
        shutil.rmtree(folder)
    return dataset


def block_sizes(transitions: int, block: int) -> list[int]:
    """Blocks of fixed size, and a last one of what is left."""
    return [min(block, transitions - start) for start in range(0, transitions, block)]


class Part(NamedTuple):
    """A job, and where its block is kept until all are finished."""

    job: Any
    path: Path


def _make_part(work: Callable[[Any], Columns], part: Part) -> None:
    """Do the job, and put its block in place whole or not at all."""
    with whole(part.path) as temporary:
        formats.npz.write(temporary, work(part.job), {})


def _read_part(path: Path) -> Columns:
    try:
        return formats.npz.read(path)[0]
    except CharyError as error:
        raise CharyError(f"{error} Delete it, and it will be collected again.") from error


def _assemble(blocks: list[Columns], name: str, collected_by: str) -> tuple[Dataset, Columns]:
    """The dataset, and the columns that it has no room for."""
    columns = {key: np.concatenate([block[key] for block in blocks]) for key in blocks[0]}
    dataset = Dataset.from_columns(columns, name=name, metadata={"collected_by": collected_by})
    others = {key: array for key, array in columns.items() if key not in COLUMNS}
    metadata = {**dataset.metadata, "fingerprint": dataset.fingerprint}
    return replace(dataset, metadata=metadata), others


def _begin_worker() -> None:
    """Leave interrupts to the parent, and do not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def follow_the_parent() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=follow_the_parent, daemon=True).start()


@contextmanager
def _single_threaded_children() -> Iterator[None]:
    """Processes started here find that one thread is all they should use."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


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
