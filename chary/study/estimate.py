"""What a table's runs will take on this machine, from their arithmetic and a few updates made now."""

from functools import cache
from typing import Any, NamedTuple

from chary import algos
from chary.algos.critics import with_target_entropy
from chary.bench.timing import (
    ACTION_SIZE,
    BATCH,
    LARGE,
    OBSERVATION_SIZE,
    Case,
    algorithm_of,
    feed_of,
    random_dataset,
    stepper,
)
from chary.execution.cost import Cost, cost_of
from chary.execution.program import trace_update
from chary.study.antmaze import Part
from chary.study.cells import Cell

SIZES = OBSERVATION_SIZE, ACTION_SIZE
"""Of the benchmarks, which are antmaze's."""
TIMED = 50
"""Updates."""


class Estimate(NamedTuple):
    """Of all runs of a part."""

    hours: float
    """Of training, one run after another on the whole machine; evaluations come on top."""
    memory: float
    """Megabytes of the largest run, its data not counted."""


def estimate(part: Part) -> Estimate:
    """The time and memory of a table's runs on one dataset."""
    costs = [_cost(cell) for cell in part.cells]
    updates = [cell.run_changes.get("steps", part.steps) for cell in part.cells]
    flops = sum(cost.flops * each for cost, each in zip(costs, updates, strict=True))
    seconds = len(part.seeds) * flops / _speed()
    return Estimate(seconds / 3600.0, max(cost.memory for cost in costs) / 1e6)


def _cost(cell: Cell) -> Cost:
    algorithm, batch_size = _made(cell)
    return cost_of(trace_update(algorithm, batch_size, *SIZES))


def _made(cell: Cell) -> tuple[Any, int]:
    config = algos.entry(cell.algorithm).config(**cell.changes)
    config = with_target_entropy(config, ACTION_SIZE)
    return algos.build(cell.algorithm, config, *SIZES), config.batch_size


@cache
def _speed() -> float:
    """FLOP a second of MSG's updates with four members, as the program makes them."""
    made = algorithm_of(Case(4, LARGE, 0.1))
    advance = stepper(made, feed_of(made, random_dataset(transitions=10_000)))
    advance(TIMED)  # compiles
    return cost_of(trace_update(made, BATCH, *SIZES)).flops / advance(TIMED)
