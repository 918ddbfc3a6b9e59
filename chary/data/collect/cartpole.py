"""Cartpole swing-up in the layout of RL Unplugged: whole episodes by a controller of varying skill.

RL Unplugged logged an agent while it learned, so its episodes range from helpless to good. So do these:
every episode mixes the controller with slowly changing noise, in proportions of its own.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from chary.data.collect import Columns, block_sizes, collect_dataset
from chary.data.columns import COLUMNS
from chary.data.dataset import Dataset
from chary.envs import find_task

NAME = "rlu-cartpole-swingup"
TRANSITIONS = 200_000
BLOCK = 10_000
"""Transitions a job: ten episodes, so that the data does not depend on the number of cores."""
# Linear-quadratic regulator of the upright pole (costs 1, 10, 1, 1 of cart, angle and their speeds, 10
# of the action), on the suite's model linearised there.
BALANCE = np.array([0.3162, 4.987, 0.5933, 1.308])
PUMP, CENTRE = 1.0, 0.1
"""How hard the swinging pole's missing energy and the cart's distance from the centre are answered."""
KEPT = 0.95
"""Of the noise, from one step to the next."""


class Job(NamedTuple):
    transitions: int
    seed: int
    block: int


def collect_cartpole(*, transitions: int = TRANSITIONS, seed: int = 0, out: Path) -> Dataset:
    """A dataset of exactly that many transitions, the same for the same seed."""
    return collect_dataset(
        collect_block,
        [Job(size, seed, block) for block, size in enumerate(block_sizes(transitions, BLOCK))],
        name=NAME,
        settings={"name": NAME, "steps": transitions, "seed": seed},
        collected_by=f"swing-up controller of varying skill, seed {seed}",
        out=out,
    )


def collect_block(job: Job) -> Columns:
    """Episodes one after another until the block is full; the last is cut there."""
    task = find_task(NAME)
    assert task is not None
    environment = task.make()
    rng = np.random.default_rng([job.seed, job.block])
    rows: dict[str, list[np.ndarray | float | bool]] = {column: [] for column in COLUMNS}
    observation, skill, noise, done = np.zeros(0), 0.0, 0.0, True
    for _ in range(job.transitions):
        if done:
            observation, _ = environment.reset(seed=int(rng.integers(2**31)))
            skill, noise = rng.random(), 0.0
        noise = KEPT * noise + np.sqrt(1 - KEPT**2) * rng.standard_normal()
        push = skill * np.clip(swing_up(observation), -1.0, 1.0) + (1 - skill) * noise
        action = np.clip([push], -1.0, 1.0).astype(np.float32)
        following, reward, ended, cut, _ = environment.step(action)
        done = ended or cut
        row = (observation, action, float(reward), following, ended, cut and not ended)
        for column, value in zip(rows.values(), row, strict=True):
            column.append(value)
        observation = following
    environment.close()
    columns = {name: np.asarray(values) for name, values in rows.items()}
    columns["timeouts"][-1] = not columns["terminals"][-1]
    columns["rewards"] = columns["rewards"].astype(np.float32)
    return columns


def swing_up(observation: np.ndarray) -> float:
    """Pump energy into the hanging pole until it stands, then balance it."""
    cart, cosine, sine, speed, turning = map(float, observation)
    if cosine > 0.9 and abs(turning) < 3.0:
        return float(BALANCE @ [cart, np.arctan2(sine, cosine), speed, turning])
    # A rod of length 1 about its end, per unit of mass: 0 when it stands still and upright.
    energy = turning**2 / 6 + 9.81 / 2 * (cosine - 1)
    return PUMP * energy * np.sign(turning * cosine) - CENTRE * (cart + speed)
