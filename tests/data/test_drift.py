"""New logs compared with training data: what is called the same, what is named, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_2samp

from chary.data import drift
from chary.data.dataset import Dataset
from chary.data.drift import columns, groups, sample, states
from chary.data.neighbours import distances, nearest
from chary.data.scaling import centre_and_scale
from chary.errors import CharyError

NAMES = ("indoor", "outdoor", "flow")


def make_log(
    seed: int,
    episodes: int = 30,
    length: int = 40,
    *,
    shift: tuple[float, float, float] = (0.0, 0.0, 0.0),
    season: float = 0.0,
    first: int = 0,
    odd: int = 0,
) -> Dataset:
    """Episodes that each have a level of their own, around which they wander slowly.

    `season` moves the level from episode to episode, from the `first` one on; `odd` episodes are
    somewhere else altogether.
    """
    rng = np.random.default_rng(seed)
    level = rng.standard_normal((episodes, 1, 3))
    level += season * np.sin(2 * np.pi * (first + np.arange(episodes)) / 20)[:, None, None]
    wander = np.cumsum(rng.standard_normal((episodes, length, 3)), axis=1) / np.sqrt(length)
    observations = level + 0.5 * wander + np.asarray(shift)
    observations[:odd] += 30.0
    actions = np.tanh(observations[..., :1] + 0.5 * rng.standard_normal((episodes, length, 1)))
    flat = observations.reshape(-1, 3).astype(np.float32)
    arrays = {
        "observations": flat,
        "actions": actions.reshape(-1, 1),
        "rewards": -np.abs(flat[:, 2]),
        "next_observations": flat,
        "terminals": np.zeros(len(flat), bool),
        "timeouts": np.arange(len(flat)) % length == length - 1,
    }
    return Dataset.from_columns(
        arrays, name=f"log-{seed}", observation_names=NAMES, action_names=("power",)
    )


def test_no_alarm_where_nothing_changed() -> None:
    outcomes = [
        drift.compare(make_log(seed), make_log(1_000 + seed, episodes=10)).outcome
        for seed in range(20)
    ]
    assert outcomes.count("same") >= 18
    assert "retrain" not in outcomes


def test_rows_would_have_cried_wolf() -> None:
    """The same data by a test that takes rows for independent: it is sure of a difference."""
    training, new = make_log(0), make_log(1_000, episodes=10)
    by_rows: list[Any] = [
        ks_2samp(training.observations[:, i], new.observations[:, i]) for i in range(3)
    ]
    assert min(test.pvalue for test in by_rows) < 1e-6
    assert drift.compare(training, new).outcome == "same"


def test_the_result_is_the_same_again() -> None:
    first, again = (drift.compare(make_log(0), make_log(1, episodes=8)) for _ in range(2))
    assert first == again


def test_the_training_data_itself_looks_the_same() -> None:
    found = drift.compare(make_log(0), make_log(0))
    assert found.outcome == "same" and found.sentence.endswith("looks like the training data.")
    assert found.states.outside == 0.0 and found.states.visited == 1.0
    assert all(column.distance == 0.0 for column in found.columns)


def test_a_shifted_column_is_named_and_no_other() -> None:
    training, new = make_log(0, 60), make_log(1, 30, shift=(0.0, 1.5, 0.0))
    found = drift.compare(training, new)
    moved = [column for column in found.columns if column.moved]
    assert [column.name for column in moved] == ["outdoor"]
    assert found.outcome == "watch"
    assert found.sentence.startswith("The new data differs from the training data in outdoor")
    assert found.sentence.endswith("watch it.")
    centre, scale = (each[1] for each in centre_and_scale(training.observations))
    assert moved[0].shift == pytest.approx((np.median(new.observations[:, 1]) - centre) / scale)
    assert found.reasons[0].startswith("outdoor (median +")


def test_a_new_region_is_a_reason_to_retrain() -> None:
    found = drift.compare(make_log(0), make_log(1, 10, shift=(0.0, 6.0, 0.0)))
    assert found.outcome == "retrain"
    assert found.sentence.endswith("lie outside the training data: retrain with the new logs.")
    assert found.states.outside > 0.8 and found.states.outside_low > 0.5
    assert found.states.visited < 0.1 < found.states.visited_usual
    outdoor = next(column for column in found.columns if column.name == "outdoor")
    assert outdoor.moved and outdoor.outside > 0.5 and outdoor.training_outside < 0.02


def test_one_odd_episode_is_no_reason_to_retrain() -> None:
    found = drift.compare(make_log(0), make_log(1, 10, odd=1))
    assert found.states.outside >= 0.1 > 0.0 == found.states.outside_low
    assert found.outcome != "retrain"


def test_a_new_week_of_a_season_that_is_in_the_data_is_no_news() -> None:
    training = make_log(0, 80, season=3.0)
    found = drift.compare(training, make_log(1, 5, season=3.0, first=3))
    assert found.columns[0].distance > 0.4
    assert found.outcome == "same"
    # The same week is news to data in which nothing of the kind happened.
    assert drift.compare(make_log(0, 80), make_log(1, 5, season=3.0, first=3)).outcome != "same"


def test_a_column_that_was_constant_is_named_when_it_changes() -> None:
    training, new = make_log(0), make_log(1, 10)
    still, moving = (log.observations.copy() for log in (training, new))
    still[:, 2] = 0.1
    moving[:, 2] = 0.3
    training, new = replace(training, observations=still), replace(new, observations=moving)
    flow = drift.compare(training, new).columns[2]
    assert flow.moved and flow.shift is None and flow.outside == 1.0
    new = replace(new, observations=np.where(np.arange(3) == 2, np.float32(0.1), moving))
    flow = drift.compare(training, new).columns[2]
    assert not flow.moved and flow.distance == 0.0 and flow.outside == 0.0


def test_rewards_and_returns_are_compared() -> None:
    training, new = make_log(0), make_log(1, 10)
    worse = replace(new, rewards=new.rewards - 5.0)
    found = drift.compare(training, worse)
    assert {c.name for c in found.columns if c.moved} >= {"reward per step", "return per episode"}
    assert found.new["reward_mean"] == pytest.approx(float(worse.rewards.mean()), rel=1e-5)
    assert found.new["return_mean"] == pytest.approx(worse.episode_returns.mean(), rel=1e-5)


def test_logs_that_visit_less_are_mentioned() -> None:
    training = make_log(0, 60)
    still = make_log(1, 20)
    still = replace(still, observations=0.05 * still.observations)
    found = drift.compare(training, still)
    assert found.outcome == "watch" and found.states.outside == 0.0
    assert found.states.visited < found.states.visited_least - drift.LESS_VISITED
    assert found.reasons[-1].startswith("it visits")


def test_distances_are_those_of_kolmogorov_and_smirnov() -> None:
    training, new = make_log(0), make_log(1, 10, shift=(0.3, 0.0, 0.0))
    found = drift.compare(training, new)
    for i, column in enumerate(found.columns[:3]):
        exact: Any = ks_2samp(training.observations[:, i], new.observations[:, i])
        assert column.distance == pytest.approx(exact.statistic, abs=1.0 / columns.GRID)
        known = np.quantile(training.observations[:, i], (0.01, 0.5, 0.99))
        assert column.training_quantiles == pytest.approx(known)


def test_half_a_percent_of_training_states_is_outside_by_definition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[np.ndarray] = []

    def watched(known: np.ndarray, points: np.ndarray, count: int) -> np.ndarray:
        asked.append(distances(known, points, count))
        return asked[-1]

    monkeypatch.setattr(states, "distances", watched)
    training = sample.Sample.of(make_log(0, 50))
    found = states.compare_states(training, sample.Sample.of(make_log(1, 10)))
    held_out = np.concatenate(asked[: states.BLOCKS])
    assert len(held_out) == 2_000
    assert (held_out > found.limit).mean() == pytest.approx(states.EXPECTED)


def test_many_rows_and_episodes_are_thinned_out_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "EPISODES", 20)
    monkeypatch.setattr(sample, "ROWS", 200)
    thin = sample.Sample.of(make_log(0, 60, 40))
    assert thin.episodes == 20 and len(thin.rows) == 200
    assert np.bincount(thin.episode).tolist() == [10] * 20
    assert (np.diff(thin.rows) > 0).all()
    assert (thin.rows // 40 == thin.starts[thin.episode] // 40).all()
    assert len(np.unique(thin.rows % 40)) > 30  # not the same moments of all episodes
    assert drift.compare(make_log(0, 60), make_log(1, 30)).outcome == "same"


def test_stretches_are_successive_and_deals_are_as_large_as_the_new_data() -> None:
    found = groups.stretches(10, 3)
    assert found.shape == (8, 10) and (found.sum(axis=1) == 3).all()
    assert found[2].tolist() == [0, 0, 1, 1, 1, 0, 0, 0, 0, 0]
    assert (groups.stretches(10, 30).sum(axis=1) == 5).all()
    dealt = groups.deals(10, 3)
    assert dealt.shape == (groups.DEALS, 13) and (dealt.sum(axis=1) == 3).all()
    assert 0.1 < dealt[:, 0].mean() < 0.4


def test_neighbours_are_the_nearest() -> None:
    rng = np.random.default_rng(0)
    known, asked = rng.standard_normal((500, 3)), rng.standard_normal((300, 3))
    apart = np.linalg.norm(known - asked[:, None], axis=-1)
    expected = np.sort(apart, axis=1)[:, :4]
    near = nearest(known, asked, 4)
    np.testing.assert_allclose(np.sort(np.take_along_axis(apart, near, 1), axis=1), expected)
    np.testing.assert_allclose(distances(known, asked, 4), expected.mean(axis=1))
    assert nearest(known[:2], asked, 4).shape == (300, 2)


def without_last_column(log: Dataset) -> Dataset:
    return replace(log, observations=log.observations[:, :2], observation_names=NAMES[:2])


@pytest.mark.parametrize(
    ("training", "new", "message"),
    [
        (
            {},
            {"change": without_last_column},
            r"has 2 observation column.* has 3 \(indoor, outdoor",
        ),
        ({}, {"names": ("indoor", "outside", "flow")}, "outside instead of outdoor"),
        ({}, {"names": ("flow", "indoor", "outdoor")}, "another order.*--observations indoor"),
        ({"episodes": 9}, {}, "the training data has 9 episode.*at least 10"),
        ({}, {"episodes": 2}, "the new data has 2 episode.*at least 3"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    training: dict[str, Any], new: dict[str, Any], message: str
) -> None:
    log = make_log(1, new.get("episodes", 10))
    log = replace(log, observation_names=new.get("names", NAMES))
    log = new.get("change", lambda same: same)(log)
    with pytest.raises(CharyError, match=message):
        drift.compare(make_log(0, **training), log)


def test_names_may_be_missing_on_one_side() -> None:
    unnamed = replace(make_log(1, 10), observation_names=(), action_names=())
    assert drift.compare(make_log(0), unnamed).columns[1].name == "outdoor"
    assert drift.compare(replace(make_log(0), observation_names=()), unnamed).columns[1].name == (
        "observation 1"
    )
