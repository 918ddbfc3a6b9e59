"""The comparison with the plain way and with d3rlpy's SAC, as far as it goes without measuring."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import compare, worker
from chary.bench import timing
from chary.bench.timing import LARGE, Case
from chary.bench.updates import flops

SPEEDS = {
    "matrix": {"numpy": 100.0, "jax": 200.0},
    "ours": 60.0,
    "plain": 30.0,
    "d3rlpy": 20.0,
    "before": 50.0,
}


class FixedWorker:
    """One that is as fast as it says, or half as fast after its first window."""

    def __init__(self, python: str, case: dict[str, Any], at: Path | None = None):
        del python
        kind = "before" if at else case["kind"]
        self.speed, self.begun, self.machine = SPEEDS[kind], {"ready_s": 1.0}, 1.0

    def ask(self, seconds: float) -> dict[str, Any]:
        assert seconds > 0.0
        if isinstance(self.speed, dict):
            return self.speed
        speed, self.machine = self.machine * self.speed, 0.5
        return {"updates_per_s": speed, "peak_mb": 512.0}

    def end(self) -> None:
        """Nothing to end."""


def test_ratios_and_shares_stand_in_the_page_beside_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--members", "4", "--windows", "2", "--rounds", "3", "--without-d3rlpy"]
    monkeypatch.setattr(sys, "argv", ["benchmarks/compare.py", *words, "--out", str(tmp_path)])
    monkeypatch.setattr(compare, "Worker", FixedWorker)
    monkeypatch.setattr(timing, "alone", lambda *_: 8)
    assert compare.main() == 0
    share = 60.0 * flops(Case(4, LARGE, 0.1, samples="shared")) / 200e9
    line = f"| 4 | 256x256x256 | 0.1 | 2 | 30.0 | 15.0 | 2.00 | - | - | {share:.0%} | 512, 512 |"
    page = (tmp_path / "speed-compared.md").read_text()
    printed = capsys.readouterr().out
    assert line in page and line in printed
    table = page[page.index("| members") : page.index("![")]
    assert printed == table.rstrip() + "\n"  # row by row, and the heading once
    command = f"python benchmarks/compare.py {' '.join(words)} --out {tmp_path}"
    assert f"\n    {command}\n\nMade by chary " in page
    numbers = json.loads((tmp_path / "speed-compared.json").read_text())
    assert numbers["command"] == command
    assert numbers["rows"][0]["share_of_matrix_rate"] == pytest.approx(share)
    assert (tmp_path / "speed-compared.png").stat().st_size > 1_000


def test_d3rlpy_and_another_checkout_are_compared_where_there_are_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compare, "Worker", FixedWorker)
    case = {"members": 4, "hidden": [8], "alpha": 0.0, "window": 2}

    class Options:
        rounds, seconds, before = 1, 1.0, Path("old")

    row = compare.compare(case, {"d3rlpy": "python"}, Options)
    assert row["ratios"] == {"plain": 2.0, "d3rlpy": 3.0, "before": 1.2}


def test_a_share_is_of_the_best_matrix_rate_of_the_whole_run() -> None:
    slow, quick = (
        {"gflops": 50.0, "matrix_gflops": {"numpy": rate, "jax": 60.0}} for rate in (80.0, 100.0)
    )
    assert [row["share_of_matrix_rate"] for row in compare.with_shares([slow, quick])] == [0.5, 0.5]


def test_workers_have_the_bench_sizes() -> None:
    """They repeat them, because they also run where chary is not installed."""
    sizes = worker.OBSERVATION, worker.ACTION, worker.BATCH
    assert sizes == (timing.OBSERVATION_SIZE, timing.ACTION_SIZE, timing.BATCH)
