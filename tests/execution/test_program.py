"""The compiled program's parts in a process that trains again and again."""

import gc

from chary.algos.bc import BCConfig, make_bc
from chary.execution.program import initial_carry, trace_update


def test_beginning_again_keeps_nothing_more() -> None:
    algorithm = make_bc(BCConfig(hidden=(4,)), 3, 2)

    def begin() -> int:
        trace_update(algorithm, 5, 3, 2)
        initial_carry(algorithm, 5, 3, 2, seed=0)
        gc.collect()
        return len(gc.get_objects())

    begin()
    before = begin()
    assert begin() <= before + 1
