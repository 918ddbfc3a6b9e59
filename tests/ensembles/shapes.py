"""Small ensembles to test with."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from chary.algos.msg_config import MSGConfig
from chary.ensembles import EnsembleShape

OBSERVATION, ACTION, BATCH = 4, 2, 7


def make_shape(**changes: Any) -> EnsembleShape:
    """Three members of one head and two hidden layers; other settings are MSG's defaults."""
    shape = MSGConfig(members=3, hidden=(6, 5)).shape(OBSERVATION, ACTION)
    return shape._replace(**changes)


def make_inputs(*leading: int, seed: int = 0) -> tuple[Any, Any]:
    """Observations and actions."""
    rng = np.random.default_rng(seed)
    observations = rng.standard_normal((*leading, BATCH, OBSERVATION))
    actions = rng.uniform(-1, 1, (*leading, BATCH, ACTION))
    return jnp.asarray(observations, jnp.float32), jnp.asarray(actions, jnp.float32)
