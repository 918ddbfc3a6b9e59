"""Fitted Q evaluation with a tangent kernel that does not change, in closed form.

Full-batch gradient descent on a model that is linear in its parameters is a linear recursion: a step
multiplies the error along each eigenvector of the kernel Theta(X, X) by one number, so that t steps are
that number's power. Fitted Q evaluation is then affine in the initial function, and n iterations are the
power of a matrix. This is exact for two kinds of networks: the infinitely wide one in NTK
parameterisation, whose kernel does not change while it learns (Lee et al. 2019), and the linearisation
of a finite one (`linearised.py`). It is not exact for a finite network itself, whose kernel changes.
Everything here is double precision.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from chary.errors import CharyError
from chary.theory.mdp import Chain

Matrix = Float[np.ndarray, "a b"]


class Tangents(NamedTuple):
    """Theta between rows of three kinds and the logged pairs X."""

    at_x: Float[np.ndarray, "transition transition"]
    """Theta(X, X)."""
    at_next_x: Float[np.ndarray, "transition transition"]
    """Theta(X', X)."""
    at_points: Float[np.ndarray, "point transition"]
    """Theta(Z, X), for the points Z that are looked at."""


class Kernels(NamedTuple):
    """Of an infinitely wide network with one erf layer, the limit n to infinity of

        sigma_w / sqrt(n) v . erf(sigma_w / sqrt(d) W x + sigma_b b) + sigma_b c

    with standard normal parameters."""

    weight_std: float
    bias_std: float

    def covariance(self, a: Float[np.ndarray, "a d"], b: Float[np.ndarray, "b d"]) -> Matrix:
        """Of the hidden units before erf."""
        return self.weight_std**2 / a.shape[1] * a @ b.T + self.bias_std**2

    def _scales(self, a: Float[np.ndarray, "a d"], b: Float[np.ndarray, "b d"]) -> Matrix:
        """(1 + 2 k(a, a)) (1 + 2 k(b, b)) for every pair."""
        own = [
            1.0 + 2.0 * (self.weight_std**2 / x.shape[1] * (x**2).sum(axis=1) + self.bias_std**2)
            for x in (a, b)
        ]
        return np.outer(*own)

    def nngp(self, a: Float[np.ndarray, "a d"], b: Float[np.ndarray, "b d"]) -> Matrix:
        """K, the covariance of the initial function (Williams 1997):
        sigma_w^2 2 / pi arcsin(2 k(a, b) / sqrt((1 + 2 k(a, a)) (1 + 2 k(b, b)))) + sigma_b^2."""
        angle = 2.0 * self.covariance(a, b) / np.sqrt(self._scales(a, b))
        return self.weight_std**2 * 2.0 / np.pi * np.arcsin(angle) + self.bias_std**2

    def ntk(self, a: Float[np.ndarray, "a d"], b: Float[np.ndarray, "b d"]) -> Matrix:
        """Theta, the inner product of the function's gradients: that of the last layer is K, that of
        the first sigma_w^2 k(a, b) E[erf'(z_a) erf'(z_b)]."""
        covariance = self.covariance(a, b)
        slopes = 4.0 / np.pi / np.sqrt(self._scales(a, b) - 4.0 * covariance**2)
        return self.nngp(a, b) + self.weight_std**2 * covariance * slopes

    def tangents(self, data: Chain, points: Float[np.ndarray, "point d"]) -> Tangents:
        """Theta on the data and at the points."""
        return Tangents(*(self.ntk(rows, data.x) for rows in (data.x, data.next_x, points)))


class Evaluation(NamedTuple):
    """What fitted Q evaluation makes of an initial function f, at points Z:

    f(Z) + gain . (R + gamma f(X') - f(X)).
    """

    gain: Float[np.ndarray, "point transition"]
    discount: float

    def apply(
        self,
        data: Chain,
        at_points: Float[np.ndarray, "*member point"],
        at_x: Float[np.ndarray, "*member transition"],
        at_next_x: Float[np.ndarray, "*member transition"],
    ) -> Float[np.ndarray, "*member point"]:
        """The values that members with these initial functions end with."""
        return at_points + (data.rewards + self.discount * at_next_x - at_x) @ self.gain.T

    def moments(
        self, kernels: Kernels, data: Chain, points: Float[np.ndarray, "point d"]
    ) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, " point"]]:
        """Mean and standard deviation over initial functions with mean 0 and covariance K."""
        joined = np.concatenate([points, data.next_x, data.x])
        weights = np.concatenate(
            [np.eye(len(points)), self.discount * self.gain, -self.gain], axis=1
        )
        variance = ((weights @ kernels.nngp(joined, joined)) * weights).sum(axis=1)
        return self.gain @ data.rewards, np.sqrt(np.maximum(variance, 0.0))


def descend(
    theta: Tangents,
    *,
    discount: float,
    learning_rate: float,
    steps: int,
    iterations: int,
) -> Evaluation:
    """Fitted Q evaluation where every fit is `steps` steps of gradient descent on half the mean square.

    In the eigenbasis of Theta(X, X) / n a fit multiplies each component of the error by
    (1 - learning_rate eigenvalue)^steps. With f = f_0 + Theta(., X) alpha, a fit adds
    P (R + gamma f(X') - f(X)) to alpha, which is affine: `iterations` of them are a power.
    """
    count = len(theta.at_x)
    eigenvalues, basis = np.linalg.eigh(theta.at_x / count)
    eigenvalues = np.maximum(eigenvalues, 0.0)  # rounding makes some of them negative
    if learning_rate * eigenvalues[-1] >= 2.0:
        raise CharyError(
            f"--learning-rate {learning_rate:g} is too large: with this kernel gradient descent "
            f"diverges from {2.0 / eigenvalues[-1]:.3g} on."
        )
    left = (1.0 - learning_rate * eigenvalues) ** steps
    # (1 - left) / eigenvalue, whose limit at zero is learning_rate * steps.
    small = eigenvalues * learning_rate * steps < 1e-8
    gained = np.where(
        small, learning_rate * steps, (1.0 - left) / np.where(small, 1.0, eigenvalues)
    )
    fit = (basis * gained) @ basis.T / count
    change = discount * theta.at_next_x - theta.at_x
    total = affine_power(np.eye(count) + fit @ change, fit, iterations)
    return Evaluation(theta.at_points @ total, discount)


def solve(theta: Tangents, *, discount: float, ridge: float, iterations: int) -> Evaluation:
    """Fitted Q evaluation where every fit is complete: Theorem 3.1, with Theta(X, X) + ridge I.

    With f = f_0 + Theta(., X) alpha, a fit sets alpha to P (R + gamma f(X') - f_0(X)).
    """
    fit = np.linalg.inv(theta.at_x + ridge * np.eye(len(theta.at_x)))
    total = affine_power(discount * fit @ theta.at_next_x, fit, iterations)
    return Evaluation(theta.at_points @ total, discount)


def affine_power(
    matrix: Float[np.ndarray, "n n"], constant: Float[np.ndarray, "n n"], exponent: int
) -> Float[np.ndarray, "n n"]:
    """S such that `exponent` times alpha <- M alpha + B b, from alpha = 0, gives S b.

    S = (1 + M + ... + M^(exponent - 1)) B, by doubling: that many products as the exponent has digits.
    """
    result, power = np.zeros_like(matrix), np.eye(len(matrix))
    square, sum_ = matrix, np.eye(len(matrix))  # M^k and 1 + ... + M^(k - 1), for k = 1, 2, 4, ...
    while exponent:
        if exponent & 1:
            result, power = result + power @ sum_, power @ square
        sum_, square = sum_ + square @ sum_, square @ square
        exponent >>= 1
    return result @ constant


def spectral_radius(theta: Tangents, *, discount: float, ridge: float) -> float:
    """Of gamma C: complete fits converge where it is below 1."""
    gram = theta.at_x + ridge * np.eye(len(theta.at_x))
    c = np.linalg.solve(gram, theta.at_next_x.T).T
    return float(discount * np.abs(np.linalg.eigvals(c)).max())
