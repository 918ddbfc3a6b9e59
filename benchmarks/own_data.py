"""The preset `own-data` beside alternatives, one change at a time, on three logs without a simulator.

    python benchmarks/own_data.py --robot hopper.hdf5 --seeds 0 1

The logs are examples/heating, the tank of docs/own-data.md and a robot's (`chary data collect
hopper-medium --controller FILE --steps 60000 --out hopper.hdf5`), which goes through a table: its
columns keep their names, and nothing says which task it was. A tenth of the episodes is held out. MSG is
trained by the preset and by each alternative; only then is the policy run in the simulation that made
the log, and the doubt of eight kinds of shifted rows compared with that of held-out ones
(benchmarks/shifts.py).

The rule, written down before anything was run, is `RULE`. To save time, after the first seed only
alternatives that were better than the preset on every log are trained further. A run that is complete is
not trained again: the command goes on where it was stopped.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from shifts import ROWS, doubt, shifts

import chary
from chary.cli import main as run_chary
from chary.data.dataset import Dataset
from chary.host.files import write_result
from chary.host.machine import layout, source
from chary.report.statistics import area_under_roc
from chary.report.tables import write_page

sys.path += [str(Path(__file__).parents[1] / "examples" / part) for part in ("", "heating")]

ALTERNATIVES: dict[str, dict[str, Any]] = {
    "own-data": {},
    "128x128": {"hidden": (128, 128)},
    "alpha 0": {"alpha": 0.0},
    "beta -2": {"beta": -2.0},
    "20,000 steps": {"steps": 20_000},
}
WORSE = 0.01
"""Area under the ROC curve that may be lost."""
RULE = (
    "An alternative replaces the preset if on each of the three logs, in the mean over seeds, its "
    "return is better by more than the preset's own seeds differ, and its smallest area under the ROC "
    f"curve is at most {WORSE} lower. Otherwise the preset stays. The rule was written before the runs."
)
ROBOT_COLUMNS = "--observations observations_* --actions actions_* --reward rewards --terminal \
terminals --timeout timeouts --next-observations next_observations_*"


Runs: TypeAlias = dict[str, dict[str, list[dict[str, Any]]]]
"""What was measured, by log, setting and seed."""


class Log(NamedTuple):
    """What a user has, and what only we have."""

    train: Dataset
    held_out: Dataset
    simulation: Any
    episodes: int
    """To run in it."""
    logged: float
    """Mean return of the log's own episodes."""


def heating(folder: Path) -> Log:
    import house
    import measure

    log = house.make_log()
    house.write_csv(log, folder / "heating.csv")
    train, held_out = measure.read(folder / "heating.csv")
    return Log(train, held_out, house.House, 40, log.rewards.sum() / (log.episodes[-1] + 1))


def tank(folder: Path) -> Log:
    import tank

    logged = tank.write_csv(folder / "tank.csv")
    columns = (
        "--observations temp_* --actions power --reward comfort --episode run --terminal tripped"
    )
    bounds = ["--action-low", "0", "--action-high", "5"]
    log = _imported(folder / "tank.csv", [*columns.split(), *bounds])
    return Log(*log.split(0.1, 0), tank.Tank, 40, logged)


def robot(file: Path, folder: Path) -> Log:
    collected = chary.data.load(str(file))
    logged = float(collected.episode_returns.mean())
    table = folder / "robot.parquet"
    table.unlink(missing_ok=True)
    run_chary(["data", "export", str(file), "--out", str(table)])
    log = _imported(table, ROBOT_COLUMNS.split())
    return Log(*log.split(0.1, 0), "chary/hopper-medium-v2", 20, logged)


def _imported(table: Path, options: Sequence[str]) -> Dataset:
    """A table as a user imports it."""
    out = table.with_suffix(".npz")
    out.unlink(missing_ok=True)
    if run_chary(["data", "import", str(table), "--out", str(out), *options]):
        raise SystemExit(1)
    return chary.data.load(str(out))


def measured(log: Log, changes: dict[str, Any], seed: int, run: Path) -> dict[str, Any]:
    """One run, against what is true; kept beside its folder."""
    kept = run.with_suffix(".json")
    if kept.exists():
        return json.loads(kept.read_text())
    start = time.process_time()
    agent = chary.train(
        "msg",
        log.train,
        preset="own-data",
        run=run,
        seed=seed,
        resume=True,
        final_episodes=0,
        **changes,
    )
    seconds = time.process_time() - start
    chosen = np.random.default_rng(0).integers(log.held_out.size, size=ROWS)
    rows = np.asarray(log.held_out.observations[chosen])
    near = doubt(agent, rows)
    areas = {kind: area_under_roc(doubt(agent, far), near) for kind, far in shifts(rows)}
    result = agent.evaluate(log.simulation, log.episodes)
    found = {
        "return": float(result.returns.mean()),
        "areas": areas,
        "seconds": seconds,
        "source": source(),
    }
    write_result(kept, json.dumps(found))
    return found


def still_in(name: str, table: Runs) -> bool:
    """Whether an alternative was better than the preset on every log in the first seed."""
    return all(runs[name][0]["return"] > runs["own-data"][0]["return"] for runs in table.values())


def verdict(name: str, table: Runs) -> str:
    """What the rule says of an alternative."""
    better, lost = [], []
    for log, settings in table.items():
        own, other = ([run["return"] for run in settings[key]] for key in ("own-data", name))
        areas = [
            np.mean([min(run["areas"].values()) for run in settings[key]])
            for key in ("own-data", name)
        ]
        if np.mean(other) - np.mean(own) > max(own) - min(own):
            better.append(log)
        if areas[1] < areas[0] - WORSE:
            lost.append(log)
    if len(better) == len(table) and not lost:
        return "replaces it"
    words = f"better on {', '.join(better) or 'none'}"
    return words + (f", AUC lower on {', '.join(lost)}" if lost else "")


def write(table: Runs, logs: dict[str, Log], out: Path) -> None:
    rows = []
    for setting in ALTERNATIVES:
        row: dict[str, Any] = {"setting": setting}
        for log, runs in table.items():
            found = runs[setting]
            row[log] = ", ".join(f"{run['return']:.1f}" for run in found)
            row[f"{log} area"] = ", ".join(f"{min(run['areas'].values()):.3f}" for run in found)
        row["verdict"] = "" if setting == "own-data" else verdict(setting, table)
        rows.append(row)
    columns = {"setting": ""}
    for log in table:
        columns |= {log: f"{log}, return", f"{log} area": f"{log}, smallest AUC"}
    columns |= {"verdict": "by the rule"}
    cells = [runs for settings in table.values() for runs in settings.values()]
    sources = {json.dumps(run["source"]) for runs in cells for run in runs}
    commits = [json.loads(text) for text in sorted(sources)]
    where = layout()
    logged = ", ".join(f"{name} {log.logged:.1f}" for name, log in logs.items())
    notes = [
        "Each row is the preset with one change. Returns are those of the policy's mode in the "
        "simulation that made the log, which training never saw, one number a seed. Smallest AUC: of "
        "eight kinds of shifted rows, how well the members' standard deviation tells the worst one from "
        "held-out rows.",
        f"Mean return of each log's own episodes: {logged}.",
        f"The rule: {RULE}",
        "To save time, only alternatives that were better than the preset on every log in the first "
        "seed were trained in others; this was decided while the first seed ran. Five members were "
        "planned as a fifth alternative, and left out before any alternative was trained.",
        f"Budget: {sum(map(len, cells))} runs, of 10,000 steps where the row does not say otherwise.",
        "Commit: "
        + ", ".join(f"{c['commit'][:10]}" + " (changed)" * (not c["clean"]) for c in commits if c)
        + f". Machine: {where['cpu']}, pinned to one of two cores, with other work beside it.",
    ]
    write_page(
        out / "own-data-preset.md", "The preset for your own data", rows, columns, notes=notes
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--robot", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--runs", type=Path, default=Path("runs/own-data"))
    parser.add_argument("--out", type=Path, default=Path("results"))
    asked = parser.parse_args()
    asked.runs.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[], Log]] = {
        "heating": lambda: heating(asked.runs),
        "tank": lambda: tank(asked.runs),
        "robot": lambda: robot(asked.robot, asked.runs),
    }
    logs = {name: make() for name, make in makers.items()}
    table: Runs = {log: {setting: [] for setting in ALTERNATIVES} for log in logs}
    for seed in asked.seeds:
        for setting, changes in ALTERNATIVES.items():
            if seed != asked.seeds[0] and setting != "own-data" and not still_in(setting, table):
                continue
            for name, log in logs.items():
                run = asked.runs / f"{name}-{setting.replace(' ', '-')}-{seed}"
                found = measured(log, changes, seed, run)
                table[name][setting].append(found)
                print(name, setting, seed, json.dumps(found), flush=True)
    write(table, logs, asked.out)


if __name__ == "__main__":
    main()
