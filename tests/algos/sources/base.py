"""What both tables are made of."""

from typing import Any, NamedTuple


class Source(NamedTuple):
    where: str
    values: dict[str, Any]


def long_run(steps: int, **values: Any) -> dict[str, Any]:
    """A run of so many steps; how often such a run is evaluated and logged is chary's own."""
    return {"steps": steps, "eval_every": 100_000, "log_every": 5_000, **values}


SMALL = "tried: results/baselines-tuned.md"
SMALL_NETWORKS = {"hidden": (64, 64, 64), "discount": 0.995, "tau": 0.05, "steps": 8_000}
"""What all small presets of algorithms with critics have."""
CENTRED = {"reward_scale": 4.0, "reward_shift": -0.5}
"""4 (r - 0.5), which is -2 or 2."""
LESS_ONE = {"reward_scale": 1.0, "reward_shift": -1.0}
"""r - 1, which is -1 or 0."""
AS_LOGGED = {"reward_scale": 1.0, "reward_shift": 0.0}
"""0 or 1."""
SAC = {
    "hidden": (256, 256, 256),
    "layer_norm": False,
    "batch_size": 256,
    "discount": 0.99,
    "critic_learning_rate": 3e-4,
    "policy_learning_rate": 3e-4,
    "tau": 0.005,
    "temperature": 1.0,
    "temperature_learning_rate": 3e-4,
    "target_entropy": "auto",  # minus the number of action dimensions
}
"""SAC's with three layers, as F-BRC, SAC-N and EDAC have it."""
