"""TD targets: where the members' next values come from, and what the policy climbs with them.

Each rule is a pair: a backup, from the target networks' values (member, head, batch) to one next value
a member and sample, and the objective of the policy that goes with it.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float


def mean_and_std(
    values: Float[Array, "member batch"],
) -> tuple[Float[Array, " batch"], Float[Array, " batch"]]:
    """Mean and standard deviation (ddof 0) over members, with a gradient that is always finite.

    The square root's own gradient is infinite at zero variance (one member, or identical ones); there
    the deviation is flat for our purposes and its gradient is taken as zero.
    """
    variance = values.var(axis=0)
    spread = variance > 0.0
    std = jnp.where(spread, jnp.sqrt(jnp.where(spread, variance, 1.0)), 0.0)
    return values.mean(axis=0), std


def lower_confidence_bound(
    values: Float[Array, "member batch"], beta: Float[Array, ""] | float
) -> Float[Array, " batch"]:
    """Q_LCB = E[Q_i] + beta * sqrt(V[Q_i]), beta <= 0 (Eq. 7 of Ghasemipour et al. 2022)."""
    mean, std = mean_and_std(values)
    return mean + beta * std


def independent(next_heads: Float[Array, "member head batch"]) -> Float[Array, "member batch"]:
    """y_i = r + gamma * Q_i(s', a'): every member regresses to its own next value."""
    return next_heads.squeeze(axis=1)


def independent_double(
    next_heads: Float[Array, "member head batch"],
) -> Float[Array, "member batch"]:
    """Every member regresses both its networks to the smaller of its own two next values."""
    return next_heads.min(axis=1)


class Targets(NamedTuple):
    """A rule for TD targets and the policy objective that belongs to it."""

    heads: int
    """Networks a member."""
    backup: Callable[[Float[Array, "member head batch"]], Float[Array, "member batch"]]
    objective: Callable[
        [Float[Array, "member batch"], Float[Array, ""] | float], Float[Array, " batch"]
    ]


TARGETS = {
    "independent": Targets(1, independent, lower_confidence_bound),
    "double-q": Targets(2, independent_double, lower_confidence_bound),
}
