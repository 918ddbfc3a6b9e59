"""A control loop that hands back to the logged controller wherever the data ends.

    python examples/tank.py tank.csv
    chary data import tank.csv --out tank.npz --observations 'temp_*' --actions power \\
        --reward comfort --episode run --terminal tripped --action-low 0 --action-high 5
    chary train msg --dataset tank.npz --run runs/tank
    chary export runs/tank --out agent.npz
    python examples/fall_back.py agent.npz

The tank of docs/own-data.md is heated by the exported policy. Ten times the sensor works; ten times it
reads 40 degrees too much from half of the time on. Where the policy does not know the state, the
operators' rule takes over.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from tank import MOST_POWER, Tank


def load(path: Path) -> Any:
    """The agent in a file, by the reader beside it: NumPy is all that it needs."""
    beside = path.with_name(f"{path.stem}_reader.py")
    spec = importlib.util.spec_from_file_location("reader", beside)
    assert spec is not None and spec.loader is not None
    reader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reader)
    return reader.Agent(path)


def operators_rule(observation: np.ndarray) -> np.ndarray:
    """What the log's operators did, without their noise."""
    return np.clip([0.06 * (65 - observation[0]) + 2], 0, MOST_POWER)


def run(agent: Any, *, broken: bool, seed: int) -> tuple[float, int, int]:
    """Return of ten minutes, and the steps in which the rule took over, of how many."""
    tank, total, handed, steps = Tank(), 0.0, 0, 0
    observation, _ = tank.reset(seed=seed)
    over = False
    while not over:
        seen = observation + (40.0 if broken and tank.second >= 300 else 0.0)
        decision = agent.decide(seen)
        action = decision["action"][0]
        if decision["outside_data"][0]:
            action = operators_rule(observation)  # from a second sensor, say
            handed += 1
        observation, reward, _, over, _ = tank.step(action)
        total, steps = total + reward, steps + 1
    return total, handed, steps


if __name__ == "__main__":
    agent = load(Path(sys.argv[1]))
    for broken in (False, True):
        results = [run(agent, broken=broken, seed=seed) for seed in range(10)]
        returns, handed, steps = (np.array(each) for each in zip(*results, strict=True))
        sensor = "sensor breaks" if broken else "sensor works "
        took = f"the rule took over in {handed.sum()} of {steps.sum()} steps"
        print(f"{sensor}: mean return {returns.mean():.1f}, {took}")
