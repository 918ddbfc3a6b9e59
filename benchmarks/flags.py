"""Is `outside_data` raised as often as asked for, and where it should be?

    python -m benchmarks.flags --datasets pointmaze-medium hopper-medium-v2=hopper.hdf5 tank=tank.npz

MSG learns from four fifths of the episodes, with the settings of `own-data`. Half of the others set the
limits, half of them are new: the share of their rows that is flagged should be the one asked for. Then
the new rows are changed into states that no log could have, and the page has the share that is flagged:
by both measures, and by each alone at the same rate.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shifts import shifts, trained
from chary import data
from chary.data.dataset import Dataset
from chary.evaluation.agent import Agent
from chary.evaluation.limits import FLAG_RATE, Limits, Thresholds, spreads
from chary.host.files import write_whole
from chary.host.machine import command_line, layout, source
from chary.report.tables import write_page

ROWS = 2_000
DRAWS = 1_000
WAYS = ("both", "spread", "distance")


def changed(dataset: Dataset, rows: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """States that no log has, or hardly any."""
    rng = np.random.default_rng(1)
    low, high = rows.min(axis=0), rows.max(axis=0)
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    yield (
        "uniform in twice the range",
        rng.uniform(middle - 2 * half, middle + 2 * half, rows.shape),
    )
    yield "uniform within the range", rng.uniform(low, high, rows.shape)
    mixed = [rng.permutation(column) for column in rows.T]
    yield "each column of another row", np.stack(mixed, axis=1)
    maze = dataset.task.maze if dataset.task else None
    if maze is not None:
        cells = [(i, j) for i, line in enumerate(maze.rows) for j, c in enumerate(line) if c == "#"]
        inside = np.array([maze.centre(cell) for cell in cells])
        there = rows.copy()
        there[:, :2] = inside[rng.integers(len(inside), size=len(rows))]
        yield "positions inside walls", there
    yield from shifts(rows)


def measure(name: str, dataset: Dataset, seed: int, runs: Path) -> dict[str, Any]:
    """Shares of rows that are flagged, by what was done to them and by what measure."""
    known, others = dataset.split(0.2, 0)
    aside, new = others.split(0.5, 0)
    agent = trained(name, known, seed, runs)
    agent.set_limits(known, aside)
    limits = agent.known_limits()
    flagged = _flags(agent, limits, new.observations, np.asarray(new.actions))
    chosen = np.random.default_rng(0).choice(new.size, min(ROWS, new.size), replace=False)
    rows = np.asarray(new.observations[chosen], np.float32)
    found = {"new episodes": {way: float(flags.mean()) for way, flags in flagged.items()}}
    by_policy = _flags(agent, limits, rows, agent.act(rows))
    found["new episodes, the policy's actions"] = _shares(by_policy)
    size = len(rows), new.action_size
    random = np.random.default_rng(2).uniform(new.action_low, new.action_high, size)
    found["new episodes, random actions"] = _shares(_flags(agent, limits, rows, random))
    for kind, there in changed(dataset, rows):
        there = there.astype(np.float32)
        found[kind] = _shares(_flags(agent, limits, there, agent.act(there)))
    return {
        "data": name,
        "seed": seed,
        "episodes": len(new.walk_ends),
        "rows": new.size,
        "interval": _interval(flagged["both"], np.asarray(new.walk_ends)),
        "shares": found,
    }


def _shares(flags: dict[str, np.ndarray]) -> dict[str, float]:
    return {way: float(each.mean()) for way, each in flags.items()}


def _flags(
    agent: Agent, limits: Limits, rows: np.ndarray, actions: np.ndarray
) -> dict[str, np.ndarray]:
    """Which rows are flagged by both measures, and by each alone at the same rate."""
    rows = np.asarray(rows, np.float32)
    spread = spreads(agent, rows, np.asarray(actions, np.float32))
    distance = limits.distance(rows)
    both = limits.thresholds()
    alone = Thresholds(
        *(
            float(np.quantile(m, 1 - FLAG_RATE, method="higher"))
            for m in (limits.spreads, limits.distances)
        )
    )
    return {
        "both": (spread > both.spread) | (distance > both.distance),
        "spread": spread > alone.spread,
        "distance": distance > alone.distance,
    }


def _interval(flags: np.ndarray, ends: np.ndarray) -> list[float]:
    """95% of the share of flags, by a bootstrap over episodes."""
    starts = np.concatenate([[0], ends[:-1] + 1])
    counts = np.add.reduceat(flags.astype(float), starts)
    sizes = ends - starts + 1
    draws = np.random.default_rng(0).integers(len(ends), size=(DRAWS, len(ends)))
    return np.quantile(
        counts[draws].sum(axis=1) / sizes[draws].sum(axis=1), (0.025, 0.975)
    ).tolist()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--datasets", nargs="+", default=["pointmaze-umaze"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/flags"))
    parser.add_argument("--out", type=Path, default=Path("results"))
    asked = parser.parse_args()
    found: list[dict[str, Any]] = []
    for each in asked.datasets:
        name, _, file = each.partition("=")
        known = not file or data.sources.find(name) is not None
        dataset = (
            data.load(name, data_file=Path(file) if file else None) if known else data.load(file)
        )
        found += [measure(name, dataset, seed, asked.runs) for seed in asked.seeds]
    kinds = list(dict.fromkeys(kind for row in found for kind in row["shares"]))
    table = [
        {
            "kind": kind,
            **{
                f"{row['data']} {row['seed']}": " / ".join(
                    f"{row['shares'][kind][way]:.3f}" for way in WAYS
                )
                for row in found
                if kind in row["shares"]
            },
        }
        for kind in kinds
    ]
    headings = {
        f"{row['data']} {row['seed']}": f"{row['data']}, seed {row['seed']}" for row in found
    }
    where = layout()
    notes = [
        f"Share of rows flagged by both measures / by the spread alone / by the distance alone, at a "
        f"rate of {FLAG_RATE:g}. MSG with the settings of `own-data`; a tenth of the episodes sets the "
        "limits, another tenth is new.",
        "Of the new episodes' rows with their logged actions: "
        + "; ".join(
            f"{row['data']}, seed {row['seed']}: {row['shares']['new episodes']['both']:.4f} "
            f"({row['interval'][0]:.4f} to {row['interval'][1]:.4f}, 95%, {row['episodes']} episodes)"
            for row in found
        )
        + ".",
        f"Machine: {where['cpu']}, {where['threads']} core(s).",
    ]
    write_page(
        asked.out / "flags.md", "Is outside_data raised where it should be?", table,
        {"kind": "rows", **headings}, notes=notes,
    )  # fmt: skip
    record = {"command": command_line(), "source": source(), "machine": where, "rows": found}
    write_whole(asked.out / "flags.json", json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
