"""What is kept of the data with every run."""

import json

import numpy as np
import pytest

from chary.data.dataset import COLUMNS, Dataset
from chary.data.summary import CELLS, summarise
from chary.envs.mazes import MAZES
from chary.host.files import jsonable


def test_counts_and_ranges_are_those_of_the_data(dataset: Dataset) -> None:
    found = json.loads(json.dumps(jsonable(summarise(dataset))))
    assert found["episodes"] == 6 and found["transitions"] == 120
    assert found["terminals"] == 3 and found["timeouts"] == 3
    assert sum(found["returns"]["counts"]) == 6 and sum(found["rewards"]["counts"]) == 120
    assert found["returns"]["mean"] == pytest.approx(dataset.episode_returns.mean(), rel=1e-5)
    ending = dataset.rewards[dataset.terminals]
    assert found["rewards"]["ending"] == [ending.min(), ending.max()]
    assert np.sum(found["coverage"]["counts"]) == 120
    assert found["maze"] is None and found["examined"] == 120
    assert "next-observations" in {finding["rule"] for finding in found["findings"]}


def test_data_without_an_end_has_no_reward_there(columns: dict[str, np.ndarray]) -> None:
    ends = columns["terminals"] | columns["timeouts"]
    columns |= {"terminals": np.zeros_like(ends), "timeouts": ends}
    found = summarise(Dataset.from_columns(columns, name="tiny"))
    assert found["rewards"]["ending"] is None and found["rewards"]["going_on"] is not None


def test_only_the_first_episodes_of_large_data_are_examined(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chary.data.summary.LOOKED_AT", 50)
    found = summarise(dataset)
    assert found["examined"] == 40  # two episodes of twenty
    assert found["transitions"] == 120
    monkeypatch.setattr("chary.data.summary.LOOKED_AT", 39)
    assert summarise(dataset)["examined"] == 20  # the second ends with the fortieth row


def test_a_first_episode_that_is_longer_is_cut(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    examined: list[dict[str, np.ndarray]] = []
    monkeypatch.setattr("chary.data.summary.examine", lambda raw, _: examined.append(raw) or [])
    monkeypatch.setattr("chary.data.summary.LOOKED_AT", 15)
    assert summarise(dataset)["examined"] == 15
    (raw,) = examined
    assert all(len(raw[key]) == 15 for key in COLUMNS)
    assert np.flatnonzero(raw["timeouts"]).tolist() == [14] and not raw["terminals"].any()


def test_a_maze_is_described_where_it_stands(dataset: Dataset) -> None:
    maze = MAZES["pointmaze-umaze"]
    found = summarise(dataset, maze)
    assert found["maze"]["goal"] == pytest.approx(maze.point(maze.goal).tolist())
    assert len(found["maze"]["walls"]) == len(maze.wall_cells)
    assert found["coverage"]["extent"] == list(maze.extent)
    assert len(found["coverage"]["counts"]) == CELLS
