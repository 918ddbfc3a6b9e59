from typing import Any

import numpy as np
import pytest

from chary.envs.antmaze import SIZES, AntMaze
from chary.envs.rendering import SIDE
from chary.errors import CharyError


def picture(environment: Any) -> np.ndarray:
    """An image of the environment, where this machine can draw."""
    try:
        image = environment.render()
    except CharyError as error:
        pytest.skip(str(error))
    assert image.shape == (SIDE, SIDE, 3) and image.dtype == np.uint8
    return image


def test_without_opengl_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "papyrus")
    environment = AntMaze(SIZES["umaze"], render_mode="rgb_array")
    environment.reset(seed=0)
    with pytest.raises(CharyError, match=r"none works here \(papyrus: .*Install EGL or OSMesa"):
        environment.render()
    environment.close()


def test_a_picture_shows_robot_and_goal() -> None:
    environment = AntMaze(SIZES["umaze"], render_mode="rgb_array")
    environment.reset(seed=0)
    first = picture(environment)
    np.testing.assert_array_equal(picture(environment), first)
    # Upwards and to the right are y and x: the goal (red) is above the start in the left half.
    red = first[..., 0].astype(int) - first[..., 1] > 150
    rows, columns = np.nonzero(red)
    assert 20 < red.sum() < 2_000
    x, y = environment.goal
    left, right, bottom, top = environment.maze.extent
    assert columns.mean() == pytest.approx(SIDE * (x - left) / (right - left), abs=5)
    assert rows.mean() == pytest.approx(SIDE * (top - y) / (top - bottom), abs=5)
    environment.set_state(environment.position + np.array([4, *[0] * 14]), environment.velocity)
    assert (picture(environment) != first).any()
    environment.close()
