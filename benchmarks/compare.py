"""Ours against MSG written the plain way and against d3rlpy's SAC with as many critics, in one run.

    python benchmarks/compare.py --out results

All processes of a case are alive at once and train in turn, one at a time, in windows of some seconds;
ratios are taken within a round, so that a machine that changes speed is fair to all. d3rlpy has its own
environment (`make d3rlpy`). Its SAC does less: it has no regulariser H.
"""

import argparse
import json
import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from worker import ACTION, BATCH, OBSERVATION

from chary.bench import timing
from chary.bench.timing import LARGE, SMALL
from chary.errors import CharyError
from chary.machine import cores, cpu_name, versions

HERE = Path(__file__).parent
OURS, PLAIN, D3RLPY = "ours", "plain", "d3rlpy"


class Worker:
    """A process that trains when told to."""

    def __init__(self, python: str, case: dict[str, Any]):
        self.process = subprocess.Popen(
            [python, str(HERE / "worker.py"), json.dumps(case)],
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


def passes(alpha: float) -> int:
    """Forward-sized passes of a critic that ours makes in an update (docs/speed.md)."""
    return 7 if alpha else 6


def flops(members: int, hidden: list[int], alpha: float) -> float:
    """Of an update: the critics' passes, and five of the policy (next, now, backward 2, and H's)."""
    critic = (OBSERVATION + ACTION, *hidden, 1)
    policy = (OBSERVATION, *hidden, 2 * ACTION)

    def forward(sizes: tuple[int, ...]) -> float:
        return 2.0 * BATCH * sum(a * b for a, b in pairwise(sizes))

    return passes(alpha) * members * forward(critic) + 4 * forward(policy)


def compare(case: dict[str, Any], pythons: dict[str, str], options: Any) -> dict[str, Any]:
    """A row: every kind's updates a second, and ours over theirs."""
    hidden, alpha = tuple(case["hidden"]), case["alpha"]
    chunk = case["chunk"] or timing.alone(
        timing.chunk_of, timing.Case(case["members"], hidden, alpha, samples="shared")
    )
    case = {**case, "chunk": chunk}
    workers = {
        OURS: Worker(sys.executable, {**case, "kind": OURS, "samples": "shared"}),
        PLAIN: Worker(sys.executable, {**case, "kind": PLAIN, "samples": "own"}),
    }
    matrices = [Worker(sys.executable, {"kind": "matrix"})]
    if D3RLPY in pythons:
        workers[D3RLPY] = Worker(pythons[D3RLPY], {**case, "kind": D3RLPY})
        matrices.append(Worker(pythons[D3RLPY], {"kind": "matrix"}))
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
    best = max(rates.values())
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
        "share_of_matrix_rate": fastest * flops(**_sizes(case)) / best / 1e9,
        "matrix_gflops": rates,
        "peak_mb": peaks,
        "ready_s": {name: worker.begun["ready_s"] for name, worker in workers.items()},
        "rounds": rounds,
    }
    print(_line(row), flush=True)
    return row


def _sizes(case: dict[str, Any]) -> dict[str, Any]:
    return {name: case[name] for name in ("members", "hidden", "alpha")}


HEAD = (
    "| members | hidden | alpha | chunk | ours, updates/s | plain | ours / plain | d3rlpy | "
    "ours / d3rlpy | share of matrix rate | peak MB ours, plain |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def _line(row: dict[str, Any]) -> str:
    speeds, ratios, peaks = row["updates_per_s"], row["ratios"], row["peak_mb"]
    other = [f"{speeds[D3RLPY]:.1f}", f"{ratios[D3RLPY]:.2f}"] if D3RLPY in speeds else ["-", "-"]
    cells = [
        str(row["members"]),
        "x".join(map(str, row["hidden"])),
        f"{row['alpha']:g}",
        str(row["chunk"]),
        f"{speeds[OURS]:.1f}",
        f"{speeds[PLAIN]:.1f}",
        f"{ratios[PLAIN]:.2f}",
        *other,
        f"{row['share_of_matrix_rate']:.0%}",
        f"{peaks[OURS]:.0f}, {peaks[PLAIN]:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def write(rows: list[dict[str, Any]], out: Path) -> None:
    """The table, its numbers, and the figure of cost against size."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    out.mkdir(parents=True, exist_ok=True)
    best = max(max(row["matrix_gflops"].values()) for row in rows)
    text = [
        "# Speed: ours, the plain way, and d3rlpy's SAC",
        "",
        "    make bench",
        "",
        f"{OBSERVATION} observations, {ACTION} actions, batches of {BATCH}; medians over rounds. "
        f"Machine: {cpu_name()}, {cores()} cores; jax {versions()['jax']}; best matrix rate "
        f"{best:.0f} GFLOP/s. d3rlpy's SAC has no regulariser, whatever alpha says.",
        "",
        HEAD,
        *map(_line, rows),
        "",
        "![time of an update](speed-compared.png)",
        "",
    ]
    (out / "speed-compared.md").write_text("\n".join(text))
    (out / "speed-compared.json").write_text(json.dumps({"rows": rows}, indent=1) + "\n")
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
        "--chunks", type=int, nargs="+", help="ours: members at a time, for each size"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--d3rlpy", type=Path, default=Path(".venv-d3rlpy/bin/python"))
    parser.add_argument("--without-d3rlpy", action="store_true")
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
    chunks = options.chunks or [None] * len(options.members)
    if len(chunks) != len(options.members):
        parser.error("--chunks needs one number for each of --members")
    print(HEAD)
    rows = [
        compare(
            {"members": n, "hidden": list(LARGE), "alpha": alpha, "chunk": chunk}, pythons, options
        )
        for n, chunk in zip(options.members, chunks, strict=True)
        for alpha in (0.1, 0.0)
    ]
    for alpha in (0.1, 0.0):
        small = {"members": 8, "hidden": list(SMALL), "alpha": alpha, "chunk": None}
        rows.append(compare(small, pythons, options))
    write(rows, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
