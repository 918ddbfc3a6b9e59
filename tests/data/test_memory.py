"""Datasets from arrays."""

from typing import Any

import numpy as np
import pytest

import chary
from chary.errors import CharyError

DAYS = np.array([3, 3, 3, 1, 1, 1, 1])
INDOOR = np.array([20.0, 20.5, 21.0, 18.0, 18.5, 19.0, 19.5])
OUTDOOR = INDOOR - 15.0
POWER = np.array([0.0, 400.0, 4000.0, 10.0, 20.0, 30.0, 40.0])
REWARD = -np.arange(7.0)


def plain() -> Any:
    return chary.dataset(
        observations=np.stack([INDOOR, OUTDOOR], axis=1),
        actions=POWER,
        rewards=REWARD,
        episodes=DAYS,
        action_low=0,
        action_high=4000,
        observation_names=["temp_in", "temp_out"],
        action_names=["power"],
    )


def test_arrays_with_ids_of_episodes() -> None:
    made = plain()
    # The last row of each day has no successor in the log.
    assert made.observations[:, 0].tolist() == [20.0, 20.5, 18.0, 18.5, 19.0]
    assert made.next_observations[:, 0].tolist() == [20.5, 21.0, 18.5, 19.0, 19.5]
    assert made.timeouts.tolist() == [False, True, False, False, True]
    assert not made.terminals.any()
    assert made.actions[:, 0].tolist() == [0.0, 400.0, 10.0, 20.0, 30.0]
    assert made.action_high.tolist() == [4000.0]
    assert made.observation_names == ("temp_in", "temp_out")


def test_arrays_with_true_ends() -> None:
    ends = [False, False, True, False, False, False, True]
    made = chary.dataset(observations=INDOOR, actions=POWER / 4000, rewards=REWARD, terminals=ends)
    assert made.size == 7 and made.terminals.tolist() == ends


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"episodes": None}, "where episodes end cannot be guessed"),
        ({"episodes": [3, 1, 3, 1, 1, 1, 1]}, "episode 3 comes back in row 2"),
        ({"episodes": [1, 2]}, r"episodes have shape \(2,\), but there are 7 rewards"),
        ({"action_low": None, "action_high": None}, "actions lie in 0 to 4000, outside"),
        ({"action_high": 400}, "1 action.s. outside .0, 400., first in row"),
        ({"action_high": "most"}, "action_high is 'most'"),
        ({"observation_names": ["one"]}, "1 names for 2 dimension"),
        ({"rewards": REWARD[:3]}, "3 rewards"),
    ],
)
def test_wrong_arrays_are_one_message(changes: dict[str, Any], message: str) -> None:
    arrays: dict[str, Any] = {
        "observations": np.stack([INDOOR, OUTDOOR], axis=1),
        "actions": np.roll(POWER, 1), "rewards": REWARD, "episodes": DAYS,
        "action_low": 0, "action_high": 4000,
    }  # fmt: skip
    with pytest.raises(CharyError, match=message):
        chary.dataset(**{**arrays, **changes})


def test_bounds_from_the_data() -> None:
    made = chary.dataset(
        observations=INDOOR,
        actions=np.roll(POWER, 1),
        rewards=REWARD,
        episodes=DAYS,
        action_low="data",
        action_high="data",
    )
    assert (made.action_low.tolist(), made.action_high.tolist()) == ([0.0], [4000.0])
