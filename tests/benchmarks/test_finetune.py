"""What the benchmark of fine-tuning measures in a run's folder."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.finetune import hidden_goal_env, measured, rows_of, verdict
from chary.envs.mazes import MAZES
from chary.runs.folder import RunFolder
from tests.synthetic import synthetic_run

MAZE = MAZES["pointmaze-umaze"]


def acted(path: Path, successes: list[bool], places: np.ndarray) -> RunFolder:
    """A run that was evaluated three times and acted in some episodes."""
    folder = synthetic_run(path, lines=1, evaluations=1, maze=False)
    evaluation = folder.read("evals")[-1]
    (path / "evals.jsonl").unlink()
    for step, success in ((0, 0.0), (50, 0.5), (100, 1.0)):
        folder.append("evals", {**evaluation, "step": step, "success": success})
    for number, success in enumerate(successes):
        done = {"return": 0.0, "length": 10, "success": success, "guard": False}
        folder.append(
            "episodes", {"step": 10 * (number + 1), "environment": 0, "episode": number, **done}
        )
    folder.save_rows(100, {"observations": places})
    return RunFolder.open(path)


def test_gain_regret_and_where_it_has_been(tmp_path: Path) -> None:
    x, y = MAZE.point((1, 1))
    quarter = MAZE.size / 4
    places = np.array([[x, y, 0, 0], [x, y, 1, 1], [x + quarter, y, 0, 0]], np.float32)
    acted(tmp_path / "a", [False, True, True], places)
    found: dict[str, Any] = measured(tmp_path / "a", MAZE)
    assert (found["before"], found["after"], found["lowest"]) == (0.0, 1.0, 0.5)
    assert found["regret"] == pytest.approx(0.25)
    assert found["first_success"] == 20 and found["acted"] == pytest.approx(2 / 3)
    assert found["visited"] == pytest.approx(2 / (16 * len(MAZE.free_cells)))
    (row,) = rows_of({"methods": {"ucb": [found, {**found, "first_success": None}]}})
    assert row["after"] == "**1.00** (1.00 1.00)" and row["first"] == "20, never"


def test_the_hidden_goal_is_that_of_the_maze() -> None:
    assert hidden_goal_env().maze.goal == MAZE.goal


@pytest.mark.parametrize(
    ("ours", "theirs", "word"),
    [
        ([0.2, 0.2, 0.5], [0.4, 0.4, 0.4], "is better than"),
        ([0.4, 0.4, 0.4], [0.2, 0.2, 0.5], "is worse than"),
        ([0.1, 0.41, 0.41], [0.4, 0.4, 0.4], "cannot be told apart"),  # lower in one seed only
        ([0.38, 0.38, 0.38], [0.4, 0.4, 0.4], "cannot be told apart"),  # by less than the margin
    ],
)
def test_the_rule_decides(ours: list[float], theirs: list[float], word: str) -> None:
    methods = {"ucb": ours, "mean": theirs}
    record = {"methods": {n: [{"regret": regret} for regret in r] for n, r in methods.items()}}
    assert word in verdict(record, "ucb", "mean")
