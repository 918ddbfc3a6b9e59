"""Choosing among policies: the bandit pull by pull, the expected maximum by counting, the page."""

import json
from itertools import combinations, product
from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chary.report import budget
from chary.report.budget import bandit_curve, expected_maximum, maximum_curve
from chary.report.page_data import page_data
from chary.report.story import read_runs
from chary.runs.folder import RunFolder
from tests.synthetic import synthetic_run


def policies(count: int, recorded: int = 30, seed: int = 1) -> list[np.ndarray]:
    """Episodes that succeed with a score of 100 or fail, of policies from bad to good."""
    rng = np.random.default_rng(seed)
    chances = np.linspace(0.1, 0.9, count)
    return [100.0 * (rng.random(recorded + i) < chance) for i, chance in enumerate(chances)]


def plain_bandit(episodes: list[np.ndarray], order: list[int], chances: list[float]) -> list[float]:
    """One trial, a policy and a pull at a time."""
    truth = [float(np.mean(scores)) for scores in episodes]
    seen: list[list[float]] = [[] for _ in episodes]
    found = [sum(truth) / len(truth)]
    for pull, chance in enumerate(chances, start=1):
        bounds = [
            (sum(own) / len(own) + sqrt(2.0 * log(pull) / len(own)), order[arm])
            if own
            else (float("inf"), -order.index(arm))
            for arm, own in enumerate(seen)
        ]
        arm = bounds.index(max(bounds))
        seen[arm].append(float(episodes[arm][int(chance * len(episodes[arm]))]))
        means = [sum(own) / len(own) if own else 0.0 for own in seen]
        found.append(truth[means.index(max(means))])
    return found


@pytest.mark.parametrize("size", [1.0, 0.01])
def test_trials_side_by_side_are_trials_one_by_one(size: float) -> None:
    """Small scores are explored by the bonus, large ones decide by themselves."""
    episodes = [size * scores for scores in policies(5)]
    rng = np.random.default_rng(0)
    drawn, order = (rng.random((40, 5)).argsort(axis=1)[:, :4] for _ in range(2))
    order = order.argsort(axis=1)
    chances = rng.random((60, 40))
    found = budget._bandit(episodes, drawn, order, chances)
    expected = [
        plain_bandit([episodes[run] for run in drawn[i]], order[i].tolist(), chances[:, i].tolist())
        for i in range(40)
    ]
    np.testing.assert_allclose(found.T, expected)


def test_one_policy_is_flat() -> None:
    (scores,) = policies(1)
    found = bandit_curve([scores])
    np.testing.assert_allclose(found.mean, scores.mean())
    assert np.isnan(found.low).all() and np.isnan(found.high).all()


def test_without_noise_the_best_is_known_when_each_was_tried() -> None:
    scores = [3.0, 50.0, 20.0, 90.0, 40.0]
    found = bandit_curve([np.full(7, score) for score in scores])
    np.testing.assert_allclose(found.mean[5:], 90.0)
    assert found.mean[4] < 90.0
    # Before, it is the best of those that were tried.
    np.testing.assert_allclose(found.mean[1:6], expected_maximum(np.array(scores)), atol=1.5)


def test_without_episodes_any_policy_may_be_the_one() -> None:
    episodes = policies(12)
    found = bandit_curve(episodes)
    assert found.mean[0] == pytest.approx(np.mean([scores.mean() for scores in episodes]))
    assert len(found.mean) == budget.PULLS + 1
    assert found.mean[0] < found.mean[10] < found.mean[-1] < max(s.mean() for s in episodes)


def test_curves_are_the_same_again_and_inside_their_intervals() -> None:
    episodes = policies(9)
    once, again = bandit_curve(episodes), bandit_curve(episodes)
    for a, b in zip(once, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (once.low <= once.mean).all() and (once.mean <= once.high).all()
    # Without episodes the interval is that of a mean of the policies.
    means = np.array([scores.mean() for scores in episodes])
    rows = np.random.default_rng(3).integers(9, size=(4_000, 9))
    low, high = np.quantile(means[rows].mean(axis=1), (0.025, 0.975))
    assert (once.low[0], once.high[0]) == pytest.approx((low, high), abs=5.0)


def test_few_policies_are_drawn_from_many() -> None:
    """The best of eight is not the best of all."""
    scores = np.linspace(0.0, 90.0, 30)
    found = bandit_curve([np.full(2, score) for score in scores])
    assert found.mean[-1] == pytest.approx(expected_maximum(scores)[7], abs=0.5)
    alone = bandit_curve([np.full(2, score) for score in scores], policies=1)
    assert alone.mean[-1] == pytest.approx(scores.mean(), abs=2.0)


@pytest.mark.parametrize("scores", [[4.0], [3.0, -1.0, 3.0, 10.0, 2.5], [0.0, 0.0, 1.0]])
def test_the_expected_maximum_is_what_counting_gives(scores: list[float]) -> None:
    sizes = range(1, len(scores) + 1)
    without = [np.mean([max(c) for c in combinations(scores, n)]) for n in sizes]
    np.testing.assert_allclose(expected_maximum(np.array(scores)), without)
    repeated = [np.mean([max(c) for c in product(scores, repeat=n)]) for n in sizes]
    np.testing.assert_allclose(expected_maximum(np.array(scores), replacement=True), repeated)


def test_the_expected_maximum_of_many_is_finite() -> None:
    found = expected_maximum(np.arange(2_000.0))
    assert (np.diff(found) > 0).all()
    assert found[0] == pytest.approx(999.5) and found[-1] == pytest.approx(1999.0)
    # The largest of n of the numbers 0 to N - 1 is n (N + 1) / (n + 1) - 1 on average.
    assert found[9] == pytest.approx(10 * 2001 / 11 - 1)


def test_the_interval_of_one_policy_is_that_of_the_mean() -> None:
    values = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
    found = maximum_curve(values)
    rows = np.random.default_rng(0).integers(5, size=(2_000, 5))
    low, high = np.quantile(values[rows].mean(axis=1), (0.025, 0.975))
    assert (found.low[0], found.high[0]) == pytest.approx((low, high))
    assert found.mean[-1] == found.high[-1] == 5.0 > found.low[-1]


def make_run(
    home: Path, name: str, returns: list[float], *, scale: float | None = 2.0, **more: Any
):
    """A run whose last evaluation has these returns and `scale` times as large scores."""
    folder = synthetic_run(home / name, lines=2, evaluations=2, maze=False, **more)
    mean = float(np.mean(returns)) if returns else 0.0
    score = None if scale is None else scale * mean + 1.0
    early = {"step": 100, "return": 0.0, "returns": [0.0], "score": None if scale is None else 1.0}
    last = {"step": 200, "return": mean, "returns": returns, "score": score}
    (folder.path / "evals.jsonl").write_text(f"{json.dumps(early)}\n{json.dumps(last)}\n")
    return folder


def pools_of(home: Path) -> dict[str, Any]:
    found = page_data(*read_runs([home]))["budget"]
    json.dumps(found, allow_nan=False)
    return {pool["method"]: pool for pool in found["pools"]} | {"left_out": found["left_out"]}


def test_the_page_has_curves_of_methods_and_of_algorithms(tmp_path: Path) -> None:
    for members in (2, 4):
        for seed in range(3):
            returns = [members + seed - 1.0, members + seed + 1.0]
            settings = {"members": members}
            make_run(tmp_path, f"{members}-{seed}", returns, seed=seed, settings=settings)
    make_run(tmp_path, "bc", [1.0], algorithm="bc", ensemble=None)
    found = pools_of(tmp_path)
    assert found.keys() == {"msg (members 2)", "msg (members 4)", "msg", "left_out"}
    assert [found[name]["views"] for name in list(found)[:3]] == [
        ["method"], ["method"], ["algorithm"],
    ]  # fmt: skip
    (sentence,) = found["left_out"]
    assert sentence.startswith("Left out on synthetic") and sentence.endswith("needs two: bc.")
    whole = found["msg"]
    assert (
        whole["policies"] == whole["bandit"]["policies"] == 6 and whole["bandit"]["recorded"] == 2
    )
    # Scores are twice the returns and one more.
    truth = 2.0 * np.array([2.0, 3.0, 4.0, 4.0, 5.0, 6.0]) + 1.0
    assert whole["bandit"]["mean"][0] == pytest.approx(truth.mean(), rel=1e-5)
    assert whole["maximum"]["mean"] == pytest.approx(expected_maximum(truth), rel=1e-5)
    paper = expected_maximum(truth, replacement=True)
    assert whole["maximum"]["with_replacement"] == pytest.approx(paper, rel=1e-5)
    assert whole["maximum"]["policies"] == [1, 2, 3, 4, 5, 6]
    curve = bandit_curve([np.array([t - 2.0, t + 2.0]) for t in truth])
    assert whole["bandit"]["mean"] == pytest.approx(curve.mean, rel=1e-5)
    assert whole["bandit"]["low"] == pytest.approx(curve.low, rel=1e-5)


def test_curves_of_returns_do_not_depend_on_their_unit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for seed in range(4):
        returns = rng.normal(seed, 2.0, 10)
        for unit, shift in ((1.0, 0.0), (1e4, -7e4)):
            values = (shift + unit * returns).tolist()
            name = f"{unit}-{seed}"
            make_run(tmp_path, name, values, scale=None, seed=seed, dataset=f"unit {unit}")
    found = page_data(*read_runs([tmp_path]))["budget"]["pools"]
    small, large = (np.array(pool["bandit"]["mean"]) for pool in found)
    assert [pool["measure"] for pool in found] == ["return", "return"]
    np.testing.assert_allclose(large, -7e4 + 1e4 * small, rtol=1e-4)
    assert small[-1] > small[0]


def test_a_run_that_diverged_is_the_worst_policy(tmp_path: Path) -> None:
    for seed in range(2):
        make_run(tmp_path, str(seed), [10.0, 20.0], seed=seed)
    make_run(tmp_path, "wild", [99.0], seed=2).mark_diverged(150, "it did")
    pool = pools_of(tmp_path)["msg"]
    assert pool["policies"] == 3
    assert pool["bandit"]["mean"][0] == pytest.approx((31.0 + 31.0 + 0.0) / 3, rel=1e-5)
    assert pool["bandit"]["mean"][-1] == 31.0


def test_runs_without_single_episodes_have_no_curve_over_them(tmp_path: Path) -> None:
    make_run(tmp_path, "0", [5.0, 6.0])
    make_run(tmp_path, "1", [], seed=1)
    found = pools_of(tmp_path)
    assert found["msg"]["bandit"] is None and len(found["msg"]["maximum"]["mean"]) == 2
    assert found["left_out"] == [
        "Without a curve over episodes, because fewer than two runs recorded single episodes: msg on "
        "synthetic."
    ]


def test_ways_to_act_are_not_mixed(tmp_path: Path) -> None:
    for seed, act in enumerate(("mode", "mode", "sample", "sample")):
        run = make_run(tmp_path, str(seed), [float(seed)], seed=seed, settings={"members": seed})
        run.write_config({**run.config, "run": {**run.config["run"], "act": act}})
    found = pools_of(tmp_path)
    assert found.keys() == {"msg (act mode)", "msg (act sample)", "left_out"}
    assert all(found[name]["policies"] == 2 for name in found if name != "left_out")


def test_nothing_evaluated_has_no_budget(tmp_path: Path) -> None:
    synthetic_run(tmp_path / "a", lines=2, evaluations=0)
    assert page_data(*read_runs([tmp_path]))["budget"] is None
    synthetic_run(tmp_path / "b", lines=2, evaluations=1, algorithm="iql")
    found = page_data(*read_runs([tmp_path]))["budget"]
    assert found["pools"] == [] and "iql" in found["left_out"][0]


def test_numbers_without_bounds_do_not_stop_the_page(tmp_path: Path) -> None:
    huge = [1e308, 1e308, -1e308]
    for seed in range(3):
        make_run(tmp_path, str(seed), [1.0], scale=None, seed=seed)
        line = {"step": 300, "return": 1.0, "returns": huge, "score": None}
        RunFolder.open(tmp_path / str(seed)).append("evals", line)
    assert pools_of(tmp_path)["msg"]["policies"] == 3


def test_many_methods_are_not_all_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MOST_METHODS", 1)
    for members in (2, 4):
        for seed in range(2):
            settings = {"members": members}
            make_run(tmp_path, f"{members}-{seed}", [members], seed=seed, settings=settings)
    found = pools_of(tmp_path)
    assert found.keys() == {"msg (members 4)", "msg", "left_out"}
    assert found["left_out"] == ["On synthetic, the best 1 methods of 2 are shown."]
