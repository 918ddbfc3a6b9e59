"""From the log to a policy, and then what nobody with only a log can know: was the doubt right?

    python examples/heating/measure.py --seeds 0 1 2

Trains MSG on the log with default settings, without the last 20 episodes, and prints a line for each
seed: for eight kinds of states far from the data the AUC of the doubt against held-out rows, the share
of held-out rows that a limit flags which 5% of the training rows pass, and the policy's return in the
house itself beside the log's.
"""

import argparse
import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from house import COLUMNS, MOST_POWER, House, make_log, write_csv

import chary
from chary.data.dataset import Dataset
from chary.evaluation.agent import Agent
from chary.report.statistics import area_under_roc

HELD_OUT = 20
"""Episodes at the end of the log that are kept from training."""
NOMINAL = 0.05
"""Share of the training rows above the limit on the doubt."""
TESTED = 100
"""Episodes in the house."""


def read(path: Path, *, held_out: int = HELD_OUT) -> tuple[Dataset, Dataset]:
    """The log as two datasets. A row with a missing reading is left out and cuts its episode in two, so
    that no transition spans the gap."""
    with open(path, newline="") as file:
        table = list(csv.DictReader(file))
    complete = np.array([all(row[name] for name in COLUMNS) for row in table])
    episodes = np.array([int(row["episode"]) for row in table])
    pieces = np.cumsum(np.concatenate([[0], (np.diff(episodes) != 0) | ~complete[1:]]))
    last = episodes > episodes.max() - held_out

    def part(rows: np.ndarray) -> Dataset:
        chosen = [table[row] for row in np.flatnonzero(rows & complete)]
        return chary.dataset(
            observations=[[float(row[name]) for name in COLUMNS] for row in chosen],
            actions=[float(row["power_w"]) for row in chosen],
            rewards=[float(row["reward"]) for row in chosen],
            episodes=pieces[rows & complete],
            action_low=0.0,
            action_high=MOST_POWER,
            observation_names=COLUMNS,
            action_names=["power_w"],
            name="heating",
        )

    return part(~last), part(last)


def far_states(rows: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Eight ways in which logged rows can go wrong: the world's, and the data's own."""

    def with_column(name: str, values: Any) -> np.ndarray:
        return np.where(np.array(COLUMNS) == name, values, rows).astype(np.float32)

    yield "indoor 20 degrees hotter", with_column("indoor_c", rows[:, :1] + 20.0)
    yield "indoor 20 degrees colder", with_column("indoor_c", rows[:, :1] - 20.0)
    yield "outdoor 30 degrees colder", with_column("outdoor_c", rows[:, 1:2] - 30.0)
    yield "price of 3000 EUR/MWh", with_column("price_eur_mwh", 3000.0)
    yield "all zeros", np.zeros_like(rows)
    yield "negated", -rows
    yield "columns shuffled", rows[:, [3, 0, 4, 1, 2]]
    yield "ten times too large", 10.0 * rows


def doubt(agent: Agent, rows: np.ndarray) -> np.ndarray:
    """The critics' standard deviation at the policy's own action."""
    return agent.uncertainty(rows, agent.act(rows)).std


def measure(agent: Agent, train: Dataset, held_out: Dataset, log_return: float) -> dict[str, Any]:
    """What one run has learned, against what is true."""
    near = doubt(agent, held_out.observations)
    limit = float(np.quantile(doubt(agent, train.observations[::10]), 1.0 - NOMINAL))
    returns = agent.evaluate(House, TESTED).returns
    return {
        "auc": {
            kind: round(area_under_roc(doubt(agent, rows), near), 4)
            for kind, rows in far_states(held_out.observations)
        },
        "flagged": round(float((near > limit).mean()), 3),
        "nominal": NOMINAL,
        "return": round(float(returns.mean()), 2),
        "log_return": round(log_return, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("runs/heating"))
    parser.add_argument("--steps", type=int, help="instead of the preset's")
    asked = parser.parse_args()
    log = make_log()
    asked.out.mkdir(parents=True, exist_ok=True)
    write_csv(log, asked.out / "heating.csv")
    train, held_out = read(asked.out / "heating.csv")
    log_return = float(log.rewards.sum() / (log.episodes[-1] + 1))
    changes = {} if asked.steps is None else {"steps": asked.steps}
    for seed in asked.seeds:
        run = asked.out / f"msg-{seed}"
        agent = chary.train("msg", train, run=run, seed=seed, resume=True, **changes)
        print(json.dumps({"seed": seed, **measure(agent, train, held_out, log_return)}), flush=True)


if __name__ == "__main__":
    main()
