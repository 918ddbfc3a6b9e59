"""How many members are updated at a time: a rule, so that equal machines train equal bits.

On a processor, everything that a member's update touches should stay in cache from the forward pass to
Adam. So a window holds as many members as fit into a fixed number of bytes. The number may change the
last bits of a run: it is written into the run's config, and nothing that is measured decides it.
"""

from typing import Any

import jax

from chary.ensembles import EnsembleShape, make_ensemble
from chary.execution.devices import Devices, counted

CACHE = 32 * 2**20
"""Bytes that a window may touch: 4 members of 3x256 (docs/speed.md has what other windows cost)."""


def window_size(config: Any, devices: Devices, observation_size: int, action_size: int) -> int:
    """Members to update together, of those on a device: all, or the largest divisor that fits."""
    each = config.members // counted(devices)
    shape = config.shape(observation_size, action_size)._replace(members=each)
    if jax.default_backend() != "cpu" or not make_ensemble(config.ensemble, shape).in_windows:
        return each
    divisors = [n for n in range(1, each + 1) if each % n == 0]
    return max(
        (n for n in divisors if working_set(config, shape._replace(members=n)) <= CACHE), default=1
    )


def working_set(config: Any, shape: EnsembleShape) -> int:
    """Bytes that an update of all members goes through: four sets of parameters, and activations."""
    ensemble = make_ensemble(config.ensemble, shape)
    parameters = jax.eval_shape(ensemble.init, jax.random.key(0))
    numbers = sum(leaf.size for leaf in jax.tree.leaves(parameters))
    # Logged and policy actions together, and those of H where each member has its own.
    own = getattr(config, "alpha", 0.0) and config.regulariser_samples == "own"
    kinds = 3 if own else 2
    rows = kinds * config.batch_size * shape.members * shape.heads
    return 4 * (4 * numbers + 2 * rows * sum(config.hidden))
