from pathlib import Path

import jax
import numpy as np
import pytest

from chary import algos
from chary.algos.bc import BCConfig
from chary.algos.msg_config import MSGConfig
from chary.data.dataset import Dataset
from chary.data.scaling import RewardTransform, Scaling
from chary.errors import CharyError
from chary.evaluation.agent import Agent
from chary.evaluation.limits import Limits, limits_of
from tests.conftest import make_columns


def walks(episodes: int = 40, seed: int = 0, offset: float = 0.0) -> Dataset:
    """Random walks: states of an episode are alike, as in real logs."""
    columns = make_columns(episodes, 30, seed)
    rng = np.random.default_rng(seed)
    steps = rng.standard_normal((episodes, 30, 3)) * 0.1
    states = rng.standard_normal((episodes, 1, 3)) + steps.cumsum(axis=1) + offset
    columns["observations"] = states.reshape(-1, 3).astype(np.float32)
    return Dataset.from_columns(columns, name="walks")


def untrained(dataset: Dataset, *, critics: bool = True) -> Agent:
    config = MSGConfig(hidden=(8, 8), members=3) if critics else BCConfig(hidden=(8, 8))
    made = algos.build("msg" if critics else "bc", config, 3, 2)
    scaling = Scaling.of(dataset, RewardTransform(), normalise_observations="moments")
    return Agent(
        made, made.init(jax.random.key(0)), scaling, None, seed=0, folder=Path("runs/none")
    )


@pytest.mark.parametrize("rate", [0.005, 0.02, 0.2])
def test_the_share_of_flags_on_rows_put_aside_is_the_one_asked_for(rate: float) -> None:
    rng = np.random.default_rng(1)
    spreads, distances = np.abs(rng.standard_normal((2, 4000)))
    one = np.ones(3, np.float32)
    limits = Limits(np.zeros((4, 3), np.float32), 0 * one, one, spreads, distances, True, 0)
    spread, distance = limits.thresholds(rate)
    flagged = (spreads > spread) | (distances > distance)
    assert flagged.mean() == pytest.approx(rate, abs=0.0006)
    # Each measure has its part in it.
    assert min((spreads > spread).mean(), (distances > distance).mean()) > 0.3 * rate


def test_new_episodes_like_the_logged_are_flagged_at_that_rate() -> None:
    learned, held_out, new = walks(200, 0), walks(80, 1), walks(80, 2)
    agent = untrained(learned)
    agent.set_limits(learned, held_out)
    decision = agent.decide(new.observations, new.actions, flag_rate=0.05)
    assert 0.02 < decision.outside_data.mean() < 0.09
    far = agent.decide(new.observations + 8.0)
    assert far.outside_data.all() and all("far from" in reason for reason in far.reason)


def test_distances_are_those_of_a_search_one_by_one() -> None:
    dataset = walks()
    limits = limits_of(untrained(dataset, critics=False), dataset, None, step=7)
    assert limits.step == 7 and not limits.held_out and len(limits.spreads) == 0
    assert len(limits.states) + len(limits.distances) == dataset.size  # no row is in both
    rows = walks(2, 9).observations
    scaled = (rows - limits.centre) / limits.scale
    each = np.sort(np.linalg.norm(scaled[:, None] - limits.states, axis=2), axis=1)[:, :4].mean(
        axis=1
    )
    np.testing.assert_allclose(limits.distance(rows), each, rtol=1e-5)
    again = Limits.of_arrays(limits.arrays())
    assert again.thresholds() == limits.thresholds() and again.step == 7


def test_a_decision_is_what_act_and_uncertainty_say() -> None:
    dataset = walks()
    agent = untrained(dataset)
    agent.set_limits(dataset)
    rows = dataset.observations[:5]
    decision, believed = agent.decide(rows), agent.uncertainty(rows, agent.act(rows))
    np.testing.assert_array_equal(decision.action, agent.act(rows))
    np.testing.assert_array_equal(decision.std, believed.std)
    np.testing.assert_array_equal(decision.lcb, believed.lcb)
    theirs = agent.decide(rows, dataset.actions[:5])
    np.testing.assert_array_equal(theirs.mean, agent.uncertainty(rows, dataset.actions[:5]).mean)
    np.testing.assert_array_equal(theirs.action, decision.action)  # still the policy's
    single = agent.decide(rows[0])
    assert single.action.shape == (1, 2) and single.outside_data.shape == (1,)


def test_what_is_no_number_is_refused_or_flagged() -> None:
    dataset = walks()
    agent = untrained(dataset)
    with pytest.raises(CharyError, match="does not say where its data ends"):
        agent.decide(dataset.observations)
    agent.set_limits(dataset)
    rows = dataset.observations[:3].copy()
    rows[1, 2] = np.nan
    with pytest.raises(CharyError, match="row 1"):
        agent.decide(rows)
    decision = agent.decide(rows, invalid="outside")
    assert decision.outside_data[1] and "finite" in decision.reason[1]
    assert np.isnan(decision.action[1]).all() and np.isfinite(decision.action[[0, 2]]).all()
    wrong = agent.decide(dataset.observations[:2], np.array([[0, 0], [0, 9]]), invalid="outside")
    assert "out of bounds" in wrong.reason[1]
    for rate in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(CharyError, match="flag rate"):
            agent.decide(rows[:1], flag_rate=rate)


def test_without_critics_the_distance_alone_decides() -> None:
    dataset = walks()
    agent = untrained(dataset, critics=False)
    agent.set_limits(dataset)
    decision = agent.decide(np.concatenate([dataset.observations[:4], np.full((1, 3), 50.0)]))
    assert np.isnan([decision.mean, decision.std, decision.lcb]).all()
    assert decision.outside_data[-1]


@pytest.mark.parametrize("broken", ["states", "distances", "centre"])
def test_a_file_of_something_else_is_no_limits(broken: str) -> None:
    dataset = walks()
    limits = limits_of(untrained(dataset, critics=False), dataset, None, step=0)
    arrays = limits.arrays()
    with pytest.raises((ValueError, KeyError)):
        Limits.of_arrays({**arrays, broken: np.zeros((2, 9, 1))})
    del arrays[broken]
    with pytest.raises((ValueError, KeyError)):
        Limits.of_arrays(arrays)


def test_one_long_episode_gives_its_last_part() -> None:
    dataset = walks(1)
    limits = limits_of(untrained(dataset, critics=False), dataset, None, step=0)
    assert len(limits.distances) == 6 and len(limits.states) == 24
