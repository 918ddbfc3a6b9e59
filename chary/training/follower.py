"""A process that follows another: it trains its share of the members and leaves all else to it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from chary import data
from chary.data.dataset import Dataset
from chary.errors import CharyError
from chary.execution import program
from chary.execution.processes import leader
from chary.execution.processes import meeting as processes
from chary.execution.processes.meeting import Order
from chary.host.compile_cache import keep_compiled
from chary.runs.folder import RunFolder
from chary.training import records
from chary.training.loop import logs_at, stop_requests
from chary.training.plan import Plan, make_plan


def follow(dataset: Dataset | None = None) -> None:
    """Do what the leader says until it ends; the data must be on this host too, or be given."""
    try:
        keep_compiled()
        _follow(dataset)
    except (processes.CrewError, KeyboardInterrupt):
        raise
    except BaseException:
        processes.meet(failed=True)
        raise


def _follow(dataset: Dataset | None) -> None:
    plan: Any = None
    carry: Any = None
    step = 0
    with stop_requests() as stop_asked:
        while True:
            order, number, _ = processes.meet(stop_asked=stop_asked())
            if order == Order.DONE:
                return
            if order == Order.STOPPED:
                raise KeyboardInterrupt("All processes have stopped.")
            if order == Order.FAILED:
                raise processes.CrewError(
                    "process 0 has failed and says why; this one ends with it."
                )
            if order == Order.BEGIN:
                with processes.in_step():
                    described = json.loads(bytes(processes.broadcast(np.zeros(number, np.uint8))))
                plan, step = _plan_of(described["configs"], dataset), described["step"]
                carry = program.together(plan.initial_carries())  # of the shapes that are to come
                continue
            with processes.in_step():
                if order == Order.STATE:
                    carry = leader.place(
                        plan.algorithm, processes.broadcast(carry), runs=len(plan.lanes)
                    )
                elif order == Order.ADVANCE:
                    carry = jax.block_until_ready(plan.feed.advance(carry, step, number))
                    step = number
                    carry = carry.fresh() if logs_at(step, plan.run) else carry
                elif order == Order.GATHER:
                    plan.algorithm.spread.whole(carry)


def _plan_of(configs: Sequence[dict[str, Any]], dataset: Dataset | None) -> Plan:
    """The leader's plan, with this host's copy of the data."""
    specs = [records.spec_of(RunFolder(Path(config["run"]["run"]), config)) for config in configs]
    run = specs[0].run
    dataset = dataset or data.load(run.dataset, data_file=run.data_file)
    if dataset.fingerprint != configs[0]["dataset"]["fingerprint"]:
        raise CharyError(
            f"the data of '{run.dataset}' is not the same here as where process 0 runs."
        )
    return make_plan(specs, dataset)
