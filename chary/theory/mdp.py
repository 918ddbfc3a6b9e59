"""The continuous chain of Appendix F: a line with a gap in the data, and a policy that crosses it."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from chary.errors import CharyError

GAP = 0.33
"""States within [-GAP, GAP] are missing from the data."""
STEP = 0.1
"""The evaluated policy's action in every state: to the right."""
REWARDED = 0.75
"""Steps that end in [REWARDED, 1] are rewarded with 1."""
REACH = 0.3
"""Logged actions are uniform in [-REACH, REACH]."""
GRID = np.linspace(-1.0, 1.0, 201).round(2)
"""States at which values are looked at, together with the policy's action."""


class Chain(NamedTuple):
    """Logged transitions: the paper's X, R and X', with rows (s, a) and (s', pi(s'))."""

    x: Float[np.ndarray, "transition 2"]
    rewards: Float[np.ndarray, " transition"]
    next_x: Float[np.ndarray, "transition 2"]


def move(
    states: Float[np.ndarray, " n"], actions: Float[np.ndarray, " n"] | float
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Next states, kept within [-1, 1], and rewards."""
    next_states = np.clip(states + actions, -1.0, 1.0)
    return next_states, (next_states >= REWARDED).astype(np.float64)


def collect(episodes: int, length: int, seed: int) -> Chain:
    """Random walks from random states, without the transitions that touch the gap."""
    rng = np.random.default_rng(seed)
    states = rng.uniform(-1.0, 1.0, episodes)
    columns: list[tuple[np.ndarray, ...]] = []
    for _ in range(length):
        actions = rng.uniform(-REACH, REACH, episodes)
        next_states, rewards = move(states, actions)
        columns.append((states, actions, rewards, next_states))
        states = next_states
    s, a, r, next_s = (np.concatenate(column) for column in zip(*columns, strict=True))
    kept = (np.abs(s) > GAP) & (np.abs(next_s) > GAP)
    if len(set(s[kept] > 0)) < 2:
        raise CharyError(
            f"--episodes {episodes} of --length {length} leave no data on one side of the gap: "
            "make them more."
        )
    next_x = np.stack([next_s, np.full_like(next_s, STEP)], axis=1)
    return Chain(np.stack([s, a], axis=1)[kept], r[kept], next_x[kept])


def policy_inputs() -> Float[np.ndarray, "grid 2"]:
    """(s, pi(s)) for the states of the grid."""
    return np.stack([GRID, np.full_like(GRID, STEP)], axis=1)


def true_values(discount: float) -> Float[np.ndarray, " grid"]:
    """Q of the policy at the grid: it is at the right end after at most 20 steps, and stays there."""
    states, total, weight = GRID, np.zeros_like(GRID), 1.0
    for _ in range(round(2.0 / STEP) + 1):
        states, rewards = move(states, STEP)
        total, weight = total + weight * rewards, weight * discount
    return total + weight / (1.0 - discount)


def finite(values: Float[np.ndarray, "member grid"], name: str) -> Float[np.ndarray, "member grid"]:
    """The same values; refuses those of networks that have diverged."""
    if not np.isfinite(values).all():
        raise CharyError(f"{name}: the networks diverged. Make --learning-rate smaller.")
    return values


def structure(std: Float[np.ndarray, " grid"]) -> dict[str, Any]:
    """Whether the spread has the form that the paper wants: wide where the policy still has to cross
    the gap, narrow beyond it, and rising from right to left in between."""
    left, right = std[GRID <= -GAP].mean(), std[GRID >= GAP].mean()
    edges = np.linspace(-GAP, GAP, 4)
    thirds = [std[(low <= GRID) & (high >= GRID)].mean() for low, high in pairwise(edges)]
    return {
        "left": float(left),
        "gap": [float(third) for third in thirds],
        "right": float(right),
        "ratio": float(left / right) if right > 0 else None,
        "rises": bool(thirds[0] > thirds[1] > thirds[2]),
    }
