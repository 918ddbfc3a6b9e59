"""Point mazes: a ball pushed by two motors through a maze of unit cells, in MuJoCo.

The ball is Gymnasium-Robotics' `point.xml`, with walls added cell by cell; the model is built in memory
and stepped directly, which is several times faster and leaves no files behind. Three tasks share it:

- reach: Gymnasium-Robotics' PointMaze, from one far corner to the other; the reward is 1 at the goal,
  where the episode ends.
- stay: D4RL's maze2d in D4RL's coordinates; start anywhere, and every step near the goal is worth 1.
- dense: the same, and a step is worth exp(-distance to the goal).
"""

import importlib.util
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np

from chary.envs import Task
from chary.envs.physics import import_mujoco, import_simulator, use_old_physics
from chary.envs.rendering import Renderer

Cell = tuple[int, int]
MAXIMUM_SPEED = 5.0
WALL_HEIGHT = 0.4
OBSERVABLE = 1e10
"""Bound of every observed number: beyond it, MuJoCo takes a state for broken."""

UMAZE = ("#####", "#   #", "### #", "#   #", "#####")
MEDIUM = (
    "########",
    "#  ##  #",
    "#  #   #",
    "##   ###",
    "#  #   #",
    "# #  # #",
    "#   #  #",
    "########",
)
LARGE = (
    "############",
    "#    #     #",
    "# ## # # # #",
    "#      #   #",
    "# #### ### #",
    "#  # #     #",
    "## # # # ###",
    "#  #   #   #",
    "############",
)


class Frame(NamedTuple):
    """How a map lies in the world: square cells along the axes."""

    first: tuple[float, float]
    """The centre of row 0, column 0."""
    row: tuple[float, float]
    """The way from a row to the next."""
    column: tuple[float, float]
    """The way from a column to the next."""


@dataclass(frozen=True)
class Maze:
    """A map, and the task to be solved on it."""

    rows: tuple[str, ...]
    """The map from the top; # is a wall."""
    task: Literal["reach", "stay", "dense"]
    goal: Cell
    """Row and column of the goal's cell."""
    start: Cell | None
    """Where evaluation starts, give or take the start noise; None for any free cell."""
    horizon: int
    """Steps after which an episode is cut."""
    radius: float
    """Distance from the goal that counts as being there."""
    start_noise: float = 0.25
    """Half-width of the uniform noise on the starting position."""
    frame: Frame | None = None
    """None for unit cells around the origin, the first row on top."""
    offset: float = 0.0
    """How far starts and goals lie from the middle of their cells, along both axes."""
    rest: tuple[float, ...] = (0.0, 0.0)
    """What follows the position in an observation of a body at rest."""

    @cached_property
    def free_cells(self) -> list[Cell]:
        """All cells without a wall, row by row."""
        return [(i, j) for i, row in enumerate(self.rows) for j, c in enumerate(row) if c != "#"]

    @cached_property
    def wall_cells(self) -> list[Cell]:
        """All cells with a wall, row by row."""
        return [(i, j) for i, row in enumerate(self.rows) for j, c in enumerate(row) if c == "#"]

    @cached_property
    def size(self) -> float:
        """Side of a cell."""
        return float(np.abs(self._steps[0]).sum())

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """The whole map's lowest and highest x, lowest and highest y."""
        corners = self.centre((0, 0)), self.centre((len(self.rows) - 1, len(self.rows[0]) - 1))
        low = np.minimum(*corners) - self.size / 2
        high = np.maximum(*corners) + self.size / 2
        return float(low[0]), float(high[0]), float(low[1]), float(high[1])

    def centre(self, cell: Cell) -> np.ndarray:
        """World coordinates (x, y) of a cell's centre."""
        return self._first + np.asarray(cell) @ self._steps

    def point(self, cell: Cell) -> np.ndarray:
        """Where in the cell its start or goal is."""
        return self.centre(cell) + self.offset

    def cell(self, position: np.ndarray) -> Cell:
        """The cell that holds a position."""
        across = self._steps @ (position[:2] - self._first) / self.size**2
        row, column = np.floor(across + 0.5)
        return int(row), int(column)

    @cached_property
    def _first(self) -> np.ndarray:
        if self.frame is None:
            return np.array([0.5 - len(self.rows[0]) / 2, len(self.rows) / 2 - 0.5])
        return np.array(self.frame.first)

    @cached_property
    def _steps(self) -> np.ndarray:
        """The ways to the next row and to the next column."""
        return np.array([(0.0, -1.0), (1.0, 0.0)] if self.frame is None else self.frame[1:])

    def next_cells(self, target: Cell) -> dict[Cell, Cell]:
        """For every free cell, the neighbour that is one step nearer to the target."""
        towards = {target: target}
        frontier = [target]
        free = set(self.free_cells)
        for cell in frontier:  # grows while it is walked: breadth first
            for step in ((0, 1), (1, 0), (0, -1), (-1, 0)):
                neighbour = (cell[0] + step[0], cell[1] + step[1])
                if neighbour in free and neighbour not in towards:
                    towards[neighbour] = cell
                    frontier.append(neighbour)
        return towards


# D4RL gives rows the x axis and columns the y axis. The point that it calls (row, column) lies 0.2 off
# the middle of the cell on both: the cell reaches from 0.7 below it to 0.3 above it.
D4RL_OFFSET = 0.2
D4RL_FRAME = Frame(first=(-D4RL_OFFSET, -D4RL_OFFSET), row=(1.0, 0.0), column=(0.0, 1.0))
D4RL_SPEED_NOISE = 0.1
"""Standard deviation of the velocity at the start."""


def _maze2d(rows: tuple[str, ...], goal: Cell, horizon: int) -> Maze:
    return Maze(
        rows, "stay", goal, start=None, horizon=horizon, radius=0.5, start_noise=0.1,
        frame=D4RL_FRAME, offset=D4RL_OFFSET,
    )  # fmt: skip


MAZE2D = {
    "umaze": _maze2d(UMAZE, goal=(1, 1), horizon=300),
    "medium": _maze2d(MEDIUM, goal=(6, 6), horizon=600),
    "large": _maze2d(LARGE, goal=(7, 9), horizon=800),
}
MAZES = {
    "pointmaze-umaze": Maze(UMAZE, "reach", goal=(3, 1), start=(1, 1), horizon=300, radius=0.45),
    "pointmaze-medium": Maze(MEDIUM, "reach", goal=(6, 6), start=(1, 1), horizon=600, radius=0.45),
    "pointmaze-large": Maze(LARGE, "reach", goal=(7, 10), start=(1, 1), horizon=800, radius=0.45),
    # Without a version: the same task, with data collected here instead of D4RL's files.
    **{f"maze2d-{size}": maze for size, maze in MAZE2D.items()},
    **{f"maze2d-{size}-v1": maze for size, maze in MAZE2D.items()},
    **{f"maze2d-{size}-dense-v1": replace(maze, task="dense") for size, maze in MAZE2D.items()},
}
# D4RL's reference returns of maze2d (random policy, waypoint controller).
REFERENCES = {
    "maze2d-umaze": (23.85, 161.86),
    "maze2d-medium": (13.13, 277.39),
    "maze2d-large": (6.7, 273.99),
    "maze2d-umaze-dense": (68.537689, 193.66285642381482),
    "maze2d-medium-dense": (44.264742, 297.4552547777125),
    "maze2d-large-dense": (30.569041, 303.4857382709002),
}
# Gymnasium knows a name with a version or without one, not both; `maze2d-umaze` is `maze2d-umaze-v1`.
NAMES = tuple(name for name in MAZES if f"{name}-v1" not in MAZES)


def find(name: str) -> Task | None:
    """The maze task of that name."""
    if name not in MAZES:
        return None
    maze = MAZES[name]
    return Task(
        name,
        make=lambda **options: PointMaze(maze, **options),
        reference_scores=REFERENCES.get(name.removesuffix("-v1"), (0.0, 1.0)),
        has_success=maze.task == "reach",
        maze=maze,
    )


class PointMaze(gymnasium.Env[np.ndarray, np.ndarray]):
    """The maze as a Gymnasium environment; observations are (x, y, x-velocity, y-velocity)."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 100}

    def __init__(self, maze: Maze, *, render_mode: str | None = None) -> None:
        self.maze = maze
        self.render_mode = render_mode
        self._mujoco = import_mujoco()
        self.model = _build_model(maze)
        self.data = self._mujoco.MjData(self.model)
        # Views into MuJoCo's memory, kept because making one costs as much as a physics step.
        self.position, self.velocity = self.data.qpos, self.data.qvel
        self.goal = maze.point(maze.goal)
        self.observation_space = gymnasium.spaces.Box(-OBSERVABLE, OBSERVABLE, (4,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.elapsed = 0
        self._renderer = Renderer(self.model, maze.extent)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode; `options={"start": (row, column)}` chooses the cell."""
        super().reset(seed=seed)
        start = (options or {}).get("start", self.maze.start)
        if start is None:
            free = self.maze.free_cells
            start = free[self.np_random.integers(len(free))]
        noise = self.maze.start_noise
        self._mujoco.mj_resetData(self.model, self.data)
        self.position[:] = self.maze.point(start) + self.np_random.uniform(-noise, noise, 2)
        if self.maze.task != "reach":
            self.velocity[:] = D4RL_SPEED_NOISE * self.np_random.standard_normal(2)
        self._mujoco.mj_forward(self.model, self.data)
        self.elapsed = 0
        return self.observation(), {"success": self.at_goal()}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Push the ball for a hundredth of a second."""
        before = 0.0 if self.maze.task == "reach" else self._worth()
        for axis in (0, 1):
            speed = self.velocity[axis]
            if abs(speed) > MAXIMUM_SPEED:
                self.velocity[axis] = MAXIMUM_SPEED if speed > 0 else -MAXIMUM_SPEED
        self.data.ctrl[:] = [min(max(float(push), -1.0), 1.0) for push in action]
        self._mujoco.mj_step(self.model, self.data)
        self.elapsed += 1
        arrived = self.at_goal()
        if self.maze.task == "reach":
            reward, terminated = float(arrived), arrived
        else:  # D4RL pays for the state in which the action was taken
            reward, terminated = before, False
        truncated = not terminated and self.elapsed >= self.maze.horizon
        return self.observation(), reward, terminated, truncated, {"success": arrived}

    def _worth(self) -> float:
        """What D4RL pays for a step that is taken here."""
        if self.maze.task == "stay":
            return float(self.at_goal())
        return float(np.exp(-np.linalg.norm(self.position - self.goal)))

    def at_goal(self) -> bool:
        """Whether the ball is within the goal's radius."""
        dx, dy = self.position[0] - self.goal[0], self.position[1] - self.goal[1]
        return bool(dx * dx + dy * dy <= self.maze.radius**2)

    def observation(self) -> np.ndarray:
        """Position and velocity as the learner sees them."""
        return np.array([*self.position, *self.velocity], np.float32)

    def render(self) -> np.ndarray | None:
        """The maze from above, as an image."""
        if self.render_mode != "rgb_array":
            return None
        return self._renderer.image(self.data, self.goal, self.maze.radius)

    def close(self) -> None:
        self._renderer.close()


def _build_model(maze: Maze) -> Any:
    """Gymnasium-Robotics' ball, with a box for every wall cell."""
    mujoco = import_mujoco()
    package = importlib.util.find_spec("gymnasium_robotics")
    if package is None or package.origin is None:
        package = import_simulator("gymnasium_robotics").__spec__
    assert package is not None and package.origin is not None
    ball = Path(package.origin).parent / "envs" / "assets" / "point" / "point.xml"
    spec = mujoco.MjSpec.from_file(str(ball))
    for cell in maze.wall_cells:
        x, y = maze.centre(cell)
        spec.worldbody.add_geom(
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=[x, y, WALL_HEIGHT / 2],
            size=[0.5, 0.5, WALL_HEIGHT / 2],
            rgba=[0.7, 0.5, 0.3, 1.0],
            contype=1,
            conaffinity=1,
        )
    model = spec.compile()
    if maze.task != "reach":
        use_old_physics(model, ball)
    return model
