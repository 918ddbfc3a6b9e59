"""Which action to take: of several samples of the policy the one that the critics think most of."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chary.networks.targets import mean_and_std
from chary.types import Algorithm


class Choice(NamedTuple):
    """Actions in [-1, 1] for each of the environments, and what the critics say of them."""

    actions: Any
    mean: Any
    std: Any


@partial(jax.jit, static_argnums=(0, 1))
def choose(
    algorithm: Algorithm[Any],
    candidates: int,
    state: Any,
    observations: Any,
    key: Any,
    weight: Any,
    noise: Any,
) -> Choice:
    """argmax_k mean_i Q_i(s, a_k) + weight * std_i Q_i(s, a_k), a_k ~ pi(s), for every observation."""
    assert algorithm.values is not None
    sample_key, noise_key = jax.random.split(key)
    count = len(observations)
    each = jnp.repeat(observations, candidates, axis=0)
    actions = algorithm.act(state, each, key=sample_key)
    actions = jnp.clip(actions + noise * jax.random.normal(noise_key, actions.shape), -1.0, 1.0)
    mean, std = mean_and_std(algorithm.values(state, each, actions))
    best = jnp.argmax((mean + weight * std).reshape(count, candidates), axis=1)
    rows = jnp.arange(count) * candidates + best
    return Choice(actions[rows], mean[rows], std[rows])


def is_deterministic(algorithm: Algorithm[Any], state: Any, observations: np.ndarray) -> bool:
    """Whether the policy has one action a state, so that exploring needs noise."""
    act, seen = jax.jit(algorithm.act), jnp.asarray(observations)
    return bool(np.array_equal(act(state, seen), act(state, seen, key=jax.random.key(0))))
