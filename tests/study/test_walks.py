"""The picture of a table of scores."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from chary.study import walks
from tests.synthetic import synthetic_run


def test_every_method_has_its_maze_and_every_seed_its_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimpleNamespace(dataset="pointmaze-umaze", data_file=None, steps=3)
    jobs = []
    for cell in walks.WORDS:
        for seed in (0, 1):
            folder = tmp_path / f"{cell}-seed{seed}"
            made = synthetic_run(folder, lines=2, evaluations=1, maze=True)
            made.append("evals", {**made.read("evals")[-1], "step": 201, "success": 0.5})
            jobs.append(SimpleNamespace(cell=SimpleNamespace(name=cell), folder=folder, run=run))
    logged = SimpleNamespace(size=9, observations=np.ones((9, 4), np.float32))
    monkeypatch.setattr(walks.data, "load", lambda *_, **__: logged)
    drawn: list[Any] = []
    monkeypatch.setattr(walks, "save_figure", lambda figure, _: drawn.append(figure))
    walks.draw_walks(cast(Any, SimpleNamespace(jobs=jobs, seeds=(0, 1))), tmp_path / "walks.png")
    titles = [axis.get_title() for axis in drawn[0].axes]
    assert [title.split("\n")[0] for title in titles] == [*walks.WORDS.values()]
    assert all(len(title.split("\n")[1].split(", ")) == 2 for title in titles)
    assert all(len(axis.lines) > 3 for axis in drawn[0].axes)  # paths, goal and start
