"""D4RL's antmaze data: an ant that walks towards waypoints, led by a goal-reaching controller.

The facts are those of D4RL's generation script and of its published files, to which the tests compare
the waypoints; `docs/collecting.md` tells them.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from chary.data.collect import Columns, block_sizes, collect_dataset
from chary.data.collect.controllers import MUST_HOLD, Controller
from chary.data.dataset import Dataset
from chary.envs.antmaze import GOAL_NOISE, MAZES, POSITIONS, START_NOISE, VELOCITIES, AntMaze
from chary.envs.mazes import Cell, Maze
from chary.errors import CharyError

TRANSITIONS = 1_000_000
ACTION_NOISE = 0.2
WAYPOINT_NOISE = 1.0
"""A waypoint is the next cell's centre and a uniform draw up to this, on both axes, anew every step."""
GOAL_LENGTH = 10.0
"""The controller was trained on goals about this far away."""
BLOCK_EPISODES = 10
"""Episodes a block: fixed, so that the data does not depend on the number of cores."""
PLAY_GOALS: dict[str, tuple[Cell, ...]] = {
    "medium": ((2, 6), (5, 1), (6, 5)),
    "large": ((1, 6), (3, 5), (3, 10), (5, 2), (7, 4), (7, 6), (7, 9)),
}
"""Cells that D4RL picked by hand; the other datasets of a size go to any cell, or to the one goal."""
OBSERVATION_SIZE = POSITIONS - 2 + VELOCITIES + 2
"""What the controller sees: all but the position, and the way to the waypoint."""


class Job(NamedTuple):
    name: str
    controller: Controller
    noise: float
    deterministic: bool
    transitions: int
    seed: int
    block: int


def collect_antmaze(
    name: str,
    controller: Controller,
    *,
    out: Path,
    transitions: int = TRANSITIONS,
    noise: float = ACTION_NOISE,
    deterministic: bool = False,
    seed: int = 0,
) -> Dataset:
    """Write a dataset in D4RL's layout, the same for the same seed."""
    maze = MAZES[name]
    if (controller.observation_size, controller.action_size) != (OBSERVATION_SIZE, 8):
        raise CharyError(
            f"{name}: the controller takes {controller.observation_size} numbers and gives "
            f"{controller.action_size}, but the ant needs one from {OBSERVATION_SIZE} (its positions "
            f"but for x and y, its velocities, the vector to the waypoint) to 8. {MUST_HOLD}"
        )
    sizes = block_sizes(transitions, BLOCK_EPISODES * maze.horizon)
    return collect_dataset(
        collect_block,
        [
            Job(name, controller, noise, deterministic, size, seed, block)
            for block, size in enumerate(sizes)
        ],
        name=name,
        settings={
            "name": name,
            "steps": transitions,
            "seed": seed,
            "controller": controller.fingerprint,
            "noise": noise,
            "deterministic": deterministic,
        },
        collected_by=f"controller {controller.fingerprint[:12]}, noise {noise}, seed {seed}",
        out=out,
    )


def collect_block(job: Job) -> Columns:
    """Whole episodes one after another; the last is cut where the block is full."""
    maze = MAZES[job.name]
    environment = AntMaze(maze)
    rng = np.random.default_rng([job.seed, job.block])
    environment.reset(seed=int(rng.integers(2**31)))
    size = job.transitions
    observations = np.empty((size, POSITIONS + VELOCITIES), np.float32)
    following = np.empty_like(observations)
    actions = np.empty((size, 8), np.float32)
    goals = np.empty((size, 2), np.float32)
    timeouts = np.zeros(size, bool)
    sampling = None if job.deterministic else rng
    observation, guide = _new_episode(environment, job.name, rng)
    for row in range(size):
        if row and row % maze.horizon == 0:
            observation, guide = _new_episode(environment, job.name, rng)
        action = job.controller.act(guide.view(observation, rng), sampling)
        action += job.noise * rng.standard_normal(8, np.float32)
        np.clip(action, -1.0, 1.0, out=action)
        observations[row], actions[row], goals[row] = observation, action, guide.goal
        # Reaching the goal ends nothing here: the ant goes on until the time is up.
        observation, *_ = environment.step(action)
        following[row] = observation
        timeouts[row] = row % maze.horizon == maze.horizon - 1
    timeouts[-1] = True
    arrived = np.linalg.norm(following[:, :2] - evaluation_goal(maze), axis=1) <= maze.radius
    return {
        "observations": observations,
        "actions": actions,
        "rewards": arrived.astype(np.float32),
        "next_observations": following,
        "terminals": arrived,
        "timeouts": timeouts,
        "infos/goal": goals,
        # As in D4RL, the state after the step.
        "infos/qpos": following[:, :POSITIONS],
        "infos/qvel": following[:, POSITIONS:],
    }


def evaluation_goal(maze: Maze) -> np.ndarray:
    """The one goal that rewards are given for: the middle of where evaluation draws its goals."""
    return maze.point(maze.goal) + sum(GOAL_NOISE) / 2


class Guide:
    """Where to go next on the way to a goal."""

    def __init__(self, maze: Maze, goal: np.ndarray):
        self.maze, self.goal = maze, goal
        self.target = passed_cell(maze, goal)
        # From every cell, walls too: the ant's cell may be one, because a cell begins at its centre.
        self.towards = {self.target: self.target}
        for row, column in maze.next_cells(self.target):  # nearest to the target first
            for step in ((0, 1), (1, 0), (0, -1), (-1, 0)):
                self.towards.setdefault((row + step[0], column + step[1]), (row, column))

    def waypoint(self, position: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The goal itself from its own cell and those beside it, otherwise a point in the next cell."""
        cell = self.towards[passed_cell(self.maze, position)]
        if cell == self.target:
            return self.goal
        return self.maze.centre(cell) + rng.uniform(0.0, WAYPOINT_NOISE, 2)

    def view(self, observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """What the controller sees."""
        way = self.waypoint(observation[:2], rng) - observation[:2]
        way *= GOAL_LENGTH / max(float(np.hypot(*way)), 1e-6)
        return np.concatenate([observation[2:], way], dtype=np.float32, casting="same_kind")


def passed_cell(maze: Maze, position: np.ndarray) -> Cell:
    """The cell whose centre was passed last on both axes: what D4RL takes for the cell of a point."""
    return maze.cell(np.maximum(position, 0.0) - maze.size / 2)


def _new_episode(
    environment: AntMaze, name: str, rng: np.random.Generator
) -> tuple[np.ndarray, Guide]:
    """Start and goal as the dataset of that name has them."""
    maze = environment.maze
    size, kind = name.split("-")[1:3]
    one_way = kind not in ("play", "diverse")
    goals = [maze.goal] if one_way else PLAY_GOALS[size] if kind == "play" else maze.free_cells
    # Goals in D4RL's files lie 0.7 to 2.6 from their cell's centre on either axis, as if the
    # evaluation's noise had been added twice.
    spread = sum(rng.uniform(0.0, width, 2) for width in 2 * GOAL_NOISE)
    options: dict[str, object] = {"goal": maze.centre(goals[rng.integers(len(goals))]) + spread}
    if not one_way:
        cell = maze.free_cells[rng.integers(len(maze.free_cells))]
        noise = rng.uniform(0.0, WAYPOINT_NOISE, 2) + rng.uniform(-START_NOISE, START_NOISE, 2)
        options["start"] = maze.centre(cell) + noise
    observation, _ = environment.reset(options=options)
    return observation, Guide(maze, environment.goal)
