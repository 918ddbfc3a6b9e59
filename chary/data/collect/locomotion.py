"""Locomotion data from trained policies, one after another in given proportions."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chary.data.collect import Columns, block_sizes, collect_dataset
from chary.data.collect.controllers import MUST_HOLD, Controller
from chary.data.dataset import Dataset
from chary.envs import Task, find_task
from chary.errors import CharyError

TRANSITIONS = 1_000_000
ROBOTS = ("hopper", "halfcheetah", "walker2d", "ant")
# How many policies a dataset of that name is made of: at least, at most.
RECIPES = {
    "": (1, None),
    "-random": (0, 0),
    "-medium": (1, 1),
    "-expert": (1, 1),
    "-medium-expert": (2, 2),
    "-mixed": (2, None),
}
NAMES = tuple(robot + recipe for robot in ROBOTS for recipe in RECIPES)
"""Each may have a version at its end, as D4RL's names do."""
BLOCK = 10_000
"""Transitions a job: fixed, so that the data does not depend on the number of cores."""


class Job(NamedTuple):
    robot: str
    controller: Controller | None
    """None for uniformly random actions."""
    noise: float
    deterministic: bool
    transitions: int
    seed: int
    block: int


def find(name: str) -> tuple[str, str] | None:
    """The robot and the recipe of a dataset's name."""
    match = re.fullmatch(rf"({'|'.join(ROBOTS)})(-\D*?)?(-v\d)?", name)
    if match is None or (match[2] or "") not in RECIPES:
        return None
    return match[1], match[2] or ""


def collect_locomotion(
    name: str,
    policies: Sequence[Controller],
    *,
    out: Path,
    shares: Sequence[float] | None = None,
    transitions: int = TRANSITIONS,
    noise: float = 0.0,
    deterministic: bool = False,
    seed: int = 0,
) -> Dataset:
    """Write a dataset in D4RL's layout, the same for the same seed; `shares` are equal unless given."""
    found = find(name)
    assert found is not None
    robot, recipe = found
    _check_number(name, recipe, len(policies))
    task = find_task(robot)
    assert task is not None
    for index, policy in enumerate(policies, 1):
        _check_sizes(task, policy, index)
    controllers = list(policies) or [None]
    counts = share_out(transitions, shares or [1.0] * len(controllers))
    pieces = [
        (controller, size)
        for controller, count in zip(controllers, counts, strict=True)
        for size in block_sizes(count, BLOCK)
    ]
    prints = [policy.fingerprint for policy in policies]
    who = "policies " + ", ".join(text[:12] for text in prints) if prints else "random actions"
    return collect_dataset(
        collect_block,
        [
            Job(robot, controller, noise, deterministic, size, seed, block)
            for block, (controller, size) in enumerate(pieces)
        ],
        # The name decides which task a policy is evaluated in.
        name=name if find_task(name) else robot,
        settings={
            "name": name,
            "steps": transitions,
            "seed": seed,
            "policies": " ".join(prints),
            "transitions of each": " ".join(map(str, counts)),
            "noise": noise,
            "deterministic": deterministic,
        },
        collected_by=f"{who}, noise {noise}, seed {seed}",
        out=out,
    )


def collect_block(job: Job) -> Columns:
    """Episodes one after another until the block is full; the last is cut there."""
    task = find_task(job.robot)
    assert task is not None
    environment = task.make()
    simulator: Any = environment.unwrapped
    physics, action_size = simulator.data, simulator.model.nu
    rng = np.random.default_rng([job.seed, job.block])
    sampling = None if job.deterministic else rng
    names = (
        "observations", "actions", "rewards", "next_observations", "terminals", "timeouts",
        "infos/qpos", "infos/qvel",
    )  # fmt: skip
    rows: dict[str, list[np.ndarray | float | bool]] = {name: [] for name in names}
    observation, _ = environment.reset(seed=int(rng.integers(2**31)))
    for _ in range(job.transitions):
        # As in D4RL, the state before the step.
        position, velocity = physics.qpos.copy(), physics.qvel.copy()
        if job.controller is None:
            action = rng.uniform(-1.0, 1.0, action_size)
        else:
            action = job.controller.act(observation, sampling)
        if job.noise:
            action = action + job.noise * rng.standard_normal(action_size)
        action = np.clip(action, -1.0, 1.0).astype(np.float32)
        following, reward, ended, cut, _ = environment.step(action)
        values = (observation, action, float(reward), following, ended, cut and not ended)
        for column, value in zip(rows.values(), (*values, position, velocity), strict=True):
            column.append(value)
        observation = environment.reset()[0] if ended or cut else following
    environment.close()
    columns = {name: np.asarray(values) for name, values in rows.items()}
    columns["timeouts"][-1] = not columns["terminals"][-1]
    for name in ("observations", "rewards", "next_observations"):
        columns[name] = columns[name].astype(np.float32)
    return columns


def share_out(total: int, shares: Sequence[float]) -> list[int]:
    """Whole numbers in these proportions that add up to the total."""
    if not all(np.isfinite(share) and share > 0 for share in shares):
        raise CharyError(f"shares of policies must be positive numbers, not {list(shares)}.")
    ends = np.rint(np.cumsum(shares) / sum(shares) * total).astype(int)
    counts = np.diff(ends, prepend=0).tolist()
    if 0 in counts:
        raise CharyError(f"{total} transitions are too few for shares of {list(shares)}.")
    return counts


def _check_number(name: str, recipe: str, given: int) -> None:
    least, most = RECIPES[recipe]
    if given < least or (most is not None and given > most):
        needed = "no policy" if most == 0 else f"{least} policy file(s)"
        more = " or more" if most is None else ""
        hint = f" {MUST_HOLD}" if least else ""
        raise CharyError(
            f"{name}: made from {needed}{more}, but {given} given. Name each with --policy FILE, or "
            f"FILE:SHARE for unequal shares.{hint}"
        )


def _check_sizes(task: Task, policy: Controller, index: int) -> None:
    environment = task.make()
    sizes = (*(environment.observation_space.shape or ()), *(environment.action_space.shape or ()))
    environment.close()
    if (policy.observation_size, policy.action_size) != sizes:
        raise CharyError(
            f"policy {index} takes {policy.observation_size} numbers and gives {policy.action_size}, "
            f"but {task.name} has observations of {sizes[0]} and actions of {sizes[-1]}. It was trained "
            "for another robot or other observations."
        )
