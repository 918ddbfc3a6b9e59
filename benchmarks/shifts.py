"""Does the doubt grow off the data? Eight kinds of shift, on data treated as somebody's own log.

    python benchmarks/shifts.py --datasets pointmaze-umaze hopper-medium-v2=hopper.hdf5 --seeds 0 1 2

Each dataset is taken as arrays, without its name: MSG then has the settings of `own-data`. A tenth of
the episodes is held out. For each kind of shift of the held-out rows the page has the area under the ROC
curve with which the members' standard deviation, at the policy's own action, tells shifted rows from
held-out ones; and the share of held-out rows above a limit that 5% of the training rows pass.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import chary
from chary import data
from chary.data.dataset import Dataset
from chary.evaluation.agent import Agent
from chary.host.machine import layout
from chary.report.statistics import area_under_roc
from chary.report.tables import write_page

ROWS = 2_000
"""Held-out rows that are shifted."""
NOMINAL = 0.05


def shifts(rows: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Rows of the data as they could never have been logged."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    widest = int((high - low).argmax())

    def moved(column: int, ranges: float) -> np.ndarray:
        there = rows.copy()
        there[:, column] += ranges * (high - low)[column]
        return there

    sentinel = rows.copy()
    sentinel[:, 0] = 9999.0
    yield "first column two ranges up", moved(0, 2.0)
    yield "first column two ranges down", moved(0, -2.0)
    yield "widest column two ranges up", moved(widest, 2.0)
    yield "first column 9999", sentinel
    yield "all zeros", np.zeros_like(rows)
    yield "negated", -rows
    yield "columns shuffled", np.roll(rows, 1, axis=1)
    yield "ten times too large", 10.0 * rows


def doubt(agent: Agent, rows: np.ndarray) -> np.ndarray:
    return agent.uncertainty(rows, agent.act(rows)).std


def trained(name: str, known: Dataset, seed: int, runs: Path) -> Agent:
    """MSG with the settings of `own-data`: the data is taken as arrays, without its name."""
    own = chary.dataset(
        observations=known.observations,
        actions=known.actions,
        rewards=known.rewards,
        next_observations=known.next_observations,
        terminals=known.terminals,
        timeouts=known.timeouts,
        action_low=known.action_low,
        action_high=known.action_high,
        name=f"own-{name}",
    )
    return chary.train("msg", own, run=runs / f"{name}-{seed}", seed=seed, resume=True)


def measure(name: str, dataset: Dataset, seed: int, runs: Path) -> dict[str, Any]:
    """One seed on one dataset."""
    train, held_out = dataset.split(0.1, 0)
    agent = trained(name, train, seed, runs)
    chosen = np.random.default_rng(0).integers(held_out.size, size=ROWS)
    rows = np.asarray(held_out.observations[chosen])
    near = doubt(agent, rows)
    limit = np.quantile(doubt(agent, np.asarray(train.observations[::20])), 1.0 - NOMINAL)
    found = {kind: area_under_roc(doubt(agent, far), near) for kind, far in shifts(rows)}
    return {"data": name, "seed": seed, **found, "flagged": float((near > limit).mean())}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--datasets", nargs="+", default=["pointmaze-umaze"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--runs", type=Path, default=Path("runs/shifts"))
    parser.add_argument("--out", type=Path, default=Path("results"))
    asked = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for each in asked.datasets:
        name, _, file = each.partition("=")
        dataset = data.load(name, data_file=Path(file) if file else None)
        rows += [measure(name, dataset, seed, asked.runs) for seed in asked.seeds]
    kinds = [key for key in rows[0] if key not in ("data", "seed", "flagged")]
    table = [
        {"kind": kind, **{f"{row['data']} {row['seed']}": round(row[kind], 3) for row in rows}}
        for kind in [*kinds, "flagged"]
    ]
    columns = {key: "" if key == "kind" else key.replace(" ", ", seed ") for key in table[0]}
    where = layout()
    notes = [
        "Area under the ROC curve with which the members' standard deviation tells shifted rows from "
        "held-out ones, by default settings for one's own data; `flagged` is the share of held-out "
        f"rows above a limit that {NOMINAL:.0%} of the training rows pass.",
        f"Machine: {where['cpu']}, {where['threads']} core(s).",
    ]
    write_page(
        asked.out / "shifts.md", "Does the doubt grow off the data?", table, columns, notes=notes
    )


if __name__ == "__main__":
    main()
