import os
from pathlib import Path

import numpy as np
import pytest

from chary.data.dataset import Dataset
from chary.data.tasks import find_task
from chary.errors import CharyError
from chary.report.dataset import draw_dataset
from tests.conftest import call_chary, make_columns


def pixels(path: Path) -> np.ndarray:
    import matplotlib.image

    return np.asarray(matplotlib.image.imread(path))


def test_a_figure_of_any_dataset(dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "new" / "data.png"
    draw_dataset(dataset, path)
    assert os.listdir(path.parent) == ["data.png"]
    image = pixels(path)
    assert image.shape[0] > 600 and image.shape[1] > 1000
    assert (image[..., :3].min(axis=-1) < 0.5).mean() > 0.1  # not just white


def test_walls_are_drawn_where_the_task_has_a_maze(tmp_path: Path) -> None:
    task = find_task("pointmaze-umaze")
    assert task is not None
    columns = make_columns()
    wide = {key: columns[key] for key in columns if key != "next_observations"}
    dataset = Dataset.from_columns(wide, name="pointmaze-umaze")
    draw_dataset(dataset, tmp_path / "with.png", maze=task.maze)
    draw_dataset(dataset, tmp_path / "without.png")
    walls = [
        (np.abs(pixels(tmp_path / name)[..., :3] - 0.25).max(axis=-1) < 0.01).sum()
        for name in ("with.png", "without.png")
    ]
    assert walls[0] > 10_000 > 10 * walls[1]


ONE_OBSERVATION = np.zeros((120, 1))
ONE_PLACE = np.zeros((120, 3))


@pytest.mark.parametrize(
    "change",
    [
        {"observations": ONE_OBSERVATION, "next_observations": ONE_OBSERVATION},
        {"observations": ONE_PLACE, "next_observations": ONE_PLACE, "terminals": np.ones(120)},
        {"rewards": np.full(120, 1e30), "actions": np.zeros((120, 30))},
    ],
    ids=["one observation", "one place, one step", "huge reward, many actions"],
)
def test_odd_data_is_drawn_too(change: dict[str, np.ndarray], tmp_path: Path) -> None:
    dataset = Dataset.from_columns({**make_columns(), **change}, name=r"odd [name] $\frac$")
    draw_dataset(dataset, tmp_path / "data.png")
    assert (tmp_path / "data.png").stat().st_size > 10_000


def test_a_figure_that_cannot_be_written(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(CharyError, match=r"cannot be written as '\.docx'; use \.png"):
        draw_dataset(dataset, tmp_path / "data.docx")
    (tmp_path / "file").write_text("")
    with pytest.raises(CharyError, match="cannot be written"):
        draw_dataset(dataset, tmp_path / "file" / "data.png")
    assert os.listdir(tmp_path) == ["file"]


def test_the_command_draws(tmp_path: Path) -> None:
    columns: dict[str, np.ndarray] = make_columns()
    np.savez(tmp_path / "data.npz", **columns)  # pyright: ignore[reportArgumentType]
    result = call_chary("data", "show", tmp_path / "data.npz", "--figure", tmp_path / "data.png")
    assert result.returncode == 0, result.stderr
    assert "120" in result.stdout
    assert (tmp_path / "data.png").read_bytes().startswith(b"\x89PNG")
