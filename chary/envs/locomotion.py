"""D4RL's hopper, halfcheetah, walker2d and ant: Gymnasium's robots in D4RL's physics.

Of Gymnasium's versions, v4 has D4RL's rewards (the step in which a robot falls still pays for being
alive) and D4RL's walker (one foot with less friction). `docs/environments.md` says how exact the replay
of real data is.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from chary.envs import Task
from chary.envs.physics import import_mujoco, quiet_mujoco, use_old_physics

HORIZON = 1000
CONTACT_FORCES = 84
"""Numbers at the end of D4RL's observations of the ant, always 0: MuJoCo 2.0 left them empty."""


class Robot(NamedTuple):
    """Where Gymnasium keeps a robot, and D4RL's reference returns of it."""

    module: str
    environment: str
    file: str
    reference_scores: tuple[float, float]


# Reference scores: D4RL's random policy and its expert.
ROBOTS = {
    "hopper": Robot("hopper_v4", "HopperEnv", "hopper.xml", (-20.272305, 3234.3)),
    "halfcheetah": Robot(
        "half_cheetah_v4", "HalfCheetahEnv", "half_cheetah.xml", (-280.178953, 12135.0)
    ),
    "walker2d": Robot("walker2d_v4", "Walker2dEnv", "walker2d.xml", (1.629008, 4592.3)),
    "ant": Robot("ant_v4", "AntEnv", "ant.xml", (-325.6, 3879.7)),
}
KINDS = ("random", "medium", "expert", "medium-replay", "medium-expert", "full-replay")
VERSIONS = ("v0", "v1", "v2")
# What a dataset was collected by makes no difference to the evaluation. A mixture is never D4RL's.
NAME = re.compile(
    rf"({'|'.join(ROBOTS)})(-({'|'.join((*KINDS, 'mixed'))}))?(-({'|'.join(VERSIONS)}))?"
)
NAMES = (
    *ROBOTS,
    *(f"{robot}-{kind}-{version}" for robot in ROBOTS for kind in KINDS for version in VERSIONS),
)


def find(name: str) -> Task | None:
    """The locomotion task of that name."""
    match = NAME.fullmatch(name)
    if match is None:
        return None
    robot = match[1]
    return Task(
        name,
        make=lambda **options: make_robot(robot, **options),
        reference_scores=ROBOTS[robot].reference_scores,
    )


def make_robot(name: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """The environment with D4RL's observations, physics and time limit."""
    robot = ROBOTS[name]
    import_mujoco()  # Gymnasium's own error would name another package
    module = import_module(f"gymnasium.envs.mujoco.{robot.module}")
    with quiet_mujoco():
        environment = getattr(module, robot.environment)(**options)
    use_old_physics(environment.model, Path(module.__file__ or "").parent / "assets" / robot.file)
    if name == "ant":
        environment = EmptyForces(environment)
    return gymnasium.wrappers.TimeLimit(environment, HORIZON)


class EmptyForces(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Adds the zeros that D4RL's ant observes in place of contact forces."""

    def __init__(self, environment: gymnasium.Env[Any, Any]) -> None:
        super().__init__(environment)
        shape = environment.observation_space.shape
        assert shape is not None
        self.observation_space = gymnasium.spaces.Box(
            -np.inf, np.inf, (shape[0] + CONTACT_FORCES,), np.float64
        )

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return np.concatenate([observation, np.zeros(CONTACT_FORCES)])
