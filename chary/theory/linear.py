"""Theorem 3.1 of Ghasemipour et al. 2022 for linear models, where everything can be written down.

Members are Q_theta(s, a) = theta . (s, a) with theta ~ N(0, I). With the rows of X and X' as in the
paper, C = X' X^T (X X^T)^-1, and after t + 1 iterations of policy evaluation the lower confidence bound
at X' is a value without pessimism minus

    independent targets    sqrt(E[(G (Q0(X') - C Q0(X)))^2])        never negative
    shared targets         G sqrt(E[(Q0(X') - C Q0(X))^2])          negative wherever G A < 0

where G = 1 + gamma C + ... + (gamma C)^t. All numbers are double precision, and a leading axis of runs
is mapped over.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from chary.errors import CharyError
from chary.settings import require

TOGETHER = 100
"""Runs of one call of the compiled program."""
CONVERGED = 1e-13
"""Iteration ends when values change by no more than this part of the largest."""


@dataclass(frozen=True)
class LinearConfig:
    """The linear-Gaussian simulation of Section 3.2; the defaults are the paper's."""

    runs: int = 1000
    """Datasets to draw."""
    state_size: int = 30
    """d_s, the dimension of states."""
    action_size: int = 30
    """d_a, the dimension of actions."""
    episodes: int = 5
    """N, episodes of a dataset."""
    length: int = 5
    """T, steps of an episode."""
    discount: float = 0.5
    """gamma."""
    exponent: int = 1000
    """t, the last power of gamma C in the geometric sum; policy evaluation makes t + 1 iterations."""
    members: int = 64
    """Linear models that are drawn for each run, and iterated to check the formulas."""
    seed: int = 0
    """Seed of everything random."""

    def __post_init__(self) -> None:
        for name in ("runs", "state_size", "action_size", "episodes", "length"):
            value = getattr(self, name)
            require(value >= 1, name.replace("_", "-"), value, "at least 1")
        require(0 <= self.discount < 1, "discount", self.discount, "at least 0 and below 1")
        require(self.exponent >= 0, "exponent", self.exponent, "at least 0")
        require(self.members >= 2, "members", self.members, "at least 2")
        require(0 <= self.seed < 2**31, "seed", self.seed, "between 0 and 2147483647")
        if self.episodes * self.length > self.state_size + self.action_size:
            raise CharyError(
                f"--episodes {self.episodes} times --length {self.length} are more transitions than the "
                f"{self.state_size + self.action_size} weights of a linear model can fit: make them "
                "fewer, or --state-size or --action-size larger."
            )


class Transitions(NamedTuple):
    """The paper's data matrices X, R and X'."""

    x: Float[Array, "transition input"]
    rewards: Float[Array, " transition"]
    next_x: Float[Array, "transition input"]


def draw_transitions(config: LinearConfig, *, key: PRNGKeyArray) -> Transitions:
    """Episodes of Gaussian states, actions and rewards; pi(s') is the action that was taken in s."""
    state_key, action_key, reward_key = jax.random.split(key, 3)
    shape = (config.episodes, config.length)
    states = jax.random.normal(state_key, (config.episodes, config.length + 1, config.state_size))
    actions = jax.random.normal(action_key, (*shape, config.action_size))
    rewards = jax.random.normal(reward_key, shape)
    pairs = [jnp.concatenate([s, actions], axis=-1) for s in (states[:, :-1], states[:, 1:])]
    x, next_x = (pair.reshape(-1, pair.shape[-1]) for pair in pairs)
    return Transitions(x, rewards.reshape(-1), next_x)


# ---- the theorem -----------------------------------------------------------------------------------


class Bounds(NamedTuple):
    """What Theorem 3.1 says about one dataset; the penalties are subtracted from the value."""

    contraction: Float[Array, ""]
    """gamma ||C||, in the spectral norm."""
    value: Float[Array, " transition"]
    """(1 + ... + gamma^t C^t) C R: policy evaluation without pessimism."""
    independent: Float[Array, " transition"]
    """Penalty of independent targets."""
    shared: Float[Array, " transition"]
    """Penalty of shared targets; a bonus where it is negative."""


def similarity(data: Transitions) -> Float[Array, "transition transition"]:
    """C = Theta(X', X) Theta(X, X)^-1, where a linear model's tangent kernel is Theta(A, B) = A B^T."""
    return jnp.linalg.solve(data.x @ data.x.T, data.x @ data.next_x.T).T


def geometric_sum(matrix: Float[Array, "n n"], exponent: int) -> Float[Array, "n n"]:
    """1 + M + ... + M^t = (1 - M)^-1 (1 - M^(t + 1))."""
    one = jnp.eye(len(matrix))
    return jnp.linalg.solve(one - matrix, one - jnp.linalg.matrix_power(matrix, exponent + 1))


def theorem(data: Transitions, discount: float, exponent: int) -> Bounds:
    """Theorem 3.1 without its vanishing term. For theta ~ N(0, I), E[(M theta)^2] is the squared length
    of each row of M."""
    c = similarity(data)
    backups = geometric_sum(discount * c, exponent)
    unexplained = data.next_x - c @ data.x  # Q0(X') - C Q0(X) = unexplained . theta
    return Bounds(
        contraction=discount * jnp.linalg.norm(c, ord=2),
        value=backups @ c @ data.rewards,
        independent=jnp.linalg.norm(backups @ unexplained, axis=1),
        shared=backups @ jnp.linalg.norm(unexplained, axis=1),
    )


# ---- the same by iteration -------------------------------------------------------------------------


def iterate(
    data: Transitions,
    weights: Float[Array, "member input"],
    discount: float,
    iterations: int,
    *,
    shared: bool,
) -> Float[Array, "member transition"]:
    """Q_i(X') after fitting every member to its targets again and again (the recursion in Appendix E).

    A fit from theta_0 on ends in the nearest weights that meet the targets y, and then
    Q(X') = Q0(X') + C (y - Q0(X)). Iterations that change nothing any more are left out.
    """
    c = similarity(data)
    initial = weights @ data.next_x.T
    constant = initial + (data.rewards - weights @ data.x.T) @ c.T

    def go_on(carry: tuple[Array, Array, Array]) -> Array:
        count, values, change = carry
        return (count < iterations) & (change > CONVERGED * jnp.abs(values).max())

    def fit(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, values, _ = carry
        next_values = values
        if shared:  # one target for all: the members' lower confidence bound
            next_values = values.mean(axis=0) - values.std(axis=0)
        fitted = constant + discount * next_values @ c.T
        return count + 1, fitted, jnp.abs(fitted - values).max()

    start = (jnp.asarray(0), initial, jnp.asarray(jnp.inf))
    return jax.lax.while_loop(go_on, fit, start)[1]


def exact_members(inputs: int) -> Float[Array, "member input"]:
    """The 2 d weights +-sqrt(d) e_k, whose mean is 0 and whose covariance is exactly I.

    An ensemble of these has the moments that infinitely many draws from N(0, I) would have.
    """
    corners = jnp.sqrt(inputs) * jnp.eye(inputs)
    return jnp.concatenate([corners, -corners])


def bonus(
    members: Float[Array, "member transition"], value: Float[Array, " transition"]
) -> Float[Array, " transition"]:
    """How far the members' lower confidence bound is above the value without pessimism."""
    return members.mean(axis=0) - members.std(axis=0) - value


# ---- many runs -------------------------------------------------------------------------------------


class LinearResult(NamedTuple):
    """One row a run; the bonus is what the bound adds to the value, optimistic where positive."""

    contraction: Float[np.ndarray, " run"]
    shared: Float[np.ndarray, "run transition"]
    """Bonus of shared targets by the theorem."""
    independent: Float[np.ndarray, "run transition"]
    """Bonus of independent targets by the theorem."""
    sampled_shared: Float[np.ndarray, "run transition"]
    """Bonus of shared targets in an iterated ensemble of sampled members."""
    sampled_independent: Float[np.ndarray, "run transition"]
    """Bonus of independent targets in an iterated ensemble of sampled members."""
    error_shared: Float[np.ndarray, " run"]
    """Largest difference between the theorem and iterated members with exact moments."""
    error_independent: Float[np.ndarray, " run"]
    """The same for independent targets."""

    @property
    def kept(self) -> np.ndarray:
        """Runs in which policy evaluation contracts, gamma ||C|| < 1."""
        return self.contraction < 1.0


def simulate(config: LinearConfig) -> LinearResult:
    """Draw every dataset, apply the theorem to it, and iterate ensembles on it."""
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(config.seed), config.runs)
        run = jax.jit(jax.vmap(_one_run(config)))
        parts = [
            jax.device_get(run(keys[start : start + TOGETHER]))
            for start in range(0, config.runs, TOGETHER)
        ]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return LinearResult(**columns)


def _one_run(config: LinearConfig) -> Callable[[PRNGKeyArray], dict[str, Array]]:
    iterations = config.exponent + 1

    def run(key: PRNGKeyArray) -> dict[str, Array]:
        data_key, member_key = jax.random.split(key)
        data = draw_transitions(config, key=data_key)
        bounds = theorem(data, config.discount, config.exponent)
        inputs = data.x.shape[1]
        sampled = jax.random.normal(member_key, (config.members, inputs))

        def ensemble(weights: Array, shared: bool) -> Array:
            members = iterate(data, weights, config.discount, iterations, shared=shared)
            return bonus(members, bounds.value)

        exact = exact_members(inputs)
        return {
            "contraction": bounds.contraction,
            "shared": -bounds.shared,
            "independent": -bounds.independent,
            "sampled_shared": ensemble(sampled, True),
            "sampled_independent": ensemble(sampled, False),
            "error_shared": jnp.abs(ensemble(exact, True) + bounds.shared).max(),
            "error_independent": jnp.abs(ensemble(exact, False) + bounds.independent).max(),
        }

    return run


def summarise(config: LinearConfig, result: LinearResult) -> dict[str, Any]:
    """The counts that the paper reports, and how well iteration agrees with the formulas."""
    kept = result.kept

    def optimistic(bonuses: np.ndarray) -> int:
        return int((bonuses[kept] > 0.0).any(axis=1).sum())

    def largest(errors: np.ndarray) -> float | None:
        return float(errors[kept].max()) if kept.any() else None

    def relative(sampled: np.ndarray, exact: np.ndarray) -> float | None:
        """Of the sampled bonus, against its size; falls with the square root of the members."""
        if not kept.any():
            return None
        return float(np.sqrt(((sampled - exact)[kept] ** 2).mean() / (exact[kept] ** 2).mean()))

    return {
        "runs": config.runs,
        "kept": int(kept.sum()),
        "shared_optimistic": optimistic(result.shared),
        "independent_optimistic": optimistic(result.sampled_independent),
        "sampled_shared_optimistic": optimistic(result.sampled_shared),
        "largest_shared_bonus": largest(result.shared.max(axis=1)),
        "largest_independent_bonus": largest(result.sampled_independent.max(axis=1)),
        "formula_error_shared": largest(result.error_shared),
        "formula_error_independent": largest(result.error_independent),
        "sampling_error_shared": relative(result.sampled_shared, result.shared),
        "sampling_error_independent": relative(result.sampled_independent, result.independent),
        "members": config.members,
    }
