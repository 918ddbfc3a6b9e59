"""The training loop: where it is cut does not matter, to the bit."""

import json
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import chary
from chary.config import from_json
from chary.data.dataset import Dataset
from chary.errors import CharyError
from chary.execution.program import initial_carry
from chary.runs.folder import RunFolder
from chary.training import loop
from chary.training.plan import make_plan
from chary.training.resolve import resolve
from chary.training.run_config import RunConfig
from tests.conftest import make_columns

QUICK: dict[str, Any] = {"hidden": (8, 8), "batch_size": 16, "log_every": 10, "eval_every": 0}
MSG_QUICK: dict[str, Any] = {**QUICK, "members": 2, "warmup_steps": 5}


def settings_of(algorithm: str) -> dict[str, Any]:
    return MSG_QUICK if algorithm == "msg" else QUICK


def bits(tree: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]


def lines(folder: Path, log: str) -> str:
    path = folder / f"{log}.jsonl"
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize("algorithm", [pytest.param("msg", marks=pytest.mark.long), "bc"])
def test_chunks_of_any_length_give_the_same_bits(algorithm: str, dataset: Dataset) -> None:
    changes = {**settings_of(algorithm), "reward_scale": 1.0, "reward_shift": 0.0}
    plan = make_plan([resolve(algorithm, dataset, "none", None, changes)], dataset)
    ends = []
    for cuts in ([0, 20], [0, 1, 2, 13, 20], list(range(21))):
        (carry,) = plan.initial_carries()
        for start, stop in pairwise(cuts):
            carry = plan.feed.advance(carry, start, stop)
        ends.append(bits(carry))
    assert ends[0] == ends[1] == ends[2]


@pytest.mark.parametrize("algorithm", ["msg", "bc"])
def test_a_run_stopped_anywhere_resumes_to_the_same_bits(
    algorithm: str, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**settings_of(algorithm), "steps": 60}
    whole = chary.train(algorithm, dataset, run=tmp_path / "whole", **settings)

    asked_after = iter([17, 23, 5])
    real = loop.stop_requests

    class Stopper:
        """Asks to stop at the next boundary after a number of looks."""

        def __enter__(self) -> Any:
            self.left = next(asked_after, 10**9)
            return self.look

        def look(self) -> bool:
            self.left -= 1
            return self.left < 0

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(loop, "stop_requests", Stopper)
    monkeypatch.setattr(loop, "CHUNK_SECONDS", 0.0)  # a chunk a step
    with pytest.raises(KeyboardInterrupt, match="chary resume"):
        chary.train(algorithm, dataset, run=tmp_path / "cut", **settings)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            chary.resume(tmp_path / "cut", dataset=dataset)
    monkeypatch.setattr(loop, "stop_requests", real)
    resumed = chary.resume(tmp_path / "cut", dataset=dataset)
    assert bits(resumed.state) == bits(whole.state)
    assert lines(tmp_path / "cut", "metrics") == lines(tmp_path / "whole", "metrics")
    assert len(lines(tmp_path / "cut", "metrics").splitlines()) == 6


def test_resuming_a_complete_run_changes_nothing(dataset: Dataset, tmp_path: Path) -> None:
    agent = chary.train("bc", dataset, run=tmp_path / "run", steps=20, **QUICK)
    before = lines(tmp_path / "run", "metrics")
    again = chary.resume(tmp_path / "run", dataset=dataset)
    assert bits(again.state) == bits(agent.state)
    assert lines(tmp_path / "run", "metrics") == before


def test_a_longer_run_is_what_it_would_have_been_from_the_start(
    dataset: Dataset, tmp_path: Path
) -> None:
    long = chary.train("bc", dataset, run=tmp_path / "long", steps=40, **QUICK)
    chary.train("bc", dataset, run=tmp_path / "short", steps=25, **QUICK)
    lengthened = chary.resume(tmp_path / "short", dataset=dataset, steps=40)
    assert bits(lengthened.state) == bits(long.state)
    assert RunFolder.open(tmp_path / "short").config["run"]["steps"] == 40
    # The shorter run closed its last log line at step 25; what follows is averaged from there.
    whole, cut = (RunFolder.open(tmp_path / run).read("metrics") for run in ("long", "short"))
    assert [m["step"] for m in cut] == [10, 20, 25, 30, 40]
    assert cut[-1] == whole[-1]
    parts = 0.5 * (cut[2]["policy/log_likelihood"] + cut[3]["policy/log_likelihood"])
    assert parts == pytest.approx(whole[2]["policy/log_likelihood"], rel=1e-5)


def test_a_run_may_be_moved_and_called_by_another_name(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chary.train("bc", dataset, run="first", steps=10, **QUICK)
    (tmp_path / "first").rename(tmp_path / "second")
    moved = chary.resume("second", dataset=dataset, steps=20)
    assert moved.folder == Path("second") and not (tmp_path / "first").exists()
    chary.train("bc", dataset, run=tmp_path / "second", resume=True, steps=20, **QUICK)


def test_a_dataset_from_a_file_is_found_again(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chary.data.formats.write(dataset, Path("mine.npz"))
    chary.train("bc", chary.load("mine.npz"), run="run", steps=10, **QUICK)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert chary.resume("../run", steps=20).folder == Path("../run")


def test_data_that_borrows_the_name_of_a_task_is_refused_before_the_run(
    columns: dict[str, np.ndarray], tmp_path: Path
) -> None:
    borrowed = Dataset.from_columns(columns, name="pointmaze-umaze")
    with pytest.raises(CharyError, match="another name"):
        chary.train("bc", borrowed, run=tmp_path / "run", steps=10, **QUICK)
    assert not (tmp_path / "run").exists()


def test_holding_out_data_for_an_algorithm_without_a_validation_score(
    dataset: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(CharyError, match="msg has no such score"):
        chary.train("msg", dataset, run=tmp_path / "run", validation=0.2, **MSG_QUICK)
    assert not (tmp_path / "run").exists()


def test_a_run_without_evaluations_has_no_best(dataset: Dataset, tmp_path: Path) -> None:
    chary.train("bc", dataset, run=tmp_path / "run", steps=10, **QUICK)
    with pytest.raises(CharyError, match="there is no best"):
        chary.open_run(tmp_path / "run", which="best")


def test_seeds_and_nothing_else_decide_the_result(dataset: Dataset, tmp_path: Path) -> None:
    one, same, other = (
        chary.train("bc", dataset, run=tmp_path / name, steps=10, seed=seed, **QUICK)
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert bits(one.state) == bits(same.state)
    assert bits(one.state) != bits(other.state)


def test_metrics_are_means_over_the_steps_since_the_last_line(
    dataset: Dataset, tmp_path: Path
) -> None:
    every = chary.train("bc", dataset, run=tmp_path / "a", steps=20, **{**QUICK, "log_every": 1})
    chary.train("bc", dataset, run=tmp_path / "b", steps=20, **{**QUICK, "log_every": 8})
    assert every.folder == tmp_path / "a"
    single = [m["policy/log_likelihood"] for m in RunFolder.open(tmp_path / "a").read("metrics")]
    mean = [m["policy/log_likelihood"] for m in RunFolder.open(tmp_path / "b").read("metrics")]
    expected = [np.mean(single[:8]), np.mean(single[8:16]), np.mean(single[16:])]
    np.testing.assert_allclose(mean, expected, rtol=1e-5)


def test_validation_ends_the_run_when_it_stops_improving(tmp_path: Path) -> None:
    dataset = Dataset.from_columns(make_columns(episodes=10), name="noise")
    settings = {**QUICK, "steps": 5_000, "validation": 0.3, "patience": 3, "learning_rate": 1e-2}
    chary.train("bc", dataset, run=tmp_path / "run", **settings)
    folder = RunFolder.open(tmp_path / "run")
    scores = [m["validation"] for m in folder.read("metrics")]
    assert len(scores) * 10 < 5_000
    assert max(scores[:-3]) >= max(scores[-3:])
    best = folder.best()
    assert best is not None and best["validation"] == max(scores)
    assert best["step"] in folder.checkpoint_steps()
    chary.open_run(tmp_path / "run", which="best")
    assert loop.is_over(
        len(scores) * 10, folder, RunConfig(steps=5_000, validation=0.3, patience=3)
    )
    before = lines(tmp_path / "run", "metrics")
    chary.resume(tmp_path / "run", dataset=dataset)  # it stays ended
    assert lines(tmp_path / "run", "metrics") == before


def test_values_that_are_no_numbers_stop_the_run_and_are_named(
    dataset: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(CharyError, match=r"diverged: critic/\w+ (is not a number|has grown)"):
        chary.train(
            "msg", dataset, run=tmp_path / "run", steps=400, critic_learning_rate=1e9, **MSG_QUICK
        )
    for log in ("metrics", "evals"):
        for record in RunFolder.open(tmp_path / "run").read(log):
            json.dumps(record, allow_nan=False)


def test_a_run_that_is_all_warm_up_says_so(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="steps are warm-up"):
        chary.train(
            "msg", dataset, run=tmp_path / "run", steps=2, **{**MSG_QUICK, "warmup_steps": 5}
        )


def test_a_signal_asks_once_and_a_second_interrupt_insists() -> None:
    before = signal.getsignal(signal.SIGINT)
    with loop.stop_requests() as asked:
        assert not asked()
        signal.raise_signal(signal.SIGTERM)
        assert asked()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_closed_terminal_saves_as_an_interrupt_does() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with loop.stop_requests() as asked:
            signal.raise_signal(signal.SIGHUP)
            assert asked()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup has it
        with loop.stop_requests() as asked:
            signal.raise_signal(signal.SIGHUP)
            assert not asked()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_boundaries_fall_on_log_lines_evaluations_and_the_end() -> None:
    run = RunConfig(dataset="x", steps=25, log_every=10, eval_every=4)
    steps, step = [], 0
    while step < 25:
        step = loop._next_boundary(step, run)
        steps.append(step)
    assert steps == [4, 8, 10, 12, 16, 20, 24, 25]


def test_tensorboard_files_hold_the_same_numbers(dataset: Dataset, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    chary.train("bc", dataset, run=tmp_path / "run", steps=20, **QUICK)
    chary.resume(tmp_path / "run", dataset=dataset, track=["tensorboard"])
    chary.resume(tmp_path / "run", dataset=dataset, steps=30)  # makes the file anew, not twice
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    found = [(e.step, e.value) for e in events.Scalars("policy/log_likelihood")]
    logged = RunFolder.open(tmp_path / "run").read("metrics")
    assert [step for step, _ in found] == [record["step"] for record in logged]
    np.testing.assert_allclose(
        [value for _, value in found], [r["policy/log_likelihood"] for r in logged], rtol=1e-6
    )


def test_trackers_were_once_tensorboard_or_none() -> None:
    old = {"dataset": "x", "steps": 5}
    assert from_json(RunConfig, {**old, "tensorboard": True}).track == ("tensorboard",)
    assert from_json(RunConfig, {**old, "tensorboard": False}).track == ()
    assert from_json(RunConfig, {**old, "track": ["wandb", "mlflow"]}).track == ("wandb", "mlflow")
    for wrong in (["paper"], ["wandb", "wandb"], "wandb"):
        with pytest.raises(CharyError, match="--track"):
            from_json(RunConfig, {**old, "track": wrong})


def test_clock_times_are_only_in_the_timing_log(dataset: Dataset, tmp_path: Path) -> None:
    chary.train("bc", dataset, run=tmp_path / "run", steps=10, **QUICK)
    assert abs(RunFolder.open(tmp_path / "run").read("timing")[-1]["time"] - time.time()) < 600
    assert "time" not in lines(tmp_path / "run", "metrics")


def test_the_initial_state_depends_on_the_seed_alone() -> None:
    from chary.algos.bc import BCConfig, make_bc

    algorithm = make_bc(BCConfig(hidden=(4,)), 3, 2)
    a, b = (initial_carry(algorithm, 8, 3, 2, seed=seed) for seed in (0, 0))
    assert bits(a) == bits(b)
    assert not any(np.asarray(v).any() for v in a.sums.values())


def test_critics_are_asked_without_a_simulator(dataset: Dataset, tmp_path: Path) -> None:
    settings = {**MSG_QUICK, "eval_every": 20, "steps": 30}
    chary.train("msg", dataset, run=tmp_path / "run", **settings)
    files = RunFolder.open(tmp_path / "run").diagnostics()
    assert [int(path.stem) for path in files] == [20, 30]
    kinds = {f"values_{kind}" for kind in ("data", "policy", "perturbed", "random", "off")}
    with (
        np.load(files[0], allow_pickle=False) as early,
        np.load(files[1], allow_pickle=False) as end,
    ):
        assert kinds <= set(early) and "column_std" not in early and "returns" not in early
        assert end["values_off"].shape == (2, 256)
        columns = dataset.observation_size
        assert end["column_std"].shape == end["column_values"].shape == (columns, 41)
        # Beyond the data on both sides, and every sampled row is counted somewhere.
        low, high = dataset.observations.min(axis=0), dataset.observations.max(axis=0)
        assert (end["column_values"][:, 0] < low).all() and (
            end["column_values"][:, -1] > high
        ).all()
        assert len(set(end["column_counts"].sum(axis=1))) == 1
    assert not (tmp_path / "run" / "evals.jsonl").exists()
