"""What the critics think at an evaluation, kept so that a report can judge it later."""

import jax
import jax.numpy as jnp
import numpy as np

from chary.agent import Agent
from chary.envs.mazes import Maze
from chary.evaluate import EvalResult
from chary.feed import Feed

PROBES = 256
"""Dataset states at which disagreement is measured."""
CELL_POINTS = 8
"""Points a maze cell and axis in the maps."""


def diagnose(
    agent: Agent, result: EvalResult, feed: Feed, discount: float | None
) -> dict[str, np.ndarray]:
    """Arrays about one evaluation: starts, returns, paths, and the critics' values and spread."""
    arrays = {
        "start_observations": result.starts,
        "returns": result.returns,
        "lengths": result.lengths,
        "paths": np.concatenate(result.paths) if result.paths else np.zeros((0, 0)),
        "path_lengths": np.array([len(path) for path in result.paths]),
    }
    if agent.algorithm.values is None or agent.algorithm.beta is None or discount is None:
        return arrays
    arrays["beta"] = np.asarray(agent.algorithm.beta(agent.state))
    arrays["discounted_returns"] = np.array(
        [
            agent.scaling.rewards(rewards) @ discount ** np.arange(len(rewards))
            for rewards in result.rewards
        ]
    )
    arrays["start_values"] = agent.uncertainty(result.starts, result.first_actions).members
    arrays |= _disagreement(agent, feed)
    if agent.task is not None and agent.task.maze is not None:
        arrays |= maze_maps(agent, agent.task.maze)
    return arrays


def _disagreement(agent: Agent, feed: Feed) -> dict[str, np.ndarray]:
    """Spread of the members on logged, policy and random actions at the same dataset states."""
    assert agent.algorithm.values is not None
    rng = np.random.default_rng(0)  # the same probes at every evaluation
    rows = rng.integers(feed.size, size=PROBES)
    probes = feed.rows(rows)
    observations = probes.observations
    # Compiled whole: step by step, every operation would be compiled for itself.
    act, values_of = jax.jit(agent.algorithm.act), jax.jit(agent.algorithm.values)
    actions = {
        "data": probes.actions,
        "policy": act(agent.state, observations),
        "random": jnp.asarray(rng.uniform(-1, 1, probes.actions.shape), jnp.float32),
    }
    values = {
        f"values_{kind}": np.asarray(values_of(agent.state, observations, a))
        for kind, a in actions.items()
    }
    return values | {"probe_rows": rows}


def maze_maps(agent: Agent, maze: Maze) -> dict[str, np.ndarray]:
    """Mean, spread and bound over positions in the maze, at rest, for the policy's action there."""
    left, right, bottom, top = maze.extent
    spacing = maze.size / CELL_POINTS
    x, y = (
        np.arange(low + spacing / 2, high, spacing) for low, high in ((left, right), (bottom, top))
    )
    positions = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    at_rest = np.tile(maze.rest, (len(positions), 1))
    observations = np.concatenate([positions, at_rest], axis=1).astype(np.float32)
    values = agent.uncertainty(observations, agent.act(observations))
    walls = np.array([maze.rows[i][j] == "#" for i, j in map(maze.cell, positions)])
    shape = (len(y), len(x))
    maps = {"mean": values.mean, "std": values.std, "lcb": values.lcb}
    return {
        "map_x": x,
        "map_y": y,
        **{f"map_{k}": np.where(walls, np.nan, v).reshape(shape) for k, v in maps.items()},
    }
