"""Ours against MSG written the plain way and against d3rlpy's SAC with as many critics, in one run.

    python benchmarks/compare.py --out results
    python benchmarks/compare.py --before ../chary-old --without-d3rlpy --out /tmp/change

The second line asks whether a change costs speed: ours beside ours in another checkout.

All processes of a case are alive at once and train in turn, one at a time, in windows of some seconds;
ratios are taken within a round, so that a machine that changes speed is fair to all. d3rlpy has its own
environment (`make d3rlpy`). Its SAC does less: it has no regulariser H.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from chary.bench import timing
from chary.bench.timing import ACTION_SIZE, BATCH, LARGE, OBSERVATION_SIZE, SMALL
from chary.bench.updates import flops
from chary.errors import CharyError
from chary.host.files import write_whole
from chary.host.machine import command_line, cores, cpu_name, versions
from chary.report.tables import markdown_table, write_page

HERE = Path(__file__).parent
OURS, PLAIN, D3RLPY, BEFORE = "ours", "plain", "d3rlpy", "before"
COLUMNS = {
    "members": "members", "hidden": "hidden", "alpha": "alpha", "window": "window",
    OURS: "ours, updates/s", PLAIN: "plain", "of_plain": "ours / plain",
    D3RLPY: "d3rlpy", "of_d3rlpy": "ours / d3rlpy", "share": "share of matrix rate",
    "peaks": "peak MB ours, plain",
}  # fmt: skip
OF_BEFORE = {BEFORE: "before", "of_before": "ours / before"}


class Worker:
    """A process that trains when told to, with the package of a checkout: this one, or `at`."""

    def __init__(self, python: str, case: dict[str, Any], at: Path = HERE.parent):
        self.process = subprocess.Popen(
            [python, str(at / "benchmarks" / "worker.py"), json.dumps(case)],
            env={**os.environ, "PYTHONPATH": str(at)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.case = case
        self.begun = self._read()

    def ask(self, seconds: float) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise CharyError(
                f"the process for {self.case} ended. Run worker.py by hand to see why."
            )
        return json.loads(line)

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def compare(case: dict[str, Any], pythons: dict[str, str], options: Any) -> dict[str, Any]:
    """A row: every kind's updates a second, and ours over theirs."""
    ours = timing.Case(case["members"], tuple(case["hidden"]), case["alpha"], samples="shared")
    case = {**case, "window": case["window"] or timing.window_of(ours)}
    workers = {
        OURS: Worker(sys.executable, {**case, "kind": OURS, "samples": ours.samples}),
        PLAIN: Worker(sys.executable, {**case, "kind": PLAIN, "samples": "own"}),
    }
    matrices = [Worker(sys.executable, {"kind": "matrix"})]
    if D3RLPY in pythons:
        workers[D3RLPY] = Worker(pythons[D3RLPY], {**case, "kind": D3RLPY})
        matrices.append(Worker(pythons[D3RLPY], {"kind": "matrix"}))
    if options.before:
        mine = {**case, "kind": OURS, "samples": ours.samples, "chunk": case["window"]}
        workers[BEFORE] = Worker(sys.executable, mine, options.before)
    rounds: list[dict[str, float]] = []
    rates: dict[str, float] = {}
    peaks: dict[str, float] = {}
    for _ in range(options.rounds):
        for matrix in matrices:
            for name, rate in matrix.ask(options.seconds / 4).items():
                rates[name] = max(rate, rates.get(name, 0.0))
        answers = {name: worker.ask(options.seconds) for name, worker in workers.items()}
        rounds.append({name: answer["updates_per_s"] for name, answer in answers.items()})
        peaks = {name: answer["peak_mb"] for name, answer in answers.items()}
    for worker in (*workers.values(), *matrices):
        worker.end()
    speeds = {name: statistics.median(r[name] for r in rounds) for name in workers}
    fastest = max(r[OURS] for r in rounds)
    row = {
        **case,
        "updates_per_s": speeds,
        "ratios": {
            name: statistics.median(r[OURS] / r[name] for r in rounds)
            for name in workers
            if name != OURS
        },
        "gflops": fastest * flops(ours) / 1e9,
        "matrix_gflops": rates,
        "peak_mb": peaks,
        "ready_s": {name: worker.begun["ready_s"] for name, worker in workers.items()},
        "rounds": rounds,
    }
    shown = map(_texts, with_shares([row]))
    columns = {**COLUMNS, **(OF_BEFORE if options.before else {})}
    print(markdown_table(list(shown), columns).splitlines()[-1], flush=True)
    return row


def with_shares(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Beside ours, as in `chary bench`: how much it is of the best matrix rate of all these rows."""
    best = max(max(row["matrix_gflops"].values()) for row in rows)
    return [{**row, "share_of_matrix_rate": row["gflops"] / best} for row in rows]


def _texts(row: dict[str, Any]) -> dict[str, str]:
    """A row as the table shows it."""
    speeds, ratios, peaks = row["updates_per_s"], row["ratios"], row["peak_mb"]
    return {
        "members": str(row["members"]),
        "hidden": "x".join(map(str, row["hidden"])),
        "alpha": f"{row['alpha']:g}",
        "window": str(row["window"]),
        **{name: f"{speed:.1f}" for name, speed in speeds.items()},
        **{f"of_{name}": f"{ratio:.2f}" for name, ratio in ratios.items()},
        "share": f"{row['share_of_matrix_rate']:.0%}",
        "peaks": f"{peaks[OURS]:.0f}, {peaks[PLAIN]:.0f}",
    }


def write(rows: list[dict[str, Any]], out: Path) -> None:
    """The table, its numbers, and the figure of cost against size."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    best = max(max(row["matrix_gflops"].values()) for row in rows)
    notes = [
        f"{OBSERVATION_SIZE} observations, {ACTION_SIZE} actions, batches of {BATCH}; medians over "
        f"rounds. Machine: {cpu_name()}, {cores()} cores; jax {versions()['jax']}; best matrix rate "
        f"{best:.0f} GFLOP/s. d3rlpy's SAC has no regulariser, whatever alpha says.",
    ]
    write_page(
        out / "speed-compared.md",
        "Speed: ours, the plain way, and d3rlpy's SAC",
        list(map(_texts, rows)),
        {**COLUMNS, **(OF_BEFORE if BEFORE in rows[0]["ratios"] else {})},
        notes=notes,
        after="![time of an update](speed-compared.png)",
    )
    numbers = {"command": command_line(), "rows": rows}
    write_whole(out / "speed-compared.json", json.dumps(numbers, indent=1) + "\n")
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.0), layout="constrained", sharey=True)
    for axis, alpha in zip(axes, (0.1, 0.0), strict=True):
        chosen = [r for r in rows if r["hidden"] == list(LARGE) and r["alpha"] == alpha]
        for name in (OURS, PLAIN, D3RLPY):
            points = [
                (r["members"], 1e3 / r["updates_per_s"][name])
                for r in chosen
                if name in r["updates_per_s"]
            ]
            if points:
                axis.plot(*zip(*points, strict=True), "o-", label=name)
        axis.set(xscale="log", yscale="log", xlabel="members (3x256)")
        axis.set_title("with H (d3rlpy: without)" if alpha else "without H", fontsize=10)
        members = sorted({r["members"] for r in chosen})
        axis.set_xticks(members, [str(n) for n in members], minor=False)
        axis.minorticks_off()
        axis.grid(linewidth=0.4, alpha=0.6)
    axes[0].set_ylabel("milliseconds an update")
    axes[0].legend(frameon=False)
    figure.savefig(out / "speed-compared.png", dpi=130)
    plt.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--members", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument(
        "--windows", type=int, nargs="+", help="ours: members at a time, for each size"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--d3rlpy", type=Path, default=Path(".venv-d3rlpy/bin/python"))
    parser.add_argument("--without-d3rlpy", action="store_true")
    parser.add_argument("--before", type=Path, help="time another checkout of chary beside ours")
    options = parser.parse_args()
    pythons = {}
    if not options.without_d3rlpy:
        if not options.d3rlpy.exists():
            print(
                f"{options.d3rlpy}: no such Python. Run `make d3rlpy`, or leave it out by "
                "--without-d3rlpy.",
                file=sys.stderr,
            )
            return 2
        pythons[D3RLPY] = str(options.d3rlpy)
    windows = options.windows or [None] * len(options.members)
    if len(windows) != len(options.members):
        parser.error("--windows needs one number for each of --members")
    columns = {**COLUMNS, **(OF_BEFORE if options.before else {})}
    print(markdown_table([], columns), end="", flush=True)
    rows = [
        compare(
            {"members": n, "hidden": list(LARGE), "alpha": alpha, "window": window},
            pythons,
            options,
        )
        for n, window in zip(options.members, windows, strict=True)
        for alpha in (0.1, 0.0)
    ]
    for alpha in (0.1, 0.0):
        small = {"members": 8, "hidden": list(SMALL), "alpha": alpha, "window": None}
        rows.append(compare(small, pythons, options))
    write(with_shares(rows), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
