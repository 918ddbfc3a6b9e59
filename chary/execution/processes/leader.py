"""What all devices do, and all processes in step; the leader's side of it. On one device there is little
to do."""

import json
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from chary.execution.batches import Feed
from chary.execution.processes.meeting import Order, broadcast, together
from chary.execution.program import Carry
from chary.types import Algorithm


def begin(
    algorithm: Algorithm[Any],
    configs: Sequence[dict[str, Any]],
    carry: Carry,
    step: int,
) -> Carry:
    """The carry of these runs on all devices, after telling the other processes what they are."""
    described = np.frombuffer(json.dumps({"configs": configs, "step": step}).encode(), np.uint8)
    with together(Order.BEGIN, len(described)):
        broadcast(described)
    with together(Order.STATE):
        return place(algorithm, broadcast(carry), runs=len(configs))


def place(algorithm: Algorithm[Any], carry: Carry, *, runs: int) -> Carry:
    """A carry on the devices that it is trained on."""
    spread = algorithm.spread
    if spread is None:
        return carry
    state = spread.place(carry.state, runs=runs)
    return Carry(state, *spread.everywhere((carry.sums, carry.steps)))


def advance(feed: Feed, carry: Carry, step: int, stop: int) -> tuple[Carry, bool]:
    """From one step to another, and whether another process was asked to stop."""
    with together(Order.ADVANCE, stop) as meeting:
        return jax.block_until_ready(feed.advance(carry, step, stop)), meeting.stop_asked


def gather(algorithm: Algorithm[Any], carry: Carry) -> Carry:
    """All of a carry on one device."""
    if algorithm.spread is None:
        return carry
    with together(Order.GATHER):
        return algorithm.spread.whole(carry)
