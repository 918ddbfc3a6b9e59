"""The benches, shortened."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import bench, ensembles, feeds, large, population, simulation, start
from chary.algos.msg import make_msg
from chary.bench import timing, updates
from chary.bench.timing import Case
from chary.cli import main
from chary.errors import CharyError
from chary.execution.cost import cost_of
from chary.execution.program import trace_update


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "WINDOW_SECONDS", 0.01)
    monkeypatch.setattr(feeds, "WINDOW_SECONDS", 0.01)
    monkeypatch.setattr(population, "WINDOW_SECONDS", 0.01)
    monkeypatch.setattr(timing, "TRANSITIONS", 2_000)
    monkeypatch.setattr(timing, "alone", lambda work, *arguments: work(*arguments))


@pytest.mark.long
def test_updates_count_what_they_time() -> None:
    rates, (row,) = updates.time_updates([Case(2, (8, 8), 0.1)])
    assert {"numpy", "jax"} <= set(rates)
    assert row["passes_counted"] == 9
    critic, policy = 2 * 256 * (37 * 8 + 8 * 8 + 8 * 1), 2 * 256 * (29 * 8 + 8 * 8 + 8 * 16)
    flops = 9 * 2 * critic + 4 * policy
    assert row["gflops"] == pytest.approx(flops * row["updates_per_s"] / 1e9)
    assert row["share_of_gemm"] == pytest.approx(row["gflops"] / max(rates.values()))
    assert row["compile_s"] > 0 and row["peak_mb"] > 0
    assert updates.passes(Case(2, (8, 8), 0.0)) == 6
    assert updates.passes(Case(2, (8, 8), 0.1, samples="shared")) == 7


@pytest.mark.parametrize(("alpha", "samples"), [(0.1, "own"), (0.1, "shared"), (0.0, "own")])
def test_what_is_counted_is_in_the_program(alpha: float, samples: Any) -> None:
    case = Case(2, timing.LARGE, alpha, samples=samples)
    sizes = timing.OBSERVATION_SIZE, timing.ACTION_SIZE
    algorithm = make_msg(timing.config_of(case), *sizes)
    program = cost_of(trace_update(algorithm, timing.BATCH, *sizes)).flops
    # It asks the policy about the same states twice, which the compiler does once.
    again = 2 * 256 * (29 * 256 + 2 * 256 * 256 + 256 * 16)
    assert updates.flops(case) == pytest.approx(program - again, rel=0.02)


@pytest.mark.long
def test_memory_is_compared_with_files() -> None:
    memory, files = feeds.compare_feeds(Case(2, (8, 8), 0.1))
    assert (memory["transitions"], files["transitions"]) == ("memory", "files")
    assert memory["ratio"] == 1.0
    speeds = files["updates_per_s"] / memory["updates_per_s"]
    assert files["ratio"] == pytest.approx(speeds)


def test_runs_side_by_side_are_compared_with_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Alone a run takes 2 s an update; three together take 4 s for one of each."""
    asked: dict[int, int] = {1: 0, 3: 0}

    def stepper(_algorithm: object, _feed: object, runs: int) -> Callable[[int], float]:
        def advance(steps: int) -> float:
            assert steps >= 1
            asked[runs] += 1
            slow = 5.0 if asked[1] == 3 + 4 else 1.0  # a machine that falters in the fourth window
            return slow * {1: 2.0, 3: 4.0}[runs]

        return advance

    monkeypatch.setattr(timing, "stepper", stepper)
    (row,) = population.time_populations([Case(2, (8, 8), 0.1)], 3)
    assert asked == {1: 3 + population.WINDOWS, 3: 1 + population.WINDOWS}
    assert row["runs"] == 3
    assert row["after_one_another"] == 3 / (3 * 2.0)
    assert row["side_by_side"] == 3 / 4.0
    assert row["ratio"] == 3 * 2.0 / 4.0


def test_starts_are_compared_with_the_first_and_written_as_a_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(start, "_start", lambda *words: [10.0, 3.0][words[-1]])
    assert bench.main(["start", "--out", str(tmp_path / "results"), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["start"], row["of_first"]) for row in rows] == [(1, 1.0), (2, 0.3)]
    page = (tmp_path / "results" / "bench-start.md").read_text()
    assert page.startswith("# Time from the command to the first update")
    assert "| 2 | 8 | 3.00 | 0.30 |" in page


def test_a_large_log_is_imported_checked_and_trained_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[str] = []

    def measure(folder: Path, words: list[Any]) -> dict[str, float]:
        assert (folder / "log.csv").read_text().count("\n") == 10_001  # the heading too
        commands.append(" ".join(map(str, words[:2])))
        return {"seconds": 2.0, "processor_seconds": 1.0, "peak_gb": 0.5}

    monkeypatch.setattr(large, "_measure", measure)
    assert bench.main(["large", "--rows", "10000", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert commands == ["data import", "data check", "train msg"]
    assert [row["peak_gb"] for row in rows] == [0.5] * 3
    assert bench.main(["large", "--rows", "10"]) == 2


def test_ensembles_are_measured_in_rounds_against_no_ensemble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A machine that halves its speed after the first round changes no ratio."""
    order: list[tuple[str, int]] = []

    def time_once(case: Case, seconds: float) -> dict[str, Any]:
        assert seconds == 0.5
        order.append((case.ensemble, case.members))
        machine = 1.0 if len(order) <= 4 else 0.5
        speeds = {("none", 1): 100.0, ("fbrc", 2): 20.0, ("deep", 4): 60.0, ("deep", 64): 10.0}
        speed = speeds[order[-1]]
        return {"updates_per_s": machine * speed, "parameters": 7, "peak_mb": float(len(order))}

    monkeypatch.setattr(ensembles, "time_once", time_once)
    rows = ensembles.time_ensembles(["deep", "fbrc"], (4, 64), (8,), repeats=2, seconds=0.5)
    assert order == [("none", 1), ("fbrc", 2), ("deep", 4), ("deep", 64)] * 2
    assert [row["relative"] for row in rows] == pytest.approx([1.0, 0.2, 0.6, 0.1])
    assert [row["updates_per_s"] for row in rows] == pytest.approx([75.0, 15.0, 45.0, 7.5])
    assert [row["paper"] for row in rows] == [1.0, 0.22, 0.64, 0.11]
    assert [row["peak_mb"] for row in rows] == [5.0, 6.0, 7.0, 8.0]


@pytest.mark.long
def test_bench_ensembles_as_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--members", "3", "--hidden", "8", "--repeats", "1", "--seconds", "0.01"]
    options = [*small, "--kinds", "deep", "multihead", "cql", "--out", str(tmp_path)]
    assert bench.main(["ensembles", *options, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(r["ensemble"], r["members"]) for r in rows] == [
        ("none", 1), ("cql", 2), ("deep", 3), ("multihead", 3),
    ]  # fmt: skip
    one = 37 * 8 + 8 + 8 + 1
    assert [row["parameters"] for row in rows] == [one, 2 * one, 3 * one, one + 2 * (8 + 1)]
    assert all(row["updates_per_s"] > 0 for row in rows)
    assert "| multihead | 3 | 331 |" in (tmp_path / "bench-ensembles.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ensemble"], "unknown bench 'ensemble'. Did you mean ensembles?"),
        (["ensembles", "--kinds", "deeper"], "unknown ensemble 'deeper'"),
        (["ensembles", "--repeats", "0"], "--repeats is 0"),
        (["ensembles", "--members", "0"], "--members is (0,)"),
    ],
)
def test_wrong_input(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(arguments) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["update"], "unknown bench 'update'. Did you mean updates?"),
        (["ensembles"], "`make bench`"),
        (["updates", "--members", "3"], "--members is 3"),
    ],
)
def test_wrong_input_of_the_command(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_simulation_is_timed_beside_the_simulator_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(simulation, "_collection", lambda _: 5.0)
    monkeypatch.setattr(simulation, "EPISODES", 1)
    words = ["simulation", "--tasks", "pointmaze-umaze", "hopper-medium-v2"]
    assert bench.main([*words, "--seconds", "0.01", "--repeats", "1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["task"], row["work"]) for row in rows] == [
        ("pointmaze-umaze", "simulator"),
        ("pointmaze-umaze", "evaluation"),
        ("pointmaze-umaze", "collection"),
        ("hopper-medium-v2", "simulator"),
        ("hopper-medium-v2", "evaluation"),
    ]
    assert all(row["steps_per_s"] > 0 for row in rows)
    assert rows[2]["of_simulator"] == pytest.approx(5.0 / rows[0]["steps_per_s"])
    with pytest.raises(CharyError, match="no simulator of that name"):
        simulation.time_simulation(["nothing"], seconds=1.0, repeats=1)
