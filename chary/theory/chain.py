"""Five rules for targets on the chain with a gap (Appendix F.1 of Ghasemipour et al. 2022).

One iteration computes the targets of the rule and fits every network to its own, with Adam on all
transitions at once; there are no target networks. What is looked at is how the members' spread at
(s, pi(s)) depends on s.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from chary.config import (
    BelowOne,
    Checked,
    Pessimism,
    Positive,
    Rate,
    Seed,
    Several,
    Weight,
    require,
    to_json,
)
from chary.host.terminal import progress_bar
from chary.networks.layers import Dense
from chary.networks.optimisers import adam_init, adam_step
from chary.networks.targets import TARGETS, Targets
from chary.theory import mdp, resumable
from chary.theory.mdp import Chain
from chary.theory.members import for_every_member
from chary.types import PyTree


@dataclass(frozen=True)
class ChainConfig(Checked):
    """Ensembles on the continuous chain; the defaults are the paper's."""

    rules: tuple[str, ...] = tuple(TARGETS)
    """Kinds of targets to compare."""
    members: Several = 64
    """Number N of members of an ensemble; for double-q each is a pair of networks."""
    hidden: Positive = 512
    """Tanh units of the single hidden layer."""
    weight_scale: Rate = 10.0
    """Variance of initial weights, times the number of inputs."""
    bias_scale: Rate = 0.05
    """Variance of initial biases, times their number."""
    discount: BelowOne = 0.99
    """Discount factor gamma."""
    beta: Pessimism = -2.0
    """Weight of the standard deviation in shared LCB targets."""
    learning_rate: Rate = 1e-4
    """Adam's learning rate."""
    iterations: Positive = 1000
    """Iterations: how often the targets are recomputed."""
    steps: Positive = 2000
    """Adam steps per iteration."""
    episodes: Positive = 40
    """Logged episodes."""
    length: Positive = 30
    """Steps of a logged episode."""
    seed: Seed = 0
    """Seed of the data and of the networks."""
    checkpoint_minutes: Weight = 5.0
    """Minutes between checkpoints. The same command resumes from the last one."""

    def __post_init__(self) -> None:
        for name in self.rules:
            require(name in TARGETS, "rules", name, f"of {', '.join(TARGETS)}")
        require(len(self.rules) > 0, "rules", "empty", f"some of {', '.join(TARGETS)}")
        require(len(set(self.rules)) == len(self.rules), "rules", self.rules, "different ones")
        super().__post_init__()


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    # Fewer and smaller networks. With twice the learning rate and half the steps Adam gets as far in an
    # iteration as in the paper; with a tenfold rate members jitter so much that their spread loses its
    # form. The discount needs its iterations: of the initial values 0.99^500 is left, 0.7%.
    "quick": {
        "members": 12,
        "hidden": 64,
        "learning_rate": 2e-4,
        "iterations": 500,
        "steps": 1000,
    },
}


# ---- networks --------------------------------------------------------------------------------------


class Network(NamedTuple):
    """One hidden layer of tanh units."""

    first: Dense
    last: Dense


def init_network(config: ChainConfig, *, key: PRNGKeyArray) -> Network:
    """Fan-in truncated normal weights and biases; a bias counts its own length as its inputs."""
    weights = jax.nn.initializers.variance_scaling(
        config.weight_scale, "fan_in", "truncated_normal"
    )
    biases = jax.nn.initializers.variance_scaling(config.bias_scale, "fan_in", "truncated_normal")

    def layer(inputs: int, outputs: int, key: PRNGKeyArray) -> Dense:
        weight_key, bias_key = jax.random.split(key)
        return Dense(weights(weight_key, (inputs, outputs)), biases(bias_key, (outputs, 1))[:, 0])

    first_key, last_key = jax.random.split(key)
    return Network(layer(2, config.hidden, first_key), layer(config.hidden, 1, last_key))


def predict(network: Network, x: Float[Array, "batch 2"]) -> Float[Array, " batch"]:
    """Q(s, a) of each row."""
    return network.last(jnp.tanh(network.first(x)))[:, 0]


# ---- policy evaluation -----------------------------------------------------------------------------


class ChainState(NamedTuple):
    """Networks (a leading axis of members times heads) and what is needed to resume."""

    networks: Network
    optimiser: PyTree
    done: Int[Array, ""]
    """Iterations so far."""
    residuals: Float[Array, " iteration"]
    """Root mean square of Q(s, a) - y after each iteration, y with the networks as they are then."""


def init_state(config: ChainConfig, rule: Targets) -> ChainState:
    """The ensemble that the seed gives. Rules begin with the same networks, double-q with more."""
    key = jax.random.key(config.seed)
    # Each network's key depends on its place alone: more members leave the first ones as they are.
    count = config.members * rule.heads
    keys = jax.vmap(lambda place: jax.random.fold_in(key, place))(jnp.arange(count))
    networks = jax.jit(jax.vmap(lambda k: init_network(config, key=k)))(keys)
    optimiser = jax.vmap(adam_init)(networks)
    return ChainState(networks, optimiser, jnp.asarray(0), jnp.zeros(config.iterations))


def member_values(
    networks: Network, x: Float[Array, "batch 2"], heads: int
) -> Float[Array, "member head batch"]:
    """What every member's networks say."""
    values = jax.vmap(predict, in_axes=(0, None))(networks, x)
    return values.reshape(-1, heads, len(x))


def make_iteration(
    config: ChainConfig, rule: Targets, data: Chain
) -> Callable[[ChainState], ChainState]:
    """Compute targets, then fit each network to its own."""
    x, rewards, next_x = (jnp.asarray(column, jnp.float32) for column in data)
    learning_rate = jnp.asarray(config.learning_rate)

    @jax.jit
    def targets(networks: Network) -> Float[Array, "network batch"]:
        next_values = rule.backup(member_values(networks, next_x, rule.heads), config.beta)
        return jnp.repeat(rewards + config.discount * next_values, rule.heads, axis=0)

    def fit(
        network: Network, optimiser: PyTree, target: Float[Array, " batch"]
    ) -> tuple[Network, PyTree]:
        def loss(network: Network) -> Float[Array, ""]:
            return ((predict(network, x) - target) ** 2).mean()

        def step(_: Array, carry: tuple[Network, PyTree]) -> tuple[Network, PyTree]:
            network, optimiser = carry
            return adam_step(network, jax.grad(loss)(network), optimiser, learning_rate)

        return jax.lax.fori_loop(0, config.steps, step, (network, optimiser))

    @jax.jit
    def residual(networks: Network) -> Float[Array, ""]:
        errors = jax.vmap(predict, in_axes=(0, None))(networks, x) - targets(networks)
        return jnp.sqrt((errors**2).mean())

    fit_all = for_every_member(fit)

    def iteration(state: ChainState) -> ChainState:
        networks, optimiser = fit_all(state.networks, state.optimiser, targets(state.networks))
        residuals = state.residuals.at[state.done].set(residual(networks))
        return ChainState(networks, optimiser, state.done + 1, residuals)

    return iteration


# ---- the experiment --------------------------------------------------------------------------------


class ChainCurve(NamedTuple):
    """What one rule's ensemble believes at (s, pi(s)) along the grid."""

    rule: str
    mean: Float[np.ndarray, " grid"]
    std: Float[np.ndarray, " grid"]
    residuals: Float[np.ndarray, " iteration"]


def evaluate_rule(config: ChainConfig, name: str, data: Chain, folder: Path) -> ChainCurve:
    """Train one rule's ensemble, or resume it, and look at it along the grid."""
    rule = TARGETS[name]
    # How often it is saved, and what else is compared, does not change what is computed.
    settings = {
        k: v for k, v in to_json(config).items() if k not in ("rules", "checkpoint_minutes")
    }
    iteration = make_iteration(config, rule, data)
    with progress_bar(f"chain, {name}", total=config.iterations) as advance:
        state = resumable.iterate(
            folder, {**settings, "rule": name}, init_state(config, rule), iteration,
            config.iterations, minutes=config.checkpoint_minutes, advance=advance,
        )  # fmt: skip
    grid = jnp.asarray(mdp.policy_inputs(), jnp.float32)
    values = np.asarray(member_values(state.networks, grid, rule.heads), np.float64).min(axis=1)
    values = mdp.finite(values, name)
    return ChainCurve(name, values.mean(axis=0), values.std(axis=0), np.asarray(state.residuals))


def run_chain(config: ChainConfig, folder: Path) -> tuple[Chain, list[ChainCurve]]:
    """All rules on the same data."""
    data = mdp.collect(config.episodes, config.length, config.seed)
    return data, [
        evaluate_rule(config, name, data, folder / f"chain-{name}") for name in config.rules
    ]


def rows(config: ChainConfig, curves: list[ChainCurve]) -> list[dict[str, Any]]:
    """A row a rule: the form of its spread, its Bellman residual, and how near it is to converged."""
    independent = next((c for c in curves if c.rule == "independent"), None)
    table: list[dict[str, Any]] = []
    for curve in curves:
        row = {"rule": curve.rule, **mdp.structure(curve.std)}
        row["residual"] = float(curve.residuals[-1])
        before = curve.residuals[-max(1, config.iterations // 10) - 1 :][0]
        row["residual_change"] = float(row["residual"] / before - 1.0) if before > 0 else None
        if independent is not None:
            bound = independent.mean + config.beta * independent.std
            lower = curve.mean + config.beta * curve.std
            row["bound_gap"] = float(np.sqrt(((lower - bound) ** 2).mean()))
        table.append(row)
    return table
