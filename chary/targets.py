"""TD targets: where the members' next values come from, and what the policy climbs with them.

Each rule is a pair: a backup, from the target networks' values (member, head, batch) to one next value
a member and sample, and the objective of the policy that goes with it. Those two lines are all that
independent and shared targets differ in (Section 5.2 of Ghasemipour et al. 2022).
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax.numpy as jnp
from jaxtyping import Array, Float

Beta: TypeAlias = Float[Array, ""] | float


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


def smallest(values: Float[Array, "..."], axis: int) -> Float[Array, "..."]:
    """The minimum along an axis, with a gradient that is always finite.

    `min` finds out by `==` which number to hand its gradient to. A compiler may compute that number
    twice with different rounding; then nothing is equal and the gradient is 0 / 0. Comparing the
    numbers among themselves, half with half, needs no such luck.
    """
    values = jnp.moveaxis(values, axis, 0)
    while len(values) > 1:
        half = len(values) // 2
        left, right, odd = values[:half], values[half : 2 * half], values[2 * half :]
        values = jnp.where(left <= right, left, right)
        if len(odd):
            values = jnp.concatenate([values, odd])
    return values[0]


# ---- objectives of the policy ----------------------------------------------------------------------


def lower_confidence_bound(
    values: Float[Array, "member batch"], beta: Beta
) -> Float[Array, " batch"]:
    """Q_LCB = E[Q_i] + beta * sqrt(V[Q_i]), beta <= 0 (Eq. 7 of Ghasemipour et al. 2022)."""
    mean, std = mean_and_std(values)
    return mean + beta * std


def mean(values: Float[Array, "member batch"], beta: Beta) -> Float[Array, " batch"]:
    """E[Q_i], whatever beta is."""
    del beta
    return values.mean(axis=0)


def minimum(values: Float[Array, "member batch"], beta: Beta) -> Float[Array, " batch"]:
    """min_i Q_i of each sample, whatever beta is."""
    del beta
    return smallest(values, axis=0)


# ---- backups ---------------------------------------------------------------------------------------


def independent(
    next_heads: Float[Array, "member head batch"], beta: Beta
) -> Float[Array, "member batch"]:
    """y_i = r + gamma * Q_i(s', a'_i): every member regresses to its own next value."""
    del beta
    return next_heads.squeeze(axis=1)


def independent_double(
    next_heads: Float[Array, "member head batch"], beta: Beta
) -> Float[Array, "member batch"]:
    """Every member regresses both its networks to the smaller of its own two next values."""
    del beta
    return next_heads.min(axis=1)


def shared_mean(
    next_heads: Float[Array, "member head batch"], beta: Beta
) -> Float[Array, "member batch"]:
    """y = r + gamma * mean_i Q_i(s', a'): one target for all."""
    return _for_all(mean, next_heads, beta)


def shared_lcb(
    next_heads: Float[Array, "member head batch"], beta: Beta
) -> Float[Array, "member batch"]:
    """y = r + gamma * (mean_i Q_i(s', a') + beta * std_i Q_i(s', a')): one pessimistic target for all
    (Method 2 in Section 3 of Ghasemipour et al. 2022)."""
    return _for_all(lower_confidence_bound, next_heads, beta)


def shared_min(
    next_heads: Float[Array, "member head batch"], beta: Beta
) -> Float[Array, "member batch"]:
    """y = r + gamma * min_i Q_i(s', a'): the smallest next value for all."""
    return _for_all(minimum, next_heads, beta)


def _for_all(
    aggregate: Callable[[Float[Array, "member batch"], Beta], Float[Array, " batch"]],
    next_heads: Float[Array, "member head batch"],
    beta: Beta,
) -> Float[Array, "member batch"]:
    values = next_heads.min(axis=1)
    return jnp.broadcast_to(aggregate(values, beta), values.shape)


class Targets(NamedTuple):
    """A rule for TD targets and the policy objective that belongs to it."""

    backup: Callable[[Float[Array, "member head batch"], Beta], Float[Array, "member batch"]]
    objective: Callable[[Float[Array, "member batch"], Beta], Float[Array, " batch"]]
    heads: int = 1
    """Networks a member."""
    shared: bool = False
    """One target for all members, and so one next action for all."""


TARGETS = {
    "independent": Targets(independent, lower_confidence_bound),
    "double-q": Targets(independent_double, lower_confidence_bound, heads=2),
    "shared-mean": Targets(shared_mean, mean, shared=True),
    "shared-lcb": Targets(shared_lcb, lower_confidence_bound, shared=True),
    "shared-min": Targets(shared_min, minimum, shared=True),
}
