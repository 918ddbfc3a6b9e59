"""How many members are updated at a time: a rule, so that equal machines train equal bits.

On a processor, everything that a member's update touches should stay in cache from the forward pass to
Adam. So a window holds as many members as fit into a fixed number of bytes. The number may change the
last bits of a run: it is written into the run's config, and nothing that is measured decides it.
"""

from dataclasses import replace
from typing import Any

import jax

from chary.ensembles import make_ensemble
from chary.execution.devices import Devices, counted

CACHE = 32 * 2**20
"""Bytes that a window may touch: 4 members of 3x256 (docs/speed.md has what other windows cost)."""


def window_size(config: Any, devices: Devices, observation_size: int, action_size: int) -> int:
    """Members to update together, of those on a device: all, or the largest divisor that fits."""
    each = config.members // counted(devices)
    config = replace(config, members=each)
    in_windows = make_ensemble(
        config.ensemble, config.shape(observation_size, action_size)
    ).in_windows
    if jax.default_backend() != "cpu" or not in_windows:
        return each
    divisors = [n for n in range(1, each + 1) if each % n == 0]
    fitting = [
        n
        for n in divisors
        if working_set(replace(config, members=n), observation_size, action_size) <= CACHE
    ]
    return max(fitting, default=1)


def working_set(config: Any, observation_size: int, action_size: int) -> int:
    """Bytes that an update of all members goes through: four sets of parameters, and activations."""
    shape = config.shape(observation_size, action_size)
    ensemble = make_ensemble(config.ensemble, shape)
    parameters = jax.eval_shape(ensemble.init, jax.random.key(0))
    numbers = sum(leaf.size for leaf in jax.tree.leaves(parameters))
    # Logged and policy actions together, and those of H where each member has its own.
    own = getattr(config, "alpha", 0.0) and config.regulariser_samples == "own"
    kinds = 3 if own else 2
    rows = kinds * config.batch_size * config.members * shape.heads
    return 4 * (4 * numbers + 2 * rows * sum(config.hidden))
