"""The demonstration and the bench, shortened."""

from pathlib import Path

import pytest

from chary import bench, demo
from chary.data.sources import collected


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CHARY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(collected.TRANSITIONS, "pointmaze-umaze", 3_000)
    monkeypatch.setattr(demo, "MSG_STEPS", 520)  # just past the warm-up
    monkeypatch.setattr(demo, "EPISODES", 3)
    monkeypatch.setattr(demo, "BC_SETTINGS", {**demo.BC_SETTINGS, "steps": 20, "log_every": 5})


@pytest.mark.usefixtures("short")
def test_the_demo_compares_data_cloning_and_msg_and_draws_them(tmp_path: Path) -> None:
    rows, figure = demo.run_demo(tmp_path / "out", seed=0)
    assert [row["name"] for row in rows] == ["data", "bc", "msg"]
    for row in rows:
        assert 0.0 <= row["success"] <= 1.0
    assert figure.stat().st_size > 20_000
    again, _ = demo.run_demo(tmp_path / "out", seed=0)  # complete runs are used again
    assert again[2]["return"] == rows[2]["return"]


def test_the_bench_counts_what_it_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "WINDOW_SECONDS", 0.01)
    monkeypatch.setattr(bench, "TRANSITIONS", 1_000)
    monkeypatch.setattr(bench, "alone", lambda work, *arguments: work(*arguments))
    rates, (row,) = bench.run_bench([bench.Case(2, (8, 8), 0.1)])
    assert {"numpy", "jax"} <= set(rates)
    assert row["passes_counted"] == 9
    forward = 2 * 256 * (37 * 8 + 8 * 8 + 8 * 1)
    flops = 9 * 2 * forward * row["updates_per_s"]
    assert row["gflops"] == pytest.approx(flops / 1e9)
    assert row["share_of_gemm"] == pytest.approx(row["gflops"] / max(rates.values()))
    assert row["compile_s"] > 0 and row["peak_mb"] > 0
    assert bench.passes(bench.Case(2, (8, 8), 0.0)) == 6


def test_the_bench_compares_memory_with_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "WINDOW_SECONDS", 0.01)
    monkeypatch.setattr(bench, "TRANSITIONS", 2_000)
    memory, files = bench.compare_feeds(bench.Case(2, (8, 8), 0.1))
    assert (memory["transitions"], files["transitions"]) == ("memory", "files")
    assert memory["ratio"] == 1.0
    speeds = files["updates_per_s"] / memory["updates_per_s"]
    assert files["ratio"] == pytest.approx(speeds)
