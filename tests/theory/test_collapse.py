"""The spread at infinite width with the paper's discount, data and ridge."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from chary.data.collect import run_jobs
from chary.theory import collapse, mdp
from chary.theory.kernels import Kernels
from chary.theory.width_config import WidthConfig


def theorem_with_ridge(sigma_w: float, sigma_b: float, data: mdp.Chain) -> np.ndarray:
    """Standard deviation along the grid from Theorem 3.1 in the limit of many iterations, in NumPy.

    Q(Z) = f(Z) + B (R + gamma Q(X') - f(X)) with B = Theta(Z, X) (Theta(X, X) + 1e-3)^-1, and Q(X') the
    solution of the same for Z = X'; its deviation for f with covariance K.
    """

    def k(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return sigma_w**2 / 2 * a @ b.T + sigma_b**2

    def kernels(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own = [1 + 2 * (sigma_w**2 / 2 * (x**2).sum(1) + sigma_b**2) for x in (a, b)]
        scale = own[0][:, None] * own[1][None]
        nngp = sigma_w**2 * 2 / np.pi * np.arcsin(2 * k(a, b) / np.sqrt(scale)) + sigma_b**2
        slopes = 4 / np.pi / np.sqrt(scale - 4 * k(a, b) ** 2)
        return nngp, nngp + sigma_w**2 * k(a, b) * slopes

    points, n = mdp.policy_inputs(), len(data.x)
    inverse = np.linalg.inv(kernels(data.x, data.x)[1] + 1e-3 * np.eye(n))
    at_next, at_points = (kernels(z, data.x)[1] @ inverse for z in (data.next_x, points))
    solved = np.linalg.inv(np.eye(n) - 0.99 * at_next)  # Q(X') = solved (f(X') - at_next f(X))
    joined = np.concatenate([points, data.next_x, data.x])
    weights = np.concatenate(
        [
            np.eye(len(points)),
            0.99 * at_points @ solved,
            -at_points - 0.99 * at_points @ solved @ at_next,
        ],
        axis=1,
    )
    return np.sqrt(((weights @ kernels(joined, joined)[0]) * weights).sum(axis=1))


@pytest.fixture(scope="module")
def table() -> dict[tuple[float, float], dict[str, Any]]:
    """Rows at the paper's size, in processes without threads that wait for each other."""
    pairs = [(1.0, 0.05), (1.0, 0.5), (1.5, 0.5)]
    work = partial(collapse.constants_row, WidthConfig())
    rows = run_jobs(work, [Kernels(*pair) for pair in pairs], title="closed forms")
    return dict(zip(pairs, rows, strict=True))


@pytest.mark.long
@pytest.mark.parametrize("bias_std", [0.05, 0.5])
def test_the_structure_collapses_whatever_sigma_b_is(
    bias_std: float, table: dict[tuple[float, float], dict[str, Any]]
) -> None:
    """With the default sigma_w complete fits contract, and the spread left and right is the same."""
    row = table[WidthConfig().weight_std, bias_std]
    assert row["radius"] < 1.0
    std = theorem_with_ridge(1.0, bias_std, mdp.collect(40, 30, 0))
    left, right = std[mdp.GRID <= -0.33].mean(), std[mdp.GRID >= 0.33].mean()
    assert row["ridge_ratio"] == pytest.approx(left / right, rel=0.02)
    assert row["ridge_left"] == pytest.approx(left, rel=0.02)
    assert 0.8 < row["ratio"] < 1.25 and 0.8 < row["ridge_ratio"] < 1.25


def test_what_diverges_has_no_ratio(table: dict[tuple[float, float], dict[str, Any]]) -> None:
    row = table[1.5, 0.5]
    assert row["radius"] > 1.0 and row["ridge_ratio"] is None
    assert row["ratio"] > 1.5  # as many gradient steps still have an end
    fast = WidthConfig(learning_rate=30.0, episodes=4)
    assert collapse.constants_row(fast, Kernels(1.0, 0.5))["ratio"] is None
