"""Theorem 3.1 of Ghasemipour et al. 2022 for linear models, where everything can be written down.

Members are Q_theta(s, a) = theta . (s, a) with theta ~ N(0, I). With the rows of X and X' as in the
paper, C = X' X^T (X X^T)^-1, and after t + 1 iterations of policy evaluation the lower confidence bound
at X' is a value without pessimism minus

    independent targets    sqrt(E[(G (Q0(X') - C Q0(X)))^2])        never negative
    shared targets         G sqrt(E[(Q0(X') - C Q0(X))^2])          negative wherever G A < 0

where G = 1 + gamma C + ... + (gamma C)^t and A is the root in the second. Arrays may have a leading axis
of runs, over which everything is vectorised.

An ensemble of drawn members has a value without pessimism of its own: its mean with independent targets,
as policy evaluation is affine and the mean of members is the evaluation of their mean. A bound is
optimistic where it lies above that, not above the exact value, from which the draw of members differs.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from chary.config import BelowOne, Checked, Count, Positive, Seed, Several
from chary.errors import CharyError

TOGETHER = 100
"""Runs that are computed at once: as many as the processor's cache can hold."""
CONVERGED = 1e-13
"""Iteration ends when values change by no more than this part of the largest."""


@dataclass(frozen=True)
class LinearConfig(Checked):
    """The linear-Gaussian simulation of Section 3.2; the defaults are the paper's."""

    runs: Positive = 1000
    """Number of random datasets."""
    state_size: Positive = 30
    """d_s, the dimension of states."""
    action_size: Positive = 30
    """d_a, the dimension of actions."""
    episodes: Positive = 5
    """N, episodes of a dataset."""
    length: Positive = 5
    """T, steps of an episode."""
    discount: BelowOne = 0.5
    """Discount factor gamma."""
    exponent: Count = 1000
    """t, the last power of gamma C in the geometric sum; policy evaluation makes t + 1 iterations."""
    members: Several = 128
    """Linear models drawn for each dataset and iterated, to check the formulas."""
    seed: Seed = 0
    """Seed of all random numbers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.episodes * self.length > self.state_size + self.action_size:
            raise CharyError(
                f"--episodes {self.episodes} times --length {self.length} are more transitions than the "
                f"{self.state_size + self.action_size} weights of a linear model can fit: make them "
                "fewer, or --state-size or --action-size larger."
            )


class Transitions(NamedTuple):
    """The paper's data matrices X, R and X'."""

    x: Float[np.ndarray, "*run transition input"]
    rewards: Float[np.ndarray, "*run transition"]
    next_x: Float[np.ndarray, "*run transition input"]


def draw_transitions(config: LinearConfig, rng: np.random.Generator) -> Transitions:
    """Episodes of Gaussian states, actions and rewards; pi(s') is the action that was taken in s."""
    states = rng.standard_normal((config.episodes, config.length + 1, config.state_size))
    actions = rng.standard_normal((config.episodes, config.length, config.action_size))
    x, next_x = (
        np.concatenate([s, actions], axis=-1).reshape(-1, config.state_size + config.action_size)
        for s in (states[:, :-1], states[:, 1:])
    )
    return Transitions(x, rng.standard_normal(len(x)), next_x)


# ---- the theorem -----------------------------------------------------------------------------------


class Bounds(NamedTuple):
    """What Theorem 3.1 says about a dataset; the penalties are subtracted from the value."""

    value: Float[np.ndarray, "*run transition"]
    """(1 + ... + gamma^t C^t) C R: policy evaluation without pessimism."""
    independent: Float[np.ndarray, "*run transition"]
    """Penalty of independent targets."""
    shared: Float[np.ndarray, "*run transition"]
    """Penalty of shared targets; a bonus where it is negative."""


def similarity(data: Transitions) -> Float[np.ndarray, "*run transition transition"]:
    """C = Theta(X', X) Theta(X, X)^-1, where a linear model's tangent kernel is Theta(A, B) = A B^T."""
    gram, cross = data.x @ data.x.mT, data.x @ data.next_x.mT
    return np.linalg.solve(gram, cross).mT


def contraction(data: Transitions, discount: float) -> Float[np.ndarray, "*run"]:
    """gamma ||C|| in the spectral norm; policy evaluation may diverge where it is not below 1."""
    return np.asarray(discount * np.linalg.norm(similarity(data), ord=2, axis=(-2, -1)))


def theorem(data: Transitions, discount: float, exponent: int) -> Bounds:
    """Theorem 3.1 without its vanishing term. For theta ~ N(0, I), E[(M theta)^2] is the squared length
    of each row of M."""
    c = similarity(data)
    one, step = np.eye(c.shape[-1]), discount * c
    # 1 + M + ... + M^t = (1 - M)^-1 (1 - M^(t + 1))
    backups = np.linalg.solve(one - step, one - np.linalg.matrix_power(step, exponent + 1))
    unexplained = data.next_x - c @ data.x  # Q0(X') - C Q0(X) = unexplained . theta
    return Bounds(
        value=_times(backups @ c, data.rewards),
        independent=np.linalg.norm(backups @ unexplained, axis=-1),
        shared=_times(backups, np.linalg.norm(unexplained, axis=-1)),
    )


def _times(
    matrix: Float[np.ndarray, "*run a b"], vector: Float[np.ndarray, "*run b"]
) -> Float[np.ndarray, "*run a"]:
    return (matrix @ vector[..., None])[..., 0]


# ---- the same by iteration -------------------------------------------------------------------------


def iterate(
    data: Transitions,
    weights: Float[np.ndarray, "*#run member input"],
    discount: float,
    iterations: int,
    *,
    shared: bool,
) -> Float[np.ndarray, "*run member transition"]:
    """The members' values at X' after fitting every member to its targets again and again.

    A fit from theta_0 on ends in the nearest weights that meet the targets y, and then
    Q(X') = Q0(X') + C (y - Q0(X)) (Appendix E). Iterations that change nothing any more are left out.
    """
    c = similarity(data)
    values = weights @ data.next_x.mT
    constant = values + (data.rewards[..., None, :] - weights @ data.x.mT) @ c.mT
    for _ in range(iterations):
        # One target for all is their lower confidence bound; else everyone has its own.
        next_values = lower_bound(values)[..., None, :] if shared else values
        fitted = constant + discount * next_values @ c.mT
        change, values = np.abs(fitted - values).max(initial=0.0), fitted
        if change <= CONVERGED * np.abs(values).max(initial=0.0):
            break
    return values


def lower_bound(
    members: Float[np.ndarray, "*run member transition"],
) -> Float[np.ndarray, "*run transition"]:
    """Mean minus standard deviation over the members."""
    return members.mean(axis=-2) - members.std(axis=-2)


def exact_members(inputs: int) -> Float[np.ndarray, "member input"]:
    """The 2 d weights +-sqrt(d) e_k, whose mean is 0 and whose covariance is exactly I.

    An ensemble of these has the moments that infinitely many draws from N(0, I) would have.
    """
    corners = np.sqrt(inputs) * np.eye(inputs)
    return np.concatenate([corners, -corners])


# ---- many runs -------------------------------------------------------------------------------------


class LinearResult(NamedTuple):
    """A row for every run that was kept, but for the first field.

    A bonus is how far the lower confidence bound lies above the value without pessimism: the theorem's
    in closed forms, the ensemble's own mean with independent targets in sampled members."""

    contraction: Float[np.ndarray, " drawn"]
    """gamma ||C|| of all runs; those below 1 are kept."""
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


def simulate(config: LinearConfig) -> LinearResult:
    """Draw every dataset, apply the theorem to those that contract, and iterate ensembles on them."""
    blocks = [
        _simulate(config, range(start, min(start + TOGETHER, config.runs)))
        for start in range(0, config.runs, TOGETHER)
    ]
    result = LinearResult(*(np.concatenate(column) for column in zip(*blocks, strict=True)))
    if len(result.shared) == 0:
        raise CharyError(
            f"--discount {config.discount:g}: in none of the runs is gamma ||C|| below 1, where the "
            "theorem holds. Make it smaller."
        )
    return result


def _simulate(config: LinearConfig, runs: range) -> LinearResult:
    generators = [np.random.default_rng([config.seed, run]) for run in runs]
    drawn = [draw_transitions(config, generator) for generator in generators]
    every = Transitions(*(np.stack(column) for column in zip(*drawn, strict=True)))
    size = contraction(every, config.discount)
    kept = size < 1.0
    data = Transitions(*(column[kept] for column in every))
    bounds = theorem(data, config.discount, config.exponent)
    inputs = data.x.shape[-1]
    sampled = np.stack([g.standard_normal((config.members, inputs)) for g in generators])[kept]

    def evaluate(weights: np.ndarray, *, shared: bool) -> np.ndarray:
        return iterate(data, weights, config.discount, config.exponent + 1, shared=shared)

    def error(penalty: np.ndarray, *, shared: bool) -> np.ndarray:
        bound = lower_bound(evaluate(exact_members(inputs), shared=shared))
        return np.abs(bound - (bounds.value - penalty)).max(axis=1)

    independent = evaluate(sampled, shared=False)
    own_mean = independent.mean(axis=-2)
    return LinearResult(
        contraction=size,
        shared=-bounds.shared,
        independent=-bounds.independent,
        sampled_shared=lower_bound(evaluate(sampled, shared=True)) - own_mean,
        sampled_independent=lower_bound(independent) - own_mean,
        error_shared=error(bounds.shared, shared=True),
        error_independent=error(bounds.independent, shared=False),
    )


def optimistic_runs(bonuses: Float[np.ndarray, "run transition"]) -> int:
    """How many runs have a bound above the value without pessimism somewhere."""
    return int(np.count_nonzero(bonuses.max(axis=1) > 0.0))


def summarise(config: LinearConfig, result: LinearResult) -> dict[str, Any]:
    """The counts that the paper reports, and how well iteration agrees with the formulas."""

    def relative(sampled: np.ndarray, exact: np.ndarray) -> float:
        """Of the sampled bonus, against its size; falls with the square root of the members."""
        return float(np.sqrt(((sampled - exact) ** 2).mean() / (exact**2).mean()))

    return {
        "runs": config.runs,
        "kept": len(result.shared),
        "shared_optimistic": optimistic_runs(result.shared),
        "independent_optimistic": optimistic_runs(result.sampled_independent),
        "sampled_shared_optimistic": optimistic_runs(result.sampled_shared),
        "largest_shared_bonus": float(result.shared.max()),
        "largest_independent_bonus": float(result.sampled_independent.max()),
        "formula_error_shared": float(result.error_shared.max()),
        "formula_error_independent": float(result.error_independent.max()),
        "sampling_error_shared": relative(result.sampled_shared, result.shared),
        "sampling_error_independent": relative(result.sampled_independent, result.independent),
        "members": config.members,
    }
