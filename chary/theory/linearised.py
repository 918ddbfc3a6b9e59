"""Finite networks in NTK parameterisation, each replaced by its linearisation at the initial parameters:

    f(x; theta) = f(x; theta_0) + gradient f(x; theta_0) . (theta - theta_0)

The tangent kernel of this model is that of the finite network at theta_0, and does not change. So
`kernels.descend` gives the exact result of any number of gradient steps on this model. The result of
training the network itself differs, because its features move: the less, the wider it is.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import erf

from chary.theory import kernels, mdp
from chary.theory.erf_networks import Network
from chary.theory.kernels import Tangents
from chary.theory.mdp import Chain
from chary.theory.width_config import WidthConfig

UNITS = 2048
"""Hidden units that are summed over at once: the widest networks' would not fit into memory."""

Rows = Float[np.ndarray, "row 2"]


class Member(NamedTuple):
    """One linearised network, after fitted Q evaluation and where it began."""

    values: Float[np.ndarray, " grid"]
    initial: tuple[Float[np.ndarray, " n"], ...]
    """At the grid, at X and at X'."""


def evaluate(config: WidthConfig, network: Network) -> Member:
    """Fitted Q evaluation in closed form with the network's own kernel."""
    data, points = config.data(), mdp.policy_inputs()
    descent = kernels.descend(
        tangents(network, config, data, points), discount=config.discount,
        learning_rate=config.learning_rate, steps=config.steps, iterations=config.iterations,
    )  # fmt: skip
    at_points, at_x, at_next_x = (
        initial_values(network, config, rows) for rows in (points, data.x, data.next_x)
    )
    values = descent.apply(data, at_points, at_x, at_next_x)
    return Member(values, (at_points, at_x, at_next_x))


def tangents(
    network: Network, config: WidthConfig, data: Chain, points: Float[np.ndarray, "point 2"]
) -> Tangents:
    """The inner product of the gradients. With n units, z = sigma_w / sqrt(2) W x + sigma_b b,

        Theta(x, y) = sigma_w^2 / n sum_i erf(z_i(x)) erf(z_i(y)) + sigma_b^2
                      + k(x, y) sigma_w^2 / n sum_i v_i^2 erf'(z_i(x)) erf'(z_i(y))

    where k(x, y) = sigma_w^2 / 2 x . y + sigma_b^2."""
    rows = np.concatenate([data.x, data.next_x, points])
    count, width = len(data.x), len(network.output)
    values, slopes = np.zeros((2, len(rows), count))
    for active, slope, output in _units(network, rows, config):
        values += active @ active[:count].T
        slopes += (slope * output**2) @ slope[:count].T
    inputs = config.weight_std**2 / rows.shape[1] * rows @ data.x.T + config.bias_std**2
    theta = config.weight_std**2 / width * (values + slopes * inputs) + config.bias_std**2
    return Tangents(*np.split(theta, [count, 2 * count]))


def initial_values(network: Network, config: WidthConfig, rows: Rows) -> Float[np.ndarray, " row"]:
    """f(x; theta_0), in double precision."""
    total = np.zeros(len(rows))
    for active, _, output in _units(network, rows, config):
        total += active @ output
    scale = config.weight_std / len(network.output) ** 0.5
    return scale * total + config.bias_std * float(network.shift)


def _units(
    network: Network, rows: Rows, config: WidthConfig
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """erf(z), erf'(z) and v of some hidden units after the other."""
    weight, bias, output = (np.asarray(leaf, np.float64) for leaf in network[:3])
    for start in range(0, len(output), UNITS):
        some = slice(start, start + UNITS)
        z = config.weight_std / rows.shape[1] ** 0.5 * rows @ weight[:, some]
        z += config.bias_std * bias[some]
        yield erf(z), 2.0 / np.pi**0.5 * np.exp(-(z**2)), output[some]
