"""DeepMind's control suite as Gymnasium environments, with the observations of RL Unplugged."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import gymnasium
import numpy as np

from chary.envs import Task
from chary.envs.physics import import_mujoco, use_old_inertias
from chary.errors import CharyError


@dataclass(frozen=True)
class ControlTask:
    """A task of the suite, and the vectors it speaks in."""

    domain: str
    task: str
    observations: dict[str, int]
    """Size of each part of the observation, in the order of the environment's own specification."""
    actions: int

    @property
    def published(self) -> str:
        """Its name in RL Unplugged."""
        return f"{self.domain}_{self.task}"


_CARTPOLE = {"position": 3, "velocity": 2}
_CHEETAH = {"position": 8, "velocity": 9}
_FINGER = {"position": 4, "velocity": 3, "touch": 2, "target_position": 2, "dist_to_target": 1}
_FISH = {"joint_angles": 7, "upright": 1, "target": 3, "velocity": 13}
_HUMANOID = {
    "joint_angles": 21,
    "head_height": 1,
    "extremities": 12,
    "torso_vertical": 3,
    "com_velocity": 3,
    "velocity": 27,
}
_MANIPULATOR = {
    "arm_pos": 16,
    "arm_vel": 8,
    "touch": 5,
    "hand_pos": 4,
    "object_pos": 4,
    "object_vel": 3,
    "target_pos": 4,
}
_WALKER = {"orientations": 14, "height": 1, "velocity": 9}

TASKS = {
    f"rlu-{task.published.replace('_', '-')}": task
    for task in (
        ControlTask("cartpole", "swingup", _CARTPOLE, actions=1),
        ControlTask("cheetah", "run", _CHEETAH, actions=6),
        ControlTask("finger", "turn_hard", _FINGER, actions=2),
        ControlTask("fish", "swim", _FISH, actions=5),
        ControlTask("humanoid", "run", _HUMANOID, actions=21),
        ControlTask("manipulator", "insert_ball", _MANIPULATOR, actions=5),
        ControlTask("manipulator", "insert_peg", _MANIPULATOR, actions=5),
        ControlTask("walker", "stand", _WALKER, actions=6),
        ControlTask("walker", "walk", _WALKER, actions=6),
    )
}


def find(name: str) -> Task | None:
    """The control suite task of that name."""
    if name not in TASKS:
        return None
    task = TASKS[name]
    # A step is worth at most 1, and an episode has 1000.
    return Task(name, make=lambda: ControlSuite(task), reference_scores=(0.0, 1000.0))


@dataclass
class ControlSuite(gymnasium.Env[np.ndarray, np.ndarray]):
    """A task of the suite; observations are joined in their fixed order, actions lie in [-1, 1]."""

    task: ControlTask

    def __post_init__(self) -> None:
        self.suite = _load(self.task)
        size = sum(self.task.observations.values())
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (self.task.actions,), np.float32)
        bounds = self.suite.action_spec()
        self._low, self._range = bounds.minimum, bounds.maximum - bounds.minimum

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode as the suite does, from a seed of its own where one is given."""
        super().reset(seed=seed, options=options)
        if seed is not None:
            self.suite.task.random.seed(seed)
        return self.flatten(self.suite.reset().observation), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Act; a discount of 0 is a true end, any other last step the time limit."""
        share = 0.5 * (np.clip(np.asarray(action, np.float64), -1.0, 1.0) + 1.0)
        result = self.suite.step(self._low + share * self._range)
        terminated = result.last() and result.discount == 0.0
        truncated = result.last() and not terminated
        observation = self.flatten(result.observation)
        return observation, float(result.reward), terminated, truncated, {}

    def flatten(self, observation: dict[str, Any]) -> np.ndarray:
        """The parts of an observation as one vector."""
        parts = [np.ravel(observation[key]) for key in self.task.observations]
        return np.concatenate(parts).astype(np.float32)

    def close(self) -> None:
        self.suite.close()


def _load(task: ControlTask) -> Any:
    with _quiet():
        try:
            from dm_control import suite
        except ImportError as error:
            raise CharyError(
                f"{task.published}: its simulator is another package: pip install 'chary[rlu]'"
            ) from error
        loaded = suite.load(task.domain, task.task)
        # The data was logged before capsules were weighed as they are now.
        physics = loaded.physics
        use_old_inertias(physics.model.ptr, physics.data.ptr, _spec(task))
    return loaded


def _spec(task: ControlTask) -> Any:
    """The task's model before it is compiled."""
    module = import_module(f"dm_control.suite.{task.domain}")
    if task.domain == "manipulator":
        xml, assets = module.make_model(use_peg=task.task == "insert_peg", insert=True)
    else:
        xml, assets = module.get_model_and_assets()
    text = xml if isinstance(xml, str) else xml.decode()
    return import_mujoco().MjSpec.from_string(text, include=assets, assets=assets)


@contextmanager
def _quiet() -> Iterator[None]:
    """No word of screens that are not there, nor of old words in the suite's own models."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
