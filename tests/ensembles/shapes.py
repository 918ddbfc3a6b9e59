"""Small ensembles to test with."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chary.algos.msg_config import MSGConfig
from chary.ensembles import Ensemble, EnsembleShape

OBSERVATION, ACTION, BATCH = 4, 2, 6


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


def random_tree(like: Any, seed: int = 0) -> Any:
    """Random numbers in the given shapes, without waiting for a program that draws them."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda x: jnp.asarray(0.5 * rng.standard_normal(x.shape), jnp.float32), like
    )


def random_params(ensemble: Ensemble, seed: int = 0) -> Any:
    """Parameters of an ensemble with nothing special about them, biases included."""
    return random_tree(jax.eval_shape(ensemble.init, jax.random.key(0)), seed)
