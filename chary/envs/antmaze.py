"""D4RL's antmaze: a four-legged robot that walks through a maze, in D4RL's physics on current MuJoCo.

The robot is Gymnasium's own `ant.xml` with the numbers that D4RL gave it; the model is built in memory.
`docs/environments.md` says how exact the replay of real data is.
"""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from chary.envs import Task
from chary.envs.mazes import LARGE, MEDIUM, OBSERVABLE, UMAZE, Cell, Frame, Maze
from chary.envs.physics import import_mujoco, use_old_physics
from chary.envs.rendering import Renderer

TIMESTEP = 0.02
FRAME_SKIP = 5
GEAR = 30.0
SOLREF = (0.02, 1.0)
SOLIMP = (0.8, 0.8, 0.01)
MARGIN = 0.01
CELL = 4.0
WALL_HEIGHT = 2.0
START_NOISE = 0.1
"""On every coordinate at the start: half-width of the uniform noise, and the std on velocities."""
GOAL_NOISE = (1.0, 0.5)
"""The goal is its cell's centre and a uniform draw up to each of these, on both axes."""

POSITIONS, VELOCITIES = 15, 14
# Standing still, as `ant.xml` has it: height, quaternion, joints; then no velocity.
STANDING = (
    0.55, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, -1.0, 0.0, -1.0, 0.0, 1.0, *(0.0,) * VELOCITIES,
)  # fmt: skip
# Columns run along x, rows along y, and the start cell is the origin.
FRAME = Frame(first=(-CELL, -CELL), row=(0.0, CELL), column=(CELL, 0.0))


def _maze(rows: tuple[str, ...], goal: Cell, horizon: int) -> Maze:
    return Maze(
        rows, "reach", goal, start=(1, 1), horizon=horizon, radius=0.5,
        start_noise=START_NOISE, frame=FRAME, rest=STANDING,
    )  # fmt: skip


SIZES = {
    "umaze": _maze(UMAZE, goal=(3, 1), horizon=700),
    "medium": _maze(MEDIUM, goal=(6, 6), horizon=1000),
    "large": _maze(LARGE, goal=(7, 9), horizon=1000),
}
KINDS = ("umaze", "umaze-diverse", "medium-play", "medium-diverse", "large-play", "large-diverse")
# What a dataset was collected for makes no difference to the evaluation.
MAZES = {
    f"antmaze-{kind}-{version}": SIZES[kind.split("-")[0]]
    for version in ("v0", "v2")
    for kind in KINDS
}
NAMES = tuple(MAZES)


def find(name: str) -> Task | None:
    """The antmaze task of that name."""
    if name not in MAZES:
        return None
    maze = MAZES[name]
    return Task(
        name,
        make=lambda **options: AntMaze(maze, **options),
        reference_scores=(0.0, 1.0),
        has_success=True,
        maze=maze,
    )


class AntMaze(gymnasium.Env[np.ndarray, np.ndarray]):
    """The maze as a Gymnasium environment; observations are positions (15) and velocities (14).

    The goal is drawn anew in every episode and stands in `goal`; as in D4RL it cannot be observed.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": round(1 / (TIMESTEP * FRAME_SKIP))}

    def __init__(self, maze: Maze, *, render_mode: str | None = None) -> None:
        self.maze = maze
        self.render_mode = render_mode
        self._mujoco = import_mujoco()
        self.model = build_model(maze)
        self.data = self._mujoco.MjData(self.model)
        # Views into MuJoCo's memory, kept because making one takes time.
        self.position, self.velocity = self.data.qpos, self.data.qvel
        self._control = self.data.ctrl
        self.observation_space = gymnasium.spaces.Box(
            -OBSERVABLE, OBSERVABLE, (POSITIONS + VELOCITIES,), np.float32
        )
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (self.model.nu,), np.float32)
        self.goal = maze.point(maze.goal)
        self.elapsed = 0
        self._renderer = Renderer(self.model, maze.extent)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode; `options` may choose the `start` and the `goal`.

        Each is a cell, as whole numbers (row, column), or a point (x, y). A cell gets the task's noise.
        """
        super().reset(seed=seed)
        options = options or {}
        assert self.maze.start is not None
        start, goal = options.get("start", self.maze.start), options.get("goal", self.maze.goal)
        position = self.model.qpos0 + self.np_random.uniform(-START_NOISE, START_NOISE, POSITIONS)
        velocity = START_NOISE * self.np_random.standard_normal(VELOCITIES)
        spread = sum(self.np_random.uniform(0.0, width, 2) for width in GOAL_NOISE)
        if _is_cell(start):
            position[:2] += self.maze.point(start)
        else:
            position[:2] = start
        self.goal = self.maze.point(goal) + spread if _is_cell(goal) else np.array(goal, float)
        self.set_state(position, velocity)
        self.elapsed = 0
        return self.observation(), {"success": self.at_goal()}

    def set_state(self, position: np.ndarray, velocity: np.ndarray) -> None:
        """Put the robot there, with nothing left of what it did before."""
        self._mujoco.mj_resetData(self.model, self.data)
        self.position[:], self.velocity[:] = position, velocity
        self._mujoco.mj_normalizeQuat(self.model, self.position)  # noise made it longer or shorter
        self._mujoco.mj_forward(self.model, self.data)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Drive the joints for a tenth of a second; MuJoCo limits the action to [-1, 1]."""
        self._control[:] = action
        self._mujoco.mj_step(self.model, self.data, FRAME_SKIP)
        self.elapsed += 1
        arrived = self.at_goal()
        truncated = not arrived and self.elapsed >= self.maze.horizon
        return self.observation(), float(arrived), arrived, truncated, {"success": arrived}

    def at_goal(self) -> bool:
        """Whether the robot is within the goal's radius."""
        dx, dy = self.position[0] - self.goal[0], self.position[1] - self.goal[1]
        return bool(dx * dx + dy * dy <= self.maze.radius**2)

    def observation(self) -> np.ndarray:
        """Positions and velocities as the learner sees them."""
        return np.concatenate([self.position, self.velocity], dtype=np.float32, casting="same_kind")

    def render(self) -> np.ndarray | None:
        """The maze from above, as an image."""
        if self.render_mode != "rgb_array":
            return None
        return self._renderer.image(self.data, self.goal, self.maze.radius)

    def close(self) -> None:
        self._renderer.close()


def _is_cell(place: Any) -> bool:
    """Whether a place is given as (row, column): whole numbers, unlike coordinates."""
    return bool(np.issubdtype(np.asarray(place).dtype, np.integer))


def build_model(maze: Maze) -> Any:
    """D4RL's robot from Gymnasium's, and a box for every wall cell."""
    mujoco = import_mujoco()
    robot = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / "ant.xml"
    spec = mujoco.MjSpec.from_file(str(robot))
    spec.option.timestep = TIMESTEP
    for actuator in spec.actuators:
        actuator.gear[0] = GEAR
    for cell in maze.wall_cells:
        x, y = maze.centre(cell)
        spec.worldbody.add_geom(
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=[x, y, WALL_HEIGHT / 2],
            size=[CELL / 2, CELL / 2, WALL_HEIGHT / 2],
            rgba=[0.7, 0.5, 0.3, 1.0],
            contype=1,
            conaffinity=1,
        )
    for geom in spec.geoms:
        geom.solref[:], geom.solimp[:3], geom.margin = SOLREF, SOLIMP, MARGIN
    model = spec.compile()
    use_old_physics(model, robot)
    return model
