"""Point mazes: a ball pushed by two motors through a maze of unit cells, in MuJoCo.

The physics is that of Gymnasium-Robotics' PointMaze (its `point.xml`, walls added cell by cell); the
model is built in memory and stepped directly, which is several times faster and leaves no files behind.
Two tasks share it:

- reach: from one far corner to the other; the reward is 1 at the goal, where the episode ends.
- stay: D4RL's continuing maze2d; start anywhere, and every step near the goal is worth 1.
"""

import importlib
import importlib.util
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np

from chary.envs import Task

Cell = tuple[int, int]
MAXIMUM_SPEED = 5.0

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


@dataclass(frozen=True)
class Maze:
    """A map, and the task to be solved on it."""

    rows: tuple[str, ...]
    """The map from the top; # is a wall."""
    task: Literal["reach", "stay"]
    goal: Cell
    """Row and column of the goal's cell; the goal is its centre."""
    start: Cell | None
    """Where evaluation starts, give or take the start noise; None for any free cell."""
    horizon: int
    """Steps after which an episode is cut."""
    radius: float
    """Distance from the goal that counts as being there."""
    start_noise: float = 0.25
    """Half-width of the uniform noise on the starting position, in cells."""

    @cached_property
    def free_cells(self) -> list[Cell]:
        """All cells without a wall, row by row."""
        return [(i, j) for i, row in enumerate(self.rows) for j, c in enumerate(row) if c != "#"]

    def centre(self, cell: Cell) -> np.ndarray:
        """World coordinates (x, y) of a cell's centre; the maze is centred on the origin."""
        row, column = cell
        return np.array([column + 0.5 - len(self.rows[0]) / 2, len(self.rows) / 2 - row - 0.5])

    def cell(self, position: np.ndarray) -> Cell:
        """The cell that holds a position."""
        return (
            int(np.floor(len(self.rows) / 2 - position[1])),
            int(np.floor(position[0] + len(self.rows[0]) / 2)),
        )

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


MAZES = {
    "pointmaze-umaze": Maze(UMAZE, "reach", goal=(3, 1), start=(1, 1), horizon=300, radius=0.45),
    "pointmaze-medium": Maze(MEDIUM, "reach", goal=(6, 6), start=(1, 1), horizon=600, radius=0.45),
    "pointmaze-large": Maze(LARGE, "reach", goal=(7, 10), start=(1, 1), horizon=800, radius=0.45),
    "maze2d-umaze": Maze(UMAZE, "stay", (1, 1), None, horizon=300, radius=0.5, start_noise=0.1),
    "maze2d-medium": Maze(MEDIUM, "stay", (6, 6), None, horizon=600, radius=0.5, start_noise=0.1),
    "maze2d-large": Maze(LARGE, "stay", (7, 9), None, horizon=800, radius=0.5, start_noise=0.1),
}
# D4RL's reference returns of maze2d (random policy, waypoint controller).
REFERENCES = {
    "maze2d-umaze": (23.85, 161.86),
    "maze2d-medium": (13.13, 277.39),
    "maze2d-large": (6.7, 273.99),
}


def find(name: str) -> Task | None:
    """The maze task of that name."""
    if name not in MAZES:
        return None
    maze = MAZES[name]
    return Task(
        name,
        make=lambda: PointMaze(maze),
        reference_scores=REFERENCES.get(name, (0.0, 1.0)),
        has_success=maze.task == "reach",
        maze=maze,
    )


@dataclass
class PointMaze(gymnasium.Env[np.ndarray, np.ndarray]):
    """The maze as a Gymnasium environment; observations are (x, y, x-velocity, y-velocity)."""

    maze: Maze

    def __post_init__(self) -> None:
        self._mujoco = _mujoco()
        self.model = _build_model(self.maze)
        self.data = self._mujoco.MjData(self.model)
        # Views into MuJoCo's memory, kept because making one costs as much as a physics step.
        self.position, self.velocity = self.data.qpos, self.data.qvel
        self.goal = self.maze.centre(self.maze.goal)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.elapsed = 0

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
        self.position[:] = self.maze.centre(start) + self.np_random.uniform(-noise, noise, 2)
        self._mujoco.mj_forward(self.model, self.data)
        self.elapsed = 0
        return self.observation(), {"success": self.at_goal()}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Push the ball for a hundredth of a second."""
        was_at_goal = self.maze.task == "stay" and self.at_goal()
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
            reward, terminated = float(was_at_goal), False
        truncated = not terminated and self.elapsed >= self.maze.horizon
        return self.observation(), reward, terminated, truncated, {"success": arrived}

    def at_goal(self) -> bool:
        """Whether the ball is within the goal's radius."""
        dx, dy = self.position[0] - self.goal[0], self.position[1] - self.goal[1]
        return bool(dx * dx + dy * dy <= self.maze.radius**2)

    def observation(self) -> np.ndarray:
        """Position and velocity as the learner sees them."""
        return np.array([*self.position, *self.velocity], np.float32)


def _mujoco() -> Any:
    """MuJoCo, imported late; its extension module has no types to check against."""
    return importlib.import_module("mujoco")


def _build_model(maze: Maze) -> Any:
    """Gymnasium-Robotics' ball, with a box for every wall cell."""
    mujoco = _mujoco()
    package = importlib.util.find_spec("gymnasium_robotics")
    assert package is not None and package.origin is not None
    spec = mujoco.MjSpec.from_file(
        str(Path(package.origin).parent / "envs" / "assets" / "point" / "point.xml")
    )
    height = 0.2
    for i, row in enumerate(maze.rows):
        for j, symbol in enumerate(row):
            if symbol == "#":
                x, y = maze.centre((i, j))
                spec.worldbody.add_geom(
                    name=f"block_{i}_{j}",
                    type=mujoco.mjtGeom.mjGEOM_BOX,
                    pos=[x, y, height],
                    size=[0.5, 0.5, height],
                    contype=1,
                    conaffinity=1,
                )
    return spec.compile()
