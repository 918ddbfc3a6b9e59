"""The heated tank of docs/own-data.md, and the log that its operators kept: 200 runs of ten minutes.

    python examples/tank.py tank.csv

Every ten seconds the log has two temperatures, the heater's power, how comfortable it was (minus a tenth
of how far the second temperature is from 60 degrees), and whether the fuse tripped.
"""

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

RUNS, SECONDS, EVERY = 200, 600, 10
MOST_POWER = 5.0
FUSE = 95.0
"""Degrees at the heater at which the fuse trips."""
HEADING = "run,second,temp_1,temp_2,power,comfort,tripped,operator"


class Tank(gymnasium.Env[np.ndarray, np.ndarray]):
    """The tank as a task: what nobody has who only has the log.

    A run always lasts ten minutes: when the fuse has tripped, the heater stays off until the end. No
    run is better for having been cut short.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Box(0.0, MOST_POWER, (1,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.near = self.far = float(self.np_random.uniform(15, 40))
        self.second, self.tripped = 0, False
        return self._observation(), {}

    def _observation(self) -> np.ndarray:
        return np.array([self.near, self.far], np.float32)

    @property
    def comfort(self) -> float:
        return -abs(self.far - 60) / 10

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = self.comfort
        power = 0.0 if self.tripped else float(np.clip(np.asarray(action).item(), 0, MOST_POWER))
        flow = 0.05 * (self.near - self.far)
        self.near += 0.9 * power - 0.035 * (self.near - 18) - flow + self.np_random.normal(0, 0.1)
        self.far += 2 * flow + self.np_random.normal(0, 0.1)
        self.tripped |= self.near > FUSE
        self.second += EVERY
        return self._observation(), reward, False, self.second == SECONDS, {}


def write_csv(path: Path) -> float:
    """Write the log; returns the mean return of its runs."""
    tank, total = Tank(), 0.0
    tank.np_random = rng = np.random.default_rng(0)
    lines = [HEADING]
    for run in range(RUNS):
        tank.reset()
        over = False
        while not over:
            power = np.clip(rng.normal(0.06 * (65 - tank.near) + 2, 1.2), 0, MOST_POWER)
            row = (
                f"{run},{tank.second},{tank.near:.2f},{tank.far:.2f},{power:.3f},{tank.comfort:.3f}"
            )
            _, reward, _, over, _ = tank.step(power)
            total += reward
            lines.append(f"{row},{tank.tripped},{rng.choice(['A', 'B'])}")
            over |= tank.tripped
    path.write_text("\n".join(lines) + "\n")
    return total / RUNS


if __name__ == "__main__":
    write_csv(Path(sys.argv[1] if len(sys.argv) > 1 else "tank.csv"))
