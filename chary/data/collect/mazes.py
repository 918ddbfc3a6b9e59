"""Maze data from a controller that pushes the ball from waypoint to waypoint, with noise.

It runs between uniformly random cells, so almost no episode leads from the evaluation's start to its
goal: a policy must be stitched from pieces. Rewards are those of the evaluation's goal.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from chary.data.collect import block_sizes, collect_dataset
from chary.data.columns import COLUMNS
from chary.data.dataset import Dataset
from chary.envs.mazes import MAZES, Cell, Maze, PointMaze

# The controller of D4RL's maze2d: proportional and derivative gains, and noise on the action.
POSITION_GAIN = 10.0
VELOCITY_GAIN = -1.0
ACTION_NOISE = 0.5
ARRIVED = 0.3
"""Distance from a waypoint at which the controller may head for the next."""
RECONSIDER = {"pointmaze-umaze": 0.5}
"""The chance at every waypoint of heading for another cell instead, where it is not 0. The U-maze has no
junctions: without this, its direction of travel alone would lead a clone to the goal."""
BLOCK = 10_000
"""Transitions a job: fixed, so that the data does not depend on the number of cores."""


class Job(NamedTuple):
    name: str
    transitions: int
    seed: int
    block: int


def collect_maze(name: str, transitions: int, *, seed: int, out: Path | None = None) -> Dataset:
    """A dataset of exactly that many transitions, the same for the same seed."""
    sizes = block_sizes(transitions, BLOCK)
    return collect_dataset(
        collect_block,
        [Job(name, size, seed, block) for block, size in enumerate(sizes)],
        name=name,
        settings={"name": name, "steps": transitions, "seed": seed},
        collected_by=f"waypoint PD controller, noise {ACTION_NOISE}, seed {seed}",
        out=out,
    )


def collect_block(job: Job) -> dict[str, np.ndarray]:
    """Episodes one after another until the block is full; the last is cut there."""
    maze = MAZES[job.name]
    environment = PointMaze(maze)
    rng = np.random.default_rng([job.seed, job.block])
    environment.reset(seed=int(rng.integers(2**31)))
    rows: dict[str, list[np.ndarray | float | bool]] = {column: [] for column in COLUMNS}
    observation, target = _new_episode(environment, maze, rng)
    waypoint = maze.cell(observation)
    while len(rows["rewards"]) < job.transitions:
        if np.linalg.norm(observation[:2] - maze.point(waypoint)) < ARRIVED:
            if waypoint == target or rng.random() < RECONSIDER.get(job.name, 0.0):
                target = _random_cell(maze, rng, other_than=waypoint)
            waypoint = maze.next_cells(target)[waypoint]
        action = _push(maze, waypoint, observation, rng)
        following, reward, terminated, _, _ = environment.step(action)
        # A third of the time that evaluation allows: too short to show the whole way. A stay task is
        # one unbroken run.
        long = 3 * environment.elapsed >= maze.horizon
        truncated = maze.task == "reach" and long and not terminated
        row = (observation, action, reward, following, terminated, truncated)
        for column, value in zip(rows.values(), row, strict=True):
            column.append(value)
        observation = following
        if terminated or truncated:
            observation, target = _new_episode(environment, maze, rng)
            waypoint = maze.cell(observation)
    columns = {key: np.asarray(values) for key, values in rows.items()}
    columns["timeouts"][-1] = not columns["terminals"][-1]
    return columns


def _new_episode(
    environment: PointMaze, maze: Maze, rng: np.random.Generator
) -> tuple[np.ndarray, Cell]:
    """Start in a random cell with another as the target; never at the goal itself."""
    start = _random_cell(maze, rng, other_than=maze.goal if maze.task == "reach" else None)
    observation, _ = environment.reset(options={"start": start})
    return observation, _random_cell(maze, rng, other_than=start)


def _random_cell(maze: Maze, rng: np.random.Generator, *, other_than: Cell | None) -> Cell:
    cells = [cell for cell in maze.free_cells if cell != other_than]
    return cells[rng.integers(len(cells))]


def _push(
    maze: Maze, waypoint: Cell, observation: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Proportional-derivative control towards the waypoint, plus noise."""
    position, velocity = observation[:2], observation[2:]
    push = POSITION_GAIN * (maze.point(waypoint) - position) + VELOCITY_GAIN * velocity
    push += ACTION_NOISE * rng.standard_normal(2)
    return np.clip(push, -1.0, 1.0).astype(np.float32)
