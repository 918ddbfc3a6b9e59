"""What the critics think of the data, kept so that a report can judge it later.

Where the data ends needs no simulator: the members are asked about actions and states that are in the
data and about some that are not. With a simulator, what they promised is kept beside what came of it.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chary.envs.mazes import Maze
from chary.evaluation.agent import Agent
from chary.evaluation.rollouts import EvalResult
from chary.execution.batches import Feed

PROBES = 256
"""Dataset states at which disagreement is measured."""
PERTURBED = 0.3
"""Standard deviation of the noise on perturbed actions, in [-1, 1]."""
CELL_POINTS = 8
"""Points a maze cell and axis in the maps."""
SWEEP_POINTS = 41
"""Values of a column at which the doubt is measured, one column at a time."""
SWEEP_STATES = 32
"""Dataset states that a sweep starts from."""
SWEEP_COLUMNS = 64
"""Columns at most: of wider observations the first."""


def diagnose(
    agent: Agent, result: EvalResult | None, feed: Feed, discount: float | None, *, final: bool
) -> dict[str, np.ndarray]:
    """Arrays about one look at a run: the critics' values and spread; with an evaluation its starts,
    returns and paths too; at the final look the doubt along each column of the observations."""
    arrays = {} if result is None else _episodes(result)
    if agent.algorithm.values is None or agent.algorithm.beta is None:
        return arrays
    arrays["beta"] = np.asarray(agent.algorithm.beta(agent.state))
    arrays |= _disagreement(agent, feed)
    if final:
        arrays |= _one_column_at_a_time(agent, feed)
    if result is not None and discount is not None:
        arrays["discounted_returns"] = np.array(
            [
                agent.scaling.rewards(rewards) @ discount ** np.arange(len(rewards))
                for rewards in result.rewards
            ]
        )
        arrays["start_values"] = agent.uncertainty(result.starts, result.first_actions).members
    if agent.task is not None and agent.task.maze is not None:
        arrays |= maze_maps(agent, agent.task.maze)
    return arrays


def _episodes(result: EvalResult) -> dict[str, np.ndarray]:
    return {
        "start_observations": result.starts,
        "returns": result.returns,
        "lengths": result.lengths,
        "paths": np.concatenate(result.paths) if result.paths else np.zeros((0, 0)),
        "path_lengths": np.array([len(path) for path in result.paths]),
    }


def _disagreement(agent: Agent, feed: Feed) -> dict[str, np.ndarray]:
    """Values of logged, policy, perturbed and random actions at the same dataset states, and of the
    policy's actions at states off the data: each column is that of another row."""
    rng = np.random.default_rng(0)  # the same probes at every look
    rows = rng.integers(feed.size, size=PROBES)
    probes = feed.rows(rows)
    observations, logged = probes.observations, np.asarray(probes.actions)
    random = rng.uniform(-1, 1, logged.shape)
    perturbed = np.clip(logged + PERTURBED * rng.standard_normal(logged.shape), -1, 1)
    mixed = rng.permuted(np.asarray(observations), axis=0)
    act, values_of = _compiled(agent)
    asked = {
        "data": (observations, logged),
        "policy": (observations, act(agent.state, observations)),
        "perturbed": (observations, perturbed),
        "random": (observations, random),
        "off": (mixed, act(agent.state, mixed)),
    }
    values = {
        f"values_{kind}": np.asarray(values_of(agent.state, o, jnp.asarray(a, jnp.float32)))
        for kind, (o, a) in asked.items()
    }
    return values | {
        "probe_rows": rows,
        "probe_actions": logged,
        "policy_actions": np.asarray(asked["policy"][1]),
    }


def _one_column_at_a_time(agent: Agent, feed: Feed) -> dict[str, np.ndarray]:
    """The doubt at dataset states of which one column is moved through its range and beyond.

    `column_values` are in the data's units, `column_std` is the members' deviation for the policy's
    action, `column_counts` how many of a sample of rows lie nearest to each value.
    """
    rng = np.random.default_rng(1)
    sample = np.asarray(feed.rows(rng.integers(feed.size, size=16 * PROBES)).observations)
    states = sample[:SWEEP_STATES]
    columns = min(SWEEP_COLUMNS, sample.shape[1])
    low, high = sample.min(axis=0), sample.max(axis=0)
    beyond = np.where(high > low, 0.5 * (high - low), 0.5)
    act, values_of = _compiled(agent)
    where, doubt, counts = [], [], []
    for column in range(columns):
        line = np.linspace(
            low[column] - beyond[column], high[column] + beyond[column], SWEEP_POINTS
        )
        moved = np.repeat(states[None], SWEEP_POINTS, axis=0)
        moved[:, :, column] = line[:, None]
        moved = moved.reshape(-1, states.shape[1])
        values = np.asarray(values_of(agent.state, moved, act(agent.state, moved)), np.float64)
        doubt.append(values.std(axis=0).reshape(SWEEP_POINTS, -1).mean(axis=1))
        half = 0.5 * (line[1] - line[0])
        counts.append(np.histogram(sample[:, column], np.append(line - half, line[-1] + half))[0])
        scaling = agent.scaling
        where.append(line * scaling.observation_std[column] + scaling.observation_mean[column])
    return {
        "column_values": np.stack(where),
        "column_std": np.stack(doubt),
        "column_counts": np.stack(counts),
    }


def _compiled(agent: Agent) -> tuple[Any, Any]:
    """Acting and valuing, each compiled whole: else every operation would be compiled for itself."""
    assert agent.algorithm.values is not None
    return jax.jit(agent.algorithm.act), jax.jit(agent.algorithm.values)


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
