"""Linearised networks against gradient descent on their parameters."""

import jax
import numpy as np
import pytest
from scipy.special import erf

from chary.theory import kernels, linearised, mdp
from chary.theory.erf_networks import Network, init_networks, values
from chary.theory.mdp import Chain
from chary.theory.width_config import WidthConfig

CONFIG = WidthConfig(weight_std=1.2, bias_std=0.3)
POINTS = np.array([[-1.0, 0.1], [-0.2, 0.1], [0.4, 0.1], [1.0, 0.1]])


@pytest.fixture
def data() -> Chain:
    return mdp.collect(2, 12, 0)


def one_of(width: int, member: int = 0) -> Network:
    networks = init_networks(CONFIG, "ntk", width, member + 1)
    return jax.tree.map(lambda leaf: np.asarray(leaf[member]), networks)


def plain(parameters: np.ndarray, x: np.ndarray, width: int) -> np.ndarray:
    """The network with all its parameters in a row: weights, biases, outputs, shift."""
    weight = parameters[: 2 * width].reshape(2, width)
    bias, output, (shift,) = np.split(parameters[2 * width :], [width, 2 * width])
    hidden = erf(1.2 / 2**0.5 * x @ weight + 0.3 * bias)
    return 1.2 / width**0.5 * hidden @ output + 0.3 * shift


def jacobian(parameters: np.ndarray, x: np.ndarray, width: int) -> np.ndarray:
    """By central differences."""
    steps = 1e-5 * np.eye(len(parameters))
    columns = [
        (plain(parameters + s, x, width) - plain(parameters - s, x, width)) / 2e-5 for s in steps
    ]
    return np.stack(columns, axis=1)


def flat(network: Network) -> np.ndarray:
    return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in network])


def test_the_kernel_is_the_inner_product_of_gradients(
    data: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linearised, "UNITS", 3)  # in three parts, the last of which is smaller
    network = one_of(7)
    at_x = jacobian(flat(network), data.x, 7)
    found = linearised.tangents(network, CONFIG, data, POINTS)
    for kernel, rows in zip(found, (data.x, data.next_x, POINTS), strict=True):
        expected = jacobian(flat(network), rows, 7) @ at_x.T
        np.testing.assert_allclose(kernel, expected, atol=1e-8)
    np.testing.assert_allclose(
        linearised.initial_values(network, CONFIG, POINTS), plain(flat(network), POINTS, 7)
    )


def test_the_closed_form_is_descent_on_the_linearised_networks_parameters(data: Chain) -> None:
    """Fitted Q evaluation with f(theta_0) + J (theta - theta_0), all steps taken."""
    network, width, discount, rate = one_of(5), 5, 0.9, 0.8
    begin = flat(network)
    at_x, at_next, at_points = (jacobian(begin, x, width) for x in (data.x, data.next_x, POINTS))
    start = [plain(begin, x, width) for x in (POINTS, data.x, data.next_x)]
    moved = np.zeros_like(begin)
    for _ in range(6):
        targets = data.rewards + discount * (start[2] + at_next @ moved)
        for _ in range(9):
            error = start[1] + at_x @ moved - targets
            moved = moved - rate * at_x.T @ error / len(targets)
    theta = linearised.tangents(network, CONFIG, data, POINTS)
    descent = kernels.descend(theta, discount=discount, learning_rate=rate, steps=9, iterations=6)
    found = descent.apply(data, *start)
    np.testing.assert_allclose(found, start[0] + at_points @ moved, atol=1e-7)


def test_wide_networks_have_the_analytic_kernel(data: Chain) -> None:
    expected = CONFIG.kernels().tangents(data, POINTS)
    distances = []
    for width in (100, 10_000):
        found = linearised.tangents(one_of(width), CONFIG, data, POINTS)
        distances.append(np.abs(found.at_x - expected.at_x).max())
    assert distances[1] < 0.3 * distances[0]  # 1 / sqrt(100) in the limit
    assert distances[1] < 0.05


def test_the_initial_function_is_that_of_the_networks_that_are_trained() -> None:
    networks = init_networks(CONFIG, "ntk", 50, 2)
    trained = values(networks, POINTS, CONFIG, "ntk")
    mine = [linearised.initial_values(one_of(50, member), CONFIG, POINTS) for member in range(2)]
    np.testing.assert_allclose(trained, mine, atol=1e-5)
