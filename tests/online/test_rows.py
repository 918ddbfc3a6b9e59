"""Transitions made as rows come in are those that a dataset of the same rows would give."""

from typing import Any

import numpy as np
import pytest

from chary.data.dataset import Dataset
from chary.data.scaling import RewardTransform, Scaling
from chary.online.rows import Buffer, Row
from tests.conftest import make_columns


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("more", [{}, {"next_actions": True}, {"returns": True}])
def test_transitions_are_the_datasets(n_step: int, more: dict[str, bool]) -> None:
    columns = make_columns(episodes=4, length=9)
    dataset = Dataset.from_columns(columns, name="rows")
    scaling = Scaling.of(dataset, RewardTransform(2.0, -0.5), normalise_observations="moments")
    options: dict[str, Any] = {"n_step": n_step, **more}
    buffer = Buffer(scaling, 1, discount=0.9, **options)
    for row in _rows(columns):
        buffer.add(row)
    expected = dataset.transitions(scaling, discount=0.9, **options)
    assert buffer.ready.size == dataset.size == buffer.rows.size
    for name, column in expected._asdict().items():
        if column is not None:
            np.testing.assert_allclose(buffer.ready[name], column, rtol=1e-6, atol=1e-6)


def test_environments_take_turns_and_do_not_mix() -> None:
    ones, twos = (make_columns(episodes=2, length=5, seed=seed) for seed in (1, 2))
    dataset = Dataset.from_columns(ones, name="rows")
    scaling = Scaling.of(dataset, RewardTransform(), normalise_observations="none")
    both, alone = (
        Buffer(scaling, 2, n_step=3, discount=0.9),
        Buffer(scaling, 1, n_step=3, discount=0.9),
    )
    for one, two in zip(_rows(ones), _rows(twos), strict=True):
        both.add(one)
        both.add(two)
        alone.add(one)
    first = np.isin(both.ready["rewards"], alone.ready["rewards"])
    np.testing.assert_array_equal(both.ready["rewards"][first], alone.ready["rewards"])
    assert first.sum() == 10


def test_what_waits_is_ready_when_its_episode_is_cut() -> None:
    columns = make_columns(episodes=1, length=5)
    dataset = Dataset.from_columns(columns, name="rows")
    scaling = Scaling.of(dataset, RewardTransform(), normalise_observations="none")
    buffer = Buffer(scaling, 1, n_step=4, discount=0.5)
    for row in _rows(columns)[:3]:
        buffer.add(row)
    assert buffer.ready.size == 0
    buffer.cut(0)
    assert buffer.ready.size == 3
    assert buffer.rows["timeouts"].tolist() == [False, False, True]
    np.testing.assert_array_equal(buffer.ready["discounts"], [0.25, 0.5, 1.0])


def _rows(columns: dict[str, np.ndarray]) -> list[Row]:
    names = Row._fields[:6]
    each = zip(*(columns[name] for name in names), strict=True)
    return [Row._make([*row, 0.0, 0.0]) for row in each]
