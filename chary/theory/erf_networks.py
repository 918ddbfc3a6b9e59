"""Finite networks with one hidden layer of erf units, in two parameterisations (Appendix F.2).

In NTK parameterisation features freeze as the width grows, in the maximal-update one (Yang and Hu 2021)
they are learned at every width. Both have the same tangent kernel when they begin.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from chary.theory.mdp import Chain
from chary.theory.members import for_every_member
from chary.theory.width_config import WidthConfig

PARAMETERISATIONS = ("ntk", "maximal-update")


class Network(NamedTuple):
    """One hidden layer of erf units."""

    weight: Float[Array, "*member 2 hidden"]
    bias: Float[Array, "*member hidden"]
    output: Float[Array, "*member hidden"]
    shift: Float[Array, "*member"]


def init_network(width: int, parameterisation: str, *, key: PRNGKeyArray) -> Network:
    """Normal parameters: of variance 1 in NTK parameterisation, 1 / width in the maximal-update one."""
    std = 1.0 if parameterisation == "ntk" else width**-0.5
    keys = jax.random.split(key, 4)
    shapes = ((2, width), (width,), (width,), ())
    return Network(*(std * jax.random.normal(k, s) for k, s in zip(keys, shapes, strict=True)))


def init_networks(config: WidthConfig, parameterisation: str, width: int, members: int) -> Network:
    """The ensemble that the seed gives. More members leave the first ones as they are."""
    key = jax.random.fold_in(jax.random.key(config.seed), width)
    keys = jax.vmap(lambda place: jax.random.fold_in(key, place))(jnp.arange(members))
    return jax.jit(jax.vmap(lambda k: init_network(width, parameterisation, key=k)))(keys)


def predict(
    network: Network, x: Float[Array, "batch 2"], config: WidthConfig, parameterisation: str
) -> Float[Array, " batch"]:
    """Q(s, a) = sigma_w / sqrt(n) v . erf(c (sigma_w / sqrt(2) W x + sigma_b b)) + sigma_b d.

    c is 1 in NTK parameterisation, and sqrt(n) in the maximal-update one: there the first layer makes up
    for small initial parameters, and the last layer does not (the abc of Table 1 in Yang and Hu 2021).
    """
    width = len(network.output)
    scale = 1.0 if parameterisation == "ntk" else width**0.5
    # Parameters are scaled, not activations, of which there are many more.
    weight = network.weight * (scale * config.weight_std / x.shape[1] ** 0.5)
    bias = network.bias * (scale * config.bias_std)
    output = network.output * (config.weight_std / width**0.5)
    return jax.lax.erf(x @ weight + bias) @ output + config.bias_std * network.shift


def make_iteration(
    config: WidthConfig, parameterisation: str, data: Chain
) -> Callable[[Network], Network]:
    """Each network computes its own targets and is fitted to them, by full-batch gradient descent."""
    x, rewards, next_x = (jnp.asarray(column, jnp.float32) for column in data)

    def fit(network: Network) -> Network:
        targets = rewards + config.discount * predict(network, next_x, config, parameterisation)

        def loss(network: Network) -> Float[Array, ""]:
            return 0.5 * ((predict(network, x, config, parameterisation) - targets) ** 2).mean()

        def step(_: Array, network: Network) -> Network:
            gradient = jax.grad(loss)(network)
            return jax.tree.map(lambda p, g: p - config.learning_rate * g, network, gradient)

        return jax.lax.fori_loop(0, config.steps, step, network)

    return for_every_member(fit)


def values(
    networks: Network, x: Float[np.ndarray, "batch 2"], config: WidthConfig, parameterisation: str
) -> Float[np.ndarray, "member batch"]:
    """What every member says, in double precision from here on."""
    inputs = jnp.asarray(x, jnp.float32)
    say = jax.jit(
        lambda networks: jax.lax.map(
            lambda network: predict(network, inputs, config, parameterisation), networks
        )
    )
    return np.asarray(say(networks), np.float64)
