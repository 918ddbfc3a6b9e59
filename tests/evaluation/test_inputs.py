"""What an agent is handed: numbers that mean nothing are refused, and never answered with certainty."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from chary.errors import CharyError
from chary.networks.targets import lower_confidence_bound, mean_and_std
from chary.report import statistics
from tests.evaluation.test_acting import make_agent

ROWS = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], np.float32)
ACTIONS = np.array([[0.1, -0.2], [0.3, 0.4]], np.float32)
BROKEN = [np.nan, np.inf, -np.inf, 1e300]


def critics() -> Any:
    return make_agent("msg", members=3)


def changed(array: np.ndarray, row: int, column: int, value: float) -> np.ndarray:
    array = array.astype(np.float64)
    array[row, column] = value
    return array


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_the_spread_of_what_is_no_number_is_no_number(value: float) -> None:
    values = jnp.array([[1.0, value], [3.0, 2.0]])
    mean, std = mean_and_std(values)
    assert mean[0] == 2.0 and std[0] == 1.0
    assert np.isnan(std[1])
    assert np.isnan(lower_confidence_bound(values, 0.0)[1])


@pytest.mark.parametrize("value", BROKEN)
def test_observations_that_are_no_numbers_are_refused(value: float) -> None:
    agent = critics()
    wrong = changed(ROWS, 1, 2, value)
    with pytest.raises(CharyError, match=r"observations: row 1, column 2 is "):
        agent.act(wrong)
    with pytest.raises(CharyError, match=r"observations: row 1, column 2 is "):
        agent.uncertainty(wrong, ACTIONS)
    with pytest.raises(CharyError, match=r"actions: row 0, column 1 is "):
        agent.uncertainty(ROWS, changed(ACTIONS, 0, 1, value))


@pytest.mark.parametrize("value", BROKEN)
def test_where_asked_they_are_outside(value: float) -> None:
    agent = critics()
    says = agent.uncertainty(changed(ROWS, 1, 2, value), ACTIONS, invalid="outside")
    right = agent.uncertainty(ROWS, ACTIONS)
    assert says.std[1] == np.inf and says.lcb[1] == -np.inf
    assert np.isnan(says.mean[1]) and np.isnan(says.members[:, 1]).all()
    assert says.std[0] == right.std[0] and says.lcb[0] == right.lcb[0]
    actions = agent.act(changed(ROWS, 1, 2, value), invalid="outside")
    assert np.isnan(actions[1]).all() and (actions[0] == agent.act(ROWS)[0]).all()
    # A guard on the spread then stops the action that came of it, too.
    assert not (agent.uncertainty(ROWS, actions, invalid="outside").std < 1e6)[1]


def test_values_that_overflow_are_no_certainty() -> None:
    says = critics().uncertainty(np.full((1, 3), 3e38), ACTIONS[:1])
    assert says.std[0] == np.inf and says.lcb[0] == -np.inf


def test_actions_outside_their_bounds_are_refused() -> None:
    agent = critics()
    with pytest.raises(CharyError, match=r"actions: row 1, column 0 is 4000, .*\[-1, 1\]"):
        agent.uncertainty(ROWS, changed(ACTIONS, 1, 0, 4000.0))
    says = agent.uncertainty(ROWS, changed(ACTIONS, 1, 0, 4000.0), invalid="outside")
    assert np.isfinite(says.std[0]) and says.std[1] == np.inf
    # The bounds themselves, and what rounding makes of them, are inside.
    assert np.isfinite(agent.uncertainty(ROWS, changed(ACTIONS, 1, 0, 1.000001)).std).all()


@pytest.mark.parametrize(
    ("observations", "actions", "message"),
    [
        (ROWS[:, :2], ACTIONS, r"observations have shape \(2, 2\)"),
        (ROWS, ACTIONS[:, :1], r"actions have shape \(2, 1\)"),
        (ROWS, ACTIONS[0], r"2 observation\(s\) but 1 action\(s\)"),
        (ROWS[None], ACTIONS, r"observations have shape \(1, 2, 3\)"),
        (np.array("warm"), ACTIONS, "observations are not real numbers"),
        (ROWS + 1j, ACTIONS, "observations are not real numbers"),
        (ROWS, np.array(0.5), r"actions have shape \(\)"),
    ],
)
def test_wrong_shapes_are_one_message(observations: Any, actions: Any, message: str) -> None:
    with pytest.raises(CharyError, match=message):
        critics().uncertainty(observations, actions)


def test_no_rows_are_answered_with_none() -> None:
    agent = critics()
    assert agent.act(ROWS[:0]).shape == (0, ACTIONS.shape[1])
    assert agent.uncertainty(ROWS[:0], ACTIONS[:0]).std.shape == (0,)


def test_statistics_of_what_is_no_number_say_nothing() -> None:
    nothing = statistics.Estimate(None, None, None)
    scores, broken = np.array([1.0, 2.0, 3.0]), np.array([1.0, np.nan, 3.0])
    assert statistics.bootstrap(broken.tolist()) == nothing
    assert statistics.interquartile_mean([scores, broken]) == nothing
    assert statistics.performance_profile([broken], np.array([0.0])) == [nothing]
    assert statistics.probability_of_improvement([scores], [broken]) == nothing
    assert statistics.bootstrap_each([[1.0, 2.0], [1.0, np.nan]])[0].mean == 1.5
