"""Verdicts on ensembles that were made to deserve them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chary.report.health import Sweep, effective_members, examine, return_bounds
from chary.report.story import RunStory, read_run
from chary.report.verdicts import Verdict, judge
from tests.synthetic import Ensemble, healthy, synthetic_run

Numbers = np.ndarray


def collapsed(rng: np.random.Generator, truth: Numbers, doubt: float, progress: float) -> Numbers:
    return np.repeat(healthy(rng, truth, doubt, progress)[:1], 8, axis=0)


def diverging(rng: np.random.Generator, truth: Numbers, doubt: float, progress: float) -> Numbers:
    return healthy(rng, truth, doubt, progress) * 10.0 ** (2.0 * progress)


def over_pessimistic(
    rng: np.random.Generator, truth: Numbers, doubt: float, progress: float
) -> Numbers:
    return healthy(rng, truth, 30.0 * doubt, progress)


def sinking(rng: np.random.Generator, truth: Numbers, doubt: float, progress: float) -> Numbers:
    return healthy(rng, truth, doubt, progress) - 500.0 * progress


def promising(rng: np.random.Generator, truth: Numbers, doubt: float, progress: float) -> Numbers:
    return healthy(rng, truth, doubt, progress) + 40.0


def judged(path: Path, ensemble: Ensemble | None, **options: Any) -> tuple[RunStory, list[Verdict]]:
    synthetic_run(path, lines=5, evaluations=3, ensemble=ensemble, maze=False, **options)
    story = read_run(path)
    return story, judge(story, examine(story))


@pytest.mark.parametrize(
    ("ensemble", "level", "rule"),
    [
        (healthy, "good", "aware"),
        (collapsed, "bad", "collapsed"),
        (diverging, "bad", "above"),
        (over_pessimistic, "warning", "pessimistic"),
        (sinking, "bad", "below"),
        (promising, "warning", "optimistic"),
    ],
)
def test_the_gravest_verdict_is_the_right_one(
    tmp_path: Path, ensemble: Ensemble, level: str, rule: str
) -> None:
    _, verdicts = judged(tmp_path, ensemble)
    assert (verdicts[0].level, verdicts[0].rule) == (level, rule), verdicts


def test_the_healthy_run_is_told_so_in_words(tmp_path: Path) -> None:
    _, verdicts = judged(tmp_path, healthy)
    assert {v.rule for v in verdicts} == {"aware", "held"}
    assert {v.level for v in verdicts} == {"good"}
    assert "100% of episodes" in next(v.title for v in verdicts if v.rule == "held")


def test_verdicts_say_what_to_do(tmp_path: Path) -> None:
    _, verdicts = judged(tmp_path / "a", collapsed)
    assert verdicts[0].title == "Members agree on everything: pessimism is idle"
    _, verdicts = judged(tmp_path / "b", diverging)
    assert verdicts[0].title == "Q exceeds the largest possible return"
    assert verdicts[0].advice == "Raise alpha or lower beta."
    _, verdicts = judged(tmp_path / "c", over_pessimistic)
    assert "Raise beta towards 0" in verdicts[0].advice


def test_without_critics_there_is_nothing_to_judge(tmp_path: Path) -> None:
    story, verdicts = judged(tmp_path / "a", None, algorithm="bc")
    assert examine(story) is None
    assert [v.rule for v in verdicts] == ["nothing"] and "no critics" in verdicts[0].text
    synthetic_run(tmp_path / "b", lines=2, evaluations=0)
    story = read_run(tmp_path / "b")
    assert "not yet in this run" in judge(story, examine(story))[0].text


def test_critics_whose_words_are_torn_are_not_said_to_be_missing(tmp_path: Path) -> None:
    folder = synthetic_run(tmp_path, lines=2, evaluations=2)
    for path in folder.diagnostics():
        path.write_bytes(b"PK torn")
    story = read_run(tmp_path)
    (verdict,) = judge(story, examine(story))
    assert verdict.rule == "nothing" and "cannot be read" in verdict.text
    assert len(story.warnings) == 2


def test_a_diverged_run_says_why(tmp_path: Path) -> None:
    folder = synthetic_run(tmp_path, lines=2, evaluations=1)
    folder.mark_diverged(200, "critic/q is not a number before step 200.")
    story = read_run(tmp_path)
    assert "not a number" in judge(story, examine(story))[0].text


def test_single_critics_are_judged_by_calibration_alone(tmp_path: Path) -> None:
    _, verdicts = judged(tmp_path, lambda *arguments: promising(*arguments)[:1])
    assert {v.rule for v in verdicts} == {"single", "optimistic"}


def test_members_that_died_or_diverged_are_named(tmp_path: Path) -> None:
    def broken(rng: np.random.Generator, truth: Numbers, doubt: float, progress: float) -> Numbers:
        values = healthy(rng, truth, doubt, progress)
        values[2], values[5], values[6] = 7.0, np.nan, 1e4
        return values

    story, verdicts = judged(tmp_path, broken)
    health = examine(story)
    assert health and health.last.dead == (2,) and health.last.wild == (5, 6)
    assert verdicts[0].title == "Members 6, 7 of 8 diverged"
    assert "Member 3 of 8 died" in [v.title for v in verdicts]


def test_offsets_between_members_do_not_hide_what_they_doubt(tmp_path: Path) -> None:
    """Members that differ by 100 everywhere: the raw spread is the same at all actions."""

    def apart(rng: np.random.Generator, truth: Numbers, doubt: float, progress: float) -> Numbers:
        return healthy(rng, truth, doubt, progress) + 100.0 * np.arange(8)[:, None]

    story, verdicts = judged(tmp_path, apart)
    found = examine(story)
    assert found
    last = found.last
    assert last.std["random"] / last.std["data"] < 1.05
    assert last.relative["random"] / last.relative["data"] > 3.0
    assert last.told_apart["random"] > 0.99 > last.told_apart["perturbed"] > 0.6
    assert "aware" in {verdict.rule for verdict in verdicts}


def test_members_that_see_no_difference_between_actions_are_told_so(tmp_path: Path) -> None:
    def alike(rng: np.random.Generator, truth: Numbers, doubt: float, progress: float) -> Numbers:
        del doubt
        return healthy(rng, truth, 1.0, progress)

    def inverted(
        rng: np.random.Generator, truth: Numbers, doubt: float, progress: float
    ) -> Numbers:
        return healthy(rng, truth, 1.0 / doubt, progress)

    def now_and_then(
        rng: np.random.Generator, truth: Numbers, doubt: float, progress: float
    ) -> Numbers:
        """Much larger doubts of random actions, but in every third state only."""
        everywhere = healthy(rng, truth, 1.0, progress)
        thirds = np.arange(len(truth)) % 3 == 0
        return np.where(thirds, healthy(rng, truth, doubt**2, progress), everywhere)

    assert "even" in {verdict.rule for verdict in judged(tmp_path / "a", alike)[1]}
    assert "overlapping" in {v.rule for v in judged(tmp_path / "c", now_and_then)[1]}
    assert "blind" in {verdict.rule for verdict in judged(tmp_path / "b", inverted)[1]}


def test_a_run_without_a_simulator_is_judged_by_its_disagreement(tmp_path: Path) -> None:
    folder = synthetic_run(tmp_path, lines=2, evaluations=0)
    rng = np.random.default_rng(0)
    values = {
        f"values_{kind}": healthy(rng, np.linspace(20, 80, 256), doubt, 1.0)
        for kind, doubt in (("data", 1.0), ("policy", 1.0), ("random", 8.0))
    }
    folder.save_diagnostics(200, values)
    story = read_run(tmp_path)
    found = examine(story)
    assert found and found.last.calibration is None and found.sweep is None
    assert [verdict.rule for verdict in judge(story, found)] == ["aware"]


def test_a_policy_that_leaves_the_logged_actions_is_named(tmp_path: Path) -> None:
    folder = synthetic_run(tmp_path, lines=2, evaluations=1)
    (path,) = folder.diagnostics()
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    arrays["policy_actions"][:128, 1] = 0.9  # in half of the states, where no action was logged
    folder.save_diagnostics(int(path.stem), arrays)
    story = read_run(tmp_path)
    found = examine(story)
    assert found and found.actions
    assert found.actions.outside() == pytest.approx([0.0, 0.5], abs=0.02)
    (verdict,) = (v for v in judge(story, found) if v.rule == "leaves")
    assert "50%" in verdict.text and "action 1" in verdict.text and "--cloning" in verdict.advice


def test_doubt_along_a_column_is_compared_with_where_the_data_lies() -> None:
    line = np.linspace(-2.0, 2.0, 41)
    std = np.stack([1.0 + np.abs(line), np.where(line < 0, 5.0, 1.0)])
    counts = np.stack([(np.abs(line) < 0.01).astype(int), (line > 1.0).astype(int)])
    growth = Sweep(np.stack([line, line]), std, counts).growth()
    # The first rises from 1 to 3 on both sides; the second stays at 1 on the right.
    assert growth == pytest.approx([3.0, 1.0])


def test_effective_members_count_what_is_independent() -> None:
    rng = np.random.default_rng(0)
    truth = rng.uniform(0, 100, 512)
    own = rng.standard_normal((16, 512))
    assert effective_members(truth + own) == pytest.approx(16, abs=0.5)
    assert effective_members(truth + np.repeat(own[:1], 16, axis=0)) == 1.0
    # Four groups of four that think alike.
    assert effective_members(truth + np.repeat(own[:4], 4, axis=0)) == pytest.approx(4, abs=0.3)
    # An error that all have in common does not make them more or fewer.
    assert effective_members(truth + 50 * own[:1] + own) == pytest.approx(16, abs=0.5)
    assert np.isnan(effective_members(np.full((2, 8), np.nan)))


def test_the_largest_return_is_for_ever_or_at_once(tmp_path: Path) -> None:
    folder = synthetic_run(tmp_path, lines=1, evaluations=1)
    assert return_bounds(read_run(tmp_path)) == pytest.approx((0.0, 100.0))
    # Antmaze: a step costs 2, the goal pays 2 and ends it.
    config = {**folder.config, "scaling": {"reward": {"scale": 4.0, "shift": -0.5}}}
    folder.write_config(config)
    rewards = {"going_on": [0.0, 0.0], "ending": [1.0, 1.0]}
    folder.write_data({**folder.data(), "rewards": rewards})
    assert return_bounds(read_run(tmp_path)) == pytest.approx((-200.0, 2.0))
    folder.write_config({**config, "settings": {"discount": 1.0}})
    assert return_bounds(read_run(tmp_path)) is None
