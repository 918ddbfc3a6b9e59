"""A task of three numbers that two actions push around, and ones that go wrong."""

import time
from typing import Any

import gymnasium
import numpy as np


class Walk(gymnasium.Env[np.ndarray, np.ndarray]):
    """Reward for being near the origin; episodes of seven steps, of which some end early."""

    def __init__(self, fault: str = "", after: int = 10):
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.fault, self.after, self.taken = fault, after, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed, options=options)
        self.place = self.np_random.normal(size=3)
        if self.fault == "forgets":
            self.place = np.random.default_rng().normal(size=3)
        self.time = 0
        return self.place.astype(np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.taken += 1
        if self.taken > self.after:
            if self.fault == "raises":
                raise RuntimeError("the gripper\nis stuck")
            if self.fault == "hangs":
                time.sleep(30.0)
            if self.fault == "nan":
                self.place[1] = np.nan
        self.time += 1
        self.place = 0.9 * self.place + 0.3 * np.array([*action, action[0] * action[1]])
        reward = -float(np.square(self.place).sum())
        ended = reward > -0.02
        return self.place.astype(np.float32), reward, ended, self.time >= 7, {"success": ended}


def make() -> Walk:
    return Walk()


def raises() -> Walk:
    return Walk("raises")


def nan() -> Walk:
    return Walk("nan")


def hangs() -> Walk:
    return Walk("hangs")


def forgets() -> Walk:
    return Walk("forgets")
