"""Pictures of a simulated maze, drawn by MuJoCo without a window."""

import atexit
import importlib
import os
import sys
from typing import Any

import numpy as np

from chary.envs.physics import import_mujoco
from chary.errors import CharyError

SIDE = 480
"""Pixels of an image, both ways."""
GOAL_COLOUR = (0.86, 0.08, 0.24, 1.0)


class Renderer:
    """Looks straight down on a whole map; the graphics start with the first image."""

    def __init__(self, model: Any, extent: tuple[float, float, float, float]) -> None:
        self._model, self._extent = model, extent
        self._opened: tuple[Any, Any, Any] | None = None

    def image(self, data: Any, goal: np.ndarray, goal_size: float) -> np.ndarray:
        """What it looks like now, with a mark at the goal: (height, width, RGB)."""
        mujoco = import_mujoco()
        if self._opened is None:
            self._opened = self._open()
        screen, drawing, scene = self._opened
        screen.make_current()
        mujoco.mjv_updateScene(
            self._model, data, mujoco.MjvOption(), None, self._camera(),
            mujoco.mjtCatBit.mjCAT_ALL, scene,
        )  # fmt: skip
        mujoco.mjv_initGeom(
            scene.geoms[scene.ngeom],
            mujoco.mjtGeom.mjGEOM_CYLINDER,
            np.array([goal_size, goal_size, 0.01]),
            np.array([*goal, 0.02]),
            np.eye(3).ravel(),
            np.array(GOAL_COLOUR, np.float32),
        )
        scene.ngeom += 1
        frame = mujoco.MjrRect(0, 0, SIDE, SIDE)
        mujoco.mjr_render(frame, scene, drawing)
        pixels = np.empty((SIDE, SIDE, 3), np.uint8)
        mujoco.mjr_readPixels(pixels, None, frame, drawing)
        return np.flipud(pixels)

    def close(self) -> None:
        """Give the graphics memory back."""
        if self._opened is not None:
            atexit.unregister(self.close)
            screen, drawing, _ = self._opened
            drawing.free()
            screen.free()
            self._opened = None

    def _open(self) -> tuple[Any, Any, Any]:
        """A place to draw on, MuJoCo's drawing context for it, and a scene."""
        mujoco = import_mujoco()
        screen = _offscreen()
        screen.make_current()
        drawing = mujoco.MjrContext(self._model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, drawing)
        atexit.register(self.close)  # before the graphics library itself goes
        return screen, drawing, mujoco.MjvScene(self._model, maxgeom=1000)

    def _camera(self) -> Any:
        left, right, bottom, top = self._extent
        camera = import_mujoco().MjvCamera()
        camera.lookat[:] = (left + right) / 2, (bottom + top) / 2, 0.0
        camera.azimuth, camera.elevation = 90.0, -90.0  # x to the right, y upwards
        half_view = np.deg2rad(self._model.vis.global_.fovy) / 2
        camera.distance = max(right - left, top - bottom) / 2 / np.tan(half_view)
        return camera


def _offscreen() -> Any:
    """The first way of drawing that this machine has, or the one that MUJOCO_GL asks for."""
    chosen = os.environ.get("MUJOCO_GL")
    window = sys.platform != "linux" or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    ways = [chosen] if chosen else [*(["glfw"] if window else []), "egl", "osmesa"]
    problems = []
    for way in ways:
        try:
            return importlib.import_module(f"mujoco.{way}").GLContext(SIDE, SIDE)
        except Exception as error:  # each library fails in its own way
            problems.append(f"{way}: {error}")
    raise CharyError(
        f"Rendering needs OpenGL, and none works here ({'; '.join(problems)}). Install EGL or OSMesa "
        "(Debian: libegl1 or libosmesa6), or set MUJOCO_GL to one that works."
    )
