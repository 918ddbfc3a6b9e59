"""Whether actions are inside the data."""

import numpy as np

from chary.evaluation.support import Support, support_of

RNG = np.random.default_rng(0)


def pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Actions near half the sign of the state's first number, the smaller of the two by far."""
    states = RNG.uniform(-1, 1, (count, 2)) * [0.01, 100.0]
    actions = np.sign(states[:, :1]) * 0.5 + 0.05 * RNG.standard_normal((count, 1))
    return states.astype(np.float32), actions.astype(np.float32)


def test_one_in_twenty_logged_actions_is_outside_by_definition() -> None:
    held_out = pairs(400)
    support = support_of(pairs(5_000), held_out)
    assert support.outside(held_out[1]).mean() == 0.05
    assert abs(support.outside(pairs(400)[1]).mean() - 0.5) < 0.1  # those of other states


def test_an_action_that_is_logged_elsewhere_is_outside_here() -> None:
    held_out = pairs(400)
    support = support_of(pairs(5_000), held_out)
    sure = np.abs(held_out[0][:, 0]) > 0.002  # where all neighbours have the same sign
    assert support.outside(-held_out[1])[sure].mean() > 0.99


def test_distances_are_to_the_nearest_of_a_states_own_actions() -> None:
    support = Support(np.array([[[0.0, 0.0], [1.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]]]), 0.2)
    asked = np.array([[0.9, 0.0], [0.5, 1.0]])
    np.testing.assert_allclose(support.distances(asked), [0.1, 0.5])
    assert support.outside(asked).tolist() == [False, True]
