"""Networks, policies and their gradients in double precision and plain NumPy."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chary import algos
from chary.execution.config import DEFAULT, Execution
from chary.types import Batch

OBSERVATION, ACTION, SIZE = 3, 2, 8
GAMMA = 0.9
KEY = jax.random.key(5)
"""Of the step that is looked at."""


def make_batch(seed: int = 0, size: int = SIZE) -> Batch:
    """Transitions, every second of which ends."""
    rng = np.random.default_rng(seed)
    return Batch(
        observations=jnp.asarray(rng.standard_normal((size, OBSERVATION)), jnp.float32),
        actions=jnp.asarray(rng.uniform(-0.9, 0.9, (size, ACTION)), jnp.float32),
        rewards=jnp.asarray(rng.standard_normal(size), jnp.float32),
        discounts=jnp.asarray(np.arange(size) % 2, jnp.float32),
        next_observations=jnp.asarray(rng.standard_normal((size, OBSERVATION)), jnp.float32),
    )


def shaken(tree: Any, seed: int) -> Any:
    """Parameters moved a little: where biases are zero, units may sit exactly at the kink of a ReLU."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: leaf + 0.05 * jnp.asarray(rng.standard_normal(leaf.shape), jnp.float32), tree
    )


def double(tree: Any) -> Any:
    """The same in double precision."""
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tree)


def mlp(network: Any, inputs: np.ndarray) -> np.ndarray:
    """A multi-layer perceptron."""
    *hidden, last = network.layers
    for layer in hidden:
        inputs = np.maximum(inputs @ layer.weight + layer.bias, 0.0)
    return inputs @ last.weight + last.bias


def critics(networks: Any, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """(member, batch) values of separate networks."""
    pairs = np.concatenate([observations, actions], axis=-1)
    members = len(jax.tree.leaves(networks)[0])
    each = [jax.tree.map(lambda leaf, i=i: leaf[i, 0], networks) for i in range(members)]
    return np.stack([mlp(network, pairs)[..., 0] for network in each])


def softplus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(x))


def log_normal(x: np.ndarray, loc: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return -0.5 * ((x - loc) / scale) ** 2 - np.log(scale) - 0.5 * np.log(2.0 * np.pi)


def tanh_gaussian(policy: Any, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Location and scale of a policy."""
    features = np.maximum(mlp(policy.trunk, observations), 0.0)
    loc = features @ policy.loc.weight + policy.loc.bias
    return loc, softplus(features @ policy.raw_scale.weight + policy.raw_scale.bias) + 0.01


def sample(law: tuple[np.ndarray, np.ndarray], noise: np.ndarray) -> np.ndarray:
    return np.tanh(law[0] + law[1] * noise)


def log_prob(law: tuple[np.ndarray, np.ndarray], actions: np.ndarray) -> np.ndarray:
    """Log-density of actions away from the bounds."""
    each = log_normal(np.arctanh(actions), *law) - np.log(1.0 - actions**2)
    return each.sum(-1)


def check_gradient(
    loss: Callable[[Any], float], params: Any, optimiser: Any, *, before: Any = None, seed: int = 0
) -> None:
    """The gradient that Adam was given, against differences of the loss along a random line.

    In its first step, or in one after the optimiser state `before`: its first moment is nine tenths of
    what it was, and a tenth of the gradient.
    """
    gradient = [10.0 * mean for mean in jax.tree.leaves(double(optimiser.mu))]
    if before is not None:
        old = jax.tree.leaves(double(before.mu))
        gradient = [new - 9.0 * mean for new, mean in zip(gradient, old, strict=True)]
    leaves, structure = jax.tree.flatten(double(params))
    rng = np.random.default_rng(seed)
    line = [rng.standard_normal(leaf.shape) for leaf in leaves]

    def at(distance: float) -> float:
        moved = [leaf + distance * d for leaf, d in zip(leaves, line, strict=True)]
        return loss(jax.tree.unflatten(structure, moved))

    differences = (at(1e-5) - at(-1e-5)) / 2e-5
    slope = sum((g * d).sum() for g, d in zip(gradient, line, strict=True))
    np.testing.assert_allclose(slope, differences, rtol=2e-4, atol=1e-4)


def rate(before: Any, after: Any) -> float:
    """The step size of an Adam step: how far parameters moved along the direction of its moments."""
    old, new = (jax.tree.leaves(double(trained[0])) for trained in (before, after))
    means, squares = (jax.tree.leaves(double(m)) for m in after.optimiser[1:])
    count = float(after.optimiser.count)
    along, length = 0.0, 0.0
    for a, b, mean, square in zip(old, new, means, squares, strict=True):
        size = np.sqrt(square / (1.0 - 0.999**count)) + 1e-8
        direction = mean / (1.0 - 0.9**count) / size
        along += ((a - b) * direction).sum()
        length += (direction**2).sum()
    return along / length


def prepare(name: str, config: Any, execution: Execution = DEFAULT) -> tuple[Any, Any]:
    """A compiled update, and a state whose targets differ from what is trained."""
    algorithm = algos.build(name, config, OBSERVATION, ACTION, execution)
    # The first state is not compiled as a whole: its parts are the same for most settings.
    return jax.jit(algorithm.update), apart(algorithm.init(jax.random.key(0)))


def one_step(
    name: str, config: Any, batch: Batch | None = None
) -> tuple[Any, Any, dict[str, Any], Any]:
    """Before and after a step, its metrics, and its batch."""
    update, state = prepare(name, config)
    batch = batch or make_batch()
    after, metrics = update(state, batch, KEY)
    return double(state), double(after), metrics, double(batch)


def apart(state: Any) -> Any:
    """The state with all networks moved, targets elsewhere than what is trained."""
    moved = {}
    for index, name in enumerate(("policy", "value", "critics", "behaviour", "flow")):
        part = getattr(state, name, None)
        if part is not None:
            networks = {"params", "online", "target"} & set(part._fields)
            seeds = {"params": 0, "online": 0, "target": 1}
            moved[name] = part._replace(
                **{n: shaken(getattr(part, n), 2 * index + seeds[n]) for n in networks}
            )
    return state._replace(**moved)


def check(metrics: dict[str, Any], expected: dict[str, float]) -> None:
    found = {name: float(metrics[name]) for name in expected}
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)


def td(values: np.ndarray, wanted: np.ndarray) -> float:
    return 0.5 * ((values - wanted) ** 2).mean(axis=-1).sum()
