"""How fast policies are evaluated and data is collected, beside the simulator's own speed."""

import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from chary.bench import timing
from chary.data.tasks import find_task
from chary.envs import Task
from chary.errors import CharyError

TASKS = ("pointmaze-medium", "hopper-medium-v2", "antmaze-medium-diverse-v2")
EPISODES = 16
"""Episodes of an evaluation, all side by side."""
BLOCKS = 4
"""Blocks of a collection: enough that every core has some."""


def time_simulation(tasks: list[str], *, seconds: float, repeats: int) -> list[dict[str, Any]]:
    """Rows for every task: the bare simulator, an evaluation, and where chary has a controller of its
    own, a collection. Each measurement is repeated, in rounds."""
    rows: list[dict[str, Any]] = []
    for name in tasks:
        task = find_task(name)
        if task is None:
            raise CharyError(f"--tasks {name}: there is no simulator of that name.")
        rounds = [timing.alone(_one_round, name, seconds) for _ in range(repeats)]
        bare = median(speeds["simulator"] for speeds in rounds)
        rows += [
            {
                "task": name,
                "work": work,
                "steps_per_s": (speed := median(speeds[work] for speeds in rounds)),
                "of_simulator": speed / bare,
            }
            for work in rounds[0]
        ]
    return rows


def _one_round(name: str, seconds: float) -> dict[str, float]:
    """Steps a second of every kind of work."""
    task = find_task(name)
    assert task is not None
    speeds = {"simulator": _bare(task, seconds), "evaluation": _evaluation(task)}
    if task.maze is not None and name.startswith("pointmaze"):
        speeds["collection"] = _collection(name)
    return speeds


def _bare(task: Task, seconds: float) -> float:
    """One environment and random actions: no policy, no bookkeeping."""
    environment, rng = task.make(), np.random.default_rng(0)
    space: Any = environment.action_space
    actions = rng.uniform(space.low, space.high, (1000, *space.shape)).astype(np.float32)
    environment.reset(seed=0)
    steps, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        _, _, terminated, truncated, _ = environment.step(actions[steps % len(actions)])
        steps += 1
        if terminated or truncated:
            environment.reset()
    return steps / spent


def _evaluation(task: Task) -> float:
    """Whole episodes of an untrained policy of the usual size."""
    import jax

    from chary.algos.bc import BCConfig, make_bc
    from chary.data.scaling import RewardTransform, Scaling
    from chary.evaluation.agent import Agent

    environment: Any = task.make()
    sizes = environment.observation_space.shape[0], environment.action_space.shape[0]
    algorithm = make_bc(BCConfig(), *sizes)
    state = jax.jit(algorithm.init)(jax.random.key(0))
    scaling = Scaling.of(
        timing.random_dataset(*sizes, transitions=1000),
        RewardTransform(),
        normalise_observations=False,
    )
    agent = Agent(algorithm, state, scaling, task, seed=0, folder=Path())
    agent.act(np.zeros((EPISODES, sizes[0]), np.float32))  # compiles
    began = time.perf_counter()
    result = agent.evaluate(EPISODES)
    return float(result.lengths.sum()) / (time.perf_counter() - began)


def _collection(name: str) -> float:
    """Transitions on every core, the start of the processes included."""
    from chary.data.collect import mazes

    transitions = BLOCKS * mazes.BLOCK
    began = time.perf_counter()
    mazes.collect_maze(name, transitions, seed=0)
    return transitions / (time.perf_counter() - began)
