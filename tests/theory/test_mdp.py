"""The chain: its data, its true values, and the form of a spread."""

import numpy as np
import pytest

from chary.errors import CharyError
from chary.theory import mdp
from chary.theory.mdp import GAP, GRID


def test_data_follows_the_rules_of_the_chain_and_leaves_the_gap_out() -> None:
    data = mdp.collect(40, 30, 0)
    states, actions = data.x.T
    assert 600 < len(states) < 900
    assert (np.abs(states) > GAP).all() and (np.abs(data.next_x[:, 0]) > GAP).all()
    assert np.abs(states).max() <= 1.0 and np.abs(actions).max() <= 0.3
    np.testing.assert_allclose(data.next_x[:, 0], np.clip(states + actions, -1, 1))
    np.testing.assert_array_equal(data.next_x[:, 1], 0.1)
    np.testing.assert_array_equal(data.rewards, data.next_x[:, 0] >= 0.75)


def test_true_values_solve_bellmans_equation() -> None:
    values = mdp.true_values(0.9)
    # 0.1 is ten steps of the grid; paths that meet 0.75 itself do so up to rounding, either way.
    clear = np.arange(191) % 10 != 5
    expected = (GRID[10:] >= 0.75) + 0.9 * values[10:]
    np.testing.assert_allclose(values[:-10][clear], expected[clear], atol=1e-12)
    assert values[-1] == pytest.approx(10.0)
    assert values[0] == pytest.approx(0.9**17 * 10.0)  # -0.9, ..., 0.8 is the eighteenth


def test_the_wanted_form_of_a_spread_is_recognised() -> None:
    wanted = np.interp(GRID, [-GAP, GAP], [4.0, 1.0])
    found = mdp.structure(wanted)
    assert found["ratio"] == pytest.approx(4.0) and found["rises"]
    assert found["gap"] == sorted(found["gap"], reverse=True)
    reverse = mdp.structure(wanted[::-1])
    assert reverse["ratio"] == pytest.approx(0.25) and not reverse["rises"]
    bump = mdp.structure(1.0 - np.abs(GRID))
    assert bump["ratio"] == pytest.approx(1.0) and not bump["rises"]


def test_too_little_data_is_refused() -> None:
    with pytest.raises(CharyError, match="leave no data on one side of the gap"):
        mdp.collect(1, 1, 0)
