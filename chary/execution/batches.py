"""Where batches come from: the device's memory, or files that need not fit into any memory.

Both give the same batches for the same seed.
"""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from chary.data.dataset import Dataset
from chary.data.scaling import Scaling
from chary.execution.devices import local
from chary.execution.program import (
    Carry,
    compile_chunk,
    compile_fed_chunk,
    draw,
    keys,
    side_by_side,
    together,
)
from chary.types import Algorithm, Batch

BLOCK = 64
"""Steps whose batches are read from files at a time."""


class Feed(NamedTuple):
    """Transitions for the loop."""

    size: int
    advance: Callable[[Carry, int, int], Carry]
    """`advance(carry, start, stop)`: steps start to stop - 1."""
    reach: Callable[[int], int]
    """`reach(step)`: the furthest stop that one advance from this step may have."""
    rows: Callable[[np.ndarray], Batch]
    """`rows(indices)`: transitions by their number."""
    stride: int = 1
    """Steps that cannot be told apart: every advance is one or more of these long."""
    keep: Callable[[int], None] = lambda _: None
    """`keep(step)`: called before a checkpoint of this step is saved."""
    metrics: Callable[[int, int], dict[str, float]] = lambda *_: {}
    """`metrics(since, step)`: numbers of its own for a log line."""
    close: Callable[[], None] = lambda: None


def make_feed(
    algorithm: Algorithm[Any],
    dataset: Dataset,
    scaling: Scaling,
    batch_size: int,
    *,
    seeds: Sequence[int],
    n_step: int = 1,
    discount: float = 1.0,
) -> Feed:
    """Batches for a run of each seed; data that is mapped from files stays there, all other goes to the
    device, once for all runs. Transitions of several steps are made as the data is read."""
    make = _from_files if dataset.is_mapped else _from_memory
    key = together([keys(seed)[1] for seed in seeds])
    transitions = partial(
        dataset.transitions,
        scaling,
        next_actions=algorithm.wants_next_actions,
        returns=algorithm.wants_returns,
        n_step=n_step,
        discount=discount,
    )
    return make(algorithm, dataset.size, transitions, batch_size, key, len(seeds))


def _from_memory(
    algorithm: Algorithm[Any],
    size: int,
    transitions_of: Callable[..., Batch],
    batch_size: int,
    key: Any,
    runs: int,
) -> Feed:
    """All transitions on the device, sampled inside the compiled program."""
    transitions = transitions_of()
    if algorithm.spread is not None:
        transitions = algorithm.spread.everywhere(transitions)
    chunk = compile_chunk(algorithm, batch_size, runs)
    return Feed(
        size,
        advance=lambda carry, start, stop: chunk(carry, transitions, start, stop, key),
        reach=lambda _: sys.maxsize,
        rows=lambda indices: _take(local(transitions), indices),
    )


@jax.jit
def _take(transitions: Batch, rows: Any) -> Batch:
    """Some transitions, by one program for all columns."""
    return jax.tree.map(lambda column: column[rows], transitions)


def _from_files(
    algorithm: Algorithm[Any],
    size: int,
    transitions_of: Callable[..., Batch],
    batch_size: int,
    key: Any,
    runs: int,
) -> Feed:
    """Batches drawn by the same keys, read block by block while the device is busy with the last."""
    chunk = compile_fed_chunk(algorithm, batch_size, runs)
    rows = jax.vmap(lambda key, step: draw(key, step, batch_size, size)[0], (None, 0))
    sample = jax.jit(side_by_side(rows, runs, (0, None)))
    reader = ThreadPoolExecutor(1, thread_name_prefix="chary-reader")
    waiting: dict[int, Future[Batch]] = {}

    def read(block: int) -> Batch:
        indices = np.asarray(sample(key, np.arange(block * BLOCK, (block + 1) * BLOCK)))
        batch = transitions_of(indices.ravel())
        return jax.tree.map(lambda column: column.reshape(*indices.shape, *column.shape[1:]), batch)

    def batches(block: int) -> Batch:
        for needed in (block, block + 1):
            if needed not in waiting:
                waiting[needed] = reader.submit(read, needed)
        for past in [number for number in waiting if number < block]:
            del waiting[past]
        return waiting[block].result()

    def advance(carry: Carry, start: int, stop: int) -> Carry:
        block = start // BLOCK
        return chunk(carry, batches(block), block * BLOCK, start, stop, key)

    return Feed(
        size,
        advance=advance,
        reach=lambda step: (step // BLOCK + 1) * BLOCK,
        rows=transitions_of,
    )
