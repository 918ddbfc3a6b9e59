"""TD targets: where the members' next values come from, and what the policy maximises with them.

Each rule is a pair: a backup, from the target networks' values (member, head, batch) to one next value
a member and sample, and the objective of the policy that goes with it. Those two lines are all that
independent and shared targets differ in (Section 5.2 of Ghasemipour et al. 2022).
"""

from collections.abc import Callable
from math import exp, lgamma, sqrt
from statistics import NormalDist
from typing import NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Beta: TypeAlias = Float[Array, ""] | float
Objective: TypeAlias = Callable[[Float[Array, "member batch"], Beta], Float[Array, " batch"]]


def mean_and_std(
    values: Float[Array, "member batch"],
) -> tuple[Float[Array, " batch"], Float[Array, " batch"]]:
    """Mean and standard deviation (ddof 0) over members, with a gradient that is always finite.

    The square root's own gradient is infinite at zero variance (one member, or identical ones); there
    the deviation is flat for our purposes and its gradient is taken as zero. Values that are no numbers
    have no deviation either: NaN, never 0.
    """
    variance = values.var(axis=0)
    flat = variance <= 0.0  # false for NaN, which must not look like agreement
    std = jnp.where(flat, 0.0, jnp.sqrt(jnp.where(flat, 1.0, variance)))
    return values.mean(axis=0), std


# ---- objectives of the policy ----------------------------------------------------------------------


def smallest(values: Float[Array, "..."], *, axis: int) -> Float[Array, "..."]:
    """The minimum along an axis, with the gradient to the one that is smallest.

    The gradient of `min` itself looks for values equal to the minimum. A compiler may compute them
    twice and round differently, and where it then finds none, it divides zero by zero.
    """
    if values.shape[axis] == 1:
        return values.squeeze(axis)
    index = jnp.expand_dims(jnp.argmin(values, axis=axis), axis)
    chosen = jnp.arange(values.shape[axis]).reshape(
        [-1 if a == axis else 1 for a in range(values.ndim)]
    )
    return jnp.where(chosen == index, values, 0.0).sum(axis=axis)


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


def minimum_of_all(values: Float[Array, "member batch"], beta: Beta) -> Float[Array, " batch"]:
    """min over members and batch: one value for the whole batch (the authors' code for Shared-Min)."""
    del beta
    return jnp.broadcast_to(smallest(values.reshape(-1), axis=0), values.shape[1:])


def of_expectation(objective: Objective) -> Objective:
    """LCB(E_s[Q(s, pi(s))]) instead of E_s[LCB(Q(s, pi(s)))] (Appendix G of Ghasemipour et al. 2022):
    the objective of the members' means over the batch, the same number for every row."""

    def of_the_means(values: Float[Array, "member batch"], beta: Beta) -> Float[Array, " batch"]:
        of_means = objective(values.mean(axis=-1, keepdims=True), beta)
        return jnp.broadcast_to(of_means, values.shape[1:])

    return of_the_means


def deviations(objective: Objective, beta: Beta, members: int) -> Beta:
    """How many of the members' standard deviations an objective lies from their mean: beta for the
    bound, none for the mean, and for the minimum as many as the smallest of so many normal draws."""
    if objective is mean:
        return 0.0
    return expected_minimum(members) if objective is minimum else beta


def expected_minimum(members: int) -> float:
    """(E[min_i x_i] - E[x]) / E[std_i x_i] of N independent normal x_i, std with ddof 0."""
    if members == 1:
        return 0.0
    points = np.linspace(-9.0, 9.0, 2_001)
    normal = NormalDist()
    density, below = (np.asarray([f(x) for x in points]) for f in (normal.pdf, normal.cdf))
    largest = (points * members * density * below ** (members - 1)).sum() * (points[1] - points[0])
    # The mean of a chi variable with N - 1 degrees of freedom, over the square root of N.
    spread = sqrt(2.0 / members) * exp(lgamma(members / 2) - lgamma((members - 1) / 2))
    return -float(largest) / spread


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
    return smallest(next_heads, axis=1)


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
    aggregate: Objective,
    next_heads: Float[Array, "member head batch"],
    beta: Beta,
) -> Float[Array, "member batch"]:
    values = smallest(next_heads, axis=1)
    return jnp.broadcast_to(aggregate(values, beta), values.shape)


class Targets(NamedTuple):
    """A rule for TD targets and the policy objective that belongs to it."""

    backup: Callable[[Float[Array, "member head batch"], Beta], Float[Array, "member batch"]]
    objective: Objective
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
