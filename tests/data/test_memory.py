"""Datasets from arrays and from frames."""

from typing import Any

import numpy as np
import pyarrow
import pytest

import chary
from chary.errors import CharyError

DAYS = np.array([3, 3, 3, 1, 1, 1, 1])
INDOOR = np.array([20.0, 20.5, 21.0, 18.0, 18.5, 19.0, 19.5])
OUTDOOR = INDOOR - 15.0
POWER = np.array([0.0, 400.0, 4000.0, 10.0, 20.0, 30.0, 40.0])
REWARD = -np.arange(7.0)


class Series:
    """A column of pandas or polars, as far as chary knows it."""

    def __init__(self, values: Any):
        self._values = values

    def to_numpy(self) -> np.ndarray:
        return np.asarray(self._values)


class Frame(dict[str, Series]):
    """A frame of pandas or polars, as far as chary knows it."""

    @property
    def columns(self) -> list[str]:
        return list(self)


class Stream:
    """Something that only speaks Arrow."""

    def __init__(self, table: Any):
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


TABLE: dict[str, Any] = {
    "day": DAYS, "temp_in": INDOOR, "temp_out": OUTDOOR, "power": POWER, "reward": REWARD,
    "note": ["a"] * 7,
}  # fmt: skip
ASKED: dict[str, Any] = {
    "observations": "temp_*", "actions": ["power"], "reward": "reward", "episode": "day",
    "action_low": 0, "action_high": 4000,
}  # fmt: skip


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
    "frame",
    [
        Frame({name: Series(values) for name, values in TABLE.items()}),
        pyarrow.table(TABLE),
        Stream(pyarrow.table(TABLE)),
    ],
    ids=["frame", "table", "stream"],
)
def test_frames_give_what_arrays_give(frame: Any) -> None:
    made = chary.from_frame(frame, **ASKED)
    assert made.fingerprint == plain().fingerprint
    assert made.observation_names == ("temp_in", "temp_out") and made.action_names == ("power",)


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
    made = chary.from_frame(
        pyarrow.table(TABLE), **{**ASKED, "action_low": "data", "action_high": "data"}
    )
    assert (made.action_low.tolist(), made.action_high.tolist()) == ([0.0], [4000.0])


@pytest.mark.parametrize(
    ("table", "changes", "message"),
    [
        ({}, {"reward": "rewards"}, "unknown column 'rewards'. Did you mean reward"),
        ({}, {"observations": ["temp_in", "temp_*"]}, "observations takes temp_in twice"),
        ({}, {"actions": "temp_in"}, "temp_in is taken twice, in observations and in actions"),
        ({}, {"reward": "note"}, "column note, row 0 is 'a', not a number"),
        ({"temp_in": [20.0, None, *INDOOR[2:]]}, {}, "column temp_in has 1 missing .* row 1"),
        ({"power": [1, 2, None, 4, 5, 6, 7]}, {}, "column power has 1 missing .* row 2"),
    ],
)
def test_wrong_frames_are_one_message(
    table: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(CharyError, match=message):
        chary.from_frame(pyarrow.table({**TABLE, **table}), **{**ASKED, **changes})


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(CharyError, match="of type ndarray, which is no frame"):
        chary.from_frame(INDOOR, **ASKED)
