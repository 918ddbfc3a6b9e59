"""From evidence to a verdict."""

from typing import Any

import numpy as np
import pytest

from chary.tune.scores import Evidence
from chary.tune.verdict import Draws, judge

EPISODES, MEMBERS = 40, 8


def evidence(worth: list[float], share: list[float], **changes: Any) -> Evidence:
    """Of policies that are worth so much, and act outside the data in such a share of rows."""
    rng = np.random.default_rng(0)
    starts = rng.standard_normal(EPISODES)
    offsets = rng.standard_normal((MEMBERS, 1))
    data = starts + 5.0 * offsets  # members differ by an offset that no policy changes
    noise = 0.1 * rng.standard_normal((len(worth), MEMBERS, EPISODES))
    rows = np.full(EPISODES, 10.0)
    made = Evidence(
        values=data + np.array(worth)[:, None, None] + noise,
        data_values=data,
        returns=starts + data.mean(),
        action_errors=np.outer(share, rows),
        outside=np.outer(share, rows),
        rows=rows,
        td_errors=np.full(len(worth), np.nan),
        own_values=np.arange(float(len(worth))),
        reach=(-50.0, 50.0),
        steps=100,
    )
    return made._replace(**changes)


def test_a_clear_winner_is_called_better() -> None:
    verdict = judge(["a", "b", "c"], evidence([0.0, 3.0, 1.0], [0.2, 0.1, 0.3]))
    assert verdict.outcome == "better"
    assert verdict.shortlist == ("b",)
    assert verdict.rows[0].name == "b"
    assert "b is better than the others" in verdict.sentence
    best = verdict.rows[0]
    assert best.best > 0.95
    assert best.value_low is not None and best.value is not None and best.value_high is not None
    assert best.value_low < best.value < best.value_high
    assert best.outside == pytest.approx(0.1)
    assert best.td_error is None


def test_offsets_that_all_policies_share_do_not_widen_the_lower_bound() -> None:
    verdict = judge(["a", "b"], evidence([0.0, 3.0], [0.2, 0.1]))
    assert verdict.rows[0].bound == pytest.approx(3.0, abs=0.1)


def test_policies_of_equal_worth_cannot_be_told_apart() -> None:
    verdict = judge(["a", "b", "c"], evidence([1.0, 1.0, -4.0], [0.1, 0.1, 0.4]))
    assert verdict.outcome == "tied"
    assert set(verdict.shortlist) == {"a", "b"}
    assert verdict.sentence.startswith("These 2 cannot be told apart; try them: ")


def test_scores_that_contradict_each_other_give_no_winner() -> None:
    verdict = judge(["a", "b"], evidence([3.0, 0.0], [0.4, 0.1]))
    assert verdict.outcome == "tied"
    assert set(verdict.shortlist) == {"a", "b"}


def test_a_gap_within_the_known_error_of_values_is_none() -> None:
    clear = evidence([0.0, 1.0], [0.2, 0.1])
    assert judge(["a", "b"], clear).outcome == "better"
    assert clear.returns is not None
    scattered = 3.0 * (clear.returns - clear.returns.mean()) + clear.returns.mean()
    known = judge(["a", "b"], clear).calibration
    assert known is not None
    verdict = judge(["a", "b"], clear._replace(returns=scattered + 1.3))
    assert verdict.calibration == pytest.approx(1.3, abs=known + 0.01)
    assert verdict.outcome == "tied"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"returns": np.full(EPISODES, 30.0)}, "is wrong by"),
        ({"reach": (-0.1, 0.1)}, "diverged for 2 of 2"),
        ({"outside": np.full((2, EPISODES), 9.0)}, "outside the data in most states"),
    ],
)
def test_what_cannot_be_trusted_is_said(changes: dict[str, Any], reason: str) -> None:
    verdict = judge(["a", "b"], evidence([0.0, 3.0], [0.2, 0.1], **changes))
    assert verdict.outcome == "untrusted"
    assert reason in verdict.sentence


def test_too_few_episodes_say_nothing() -> None:
    whole = evidence([0.0, 3.0], [0.2, 0.1])
    assert whole.values is not None and whole.data_values is not None
    assert whole.returns is not None
    few = whole._replace(
        values=whole.values[:, :, :5],
        data_values=whole.data_values[:, :5],
        returns=whole.returns[:5],
        rows=whole.rows[:5],
        outside=whole.outside[:, :5],
        action_errors=whole.action_errors[:, :5],
    )
    assert "only 5 episodes were held out" in judge(["a", "b"], few).sentence


def test_without_values_ranks_come_from_the_actions_alone() -> None:
    none = evidence([0.0, 3.0], [0.1, 0.3], values=None, data_values=None, returns=None)
    verdict = judge(["a", "b"], none, remarks=["the runs have several discounts."])
    assert verdict.outcome == "untrusted"
    assert verdict.rows[0].name == "a"
    assert verdict.rows[0].value is None
    assert verdict.agreement is None


def test_places_are_mean_ranks() -> None:
    whole = Draws.of(evidence([0.0, 5.0, 10.0], [0.1, 0.2, 0.3]), draws=None)
    np.testing.assert_allclose(whole.places[0], [2.0, 2.0, 2.0])
    np.testing.assert_allclose(whole.outside[0], [0.1, 0.2, 0.3])
