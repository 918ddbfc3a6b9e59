"""Behavioural cloning: the policy that makes the logged actions most likely, or is closest to them.

    maximise  E[log pi(a | s)]      or      minimise  E[|mode pi(s) - a|^2],      (s, a) from the data

It is the plainest baseline, and the warm-up of MSG. Trained until the likelihood of held-out
episodes stops improving (`--validation 0.1 --patience 5`), it says how good the data itself is.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from chary.algos.critics import LONG_RUN
from chary.config import Checked, Layers, Positive, Rate
from chary.networks.optimisers import adam_init, adam_step
from chary.networks.policies import Policy
from chary.types import Algorithm, Batch, Metrics, PyTree

Loss = Literal["likelihood", "squared"]


@dataclass(frozen=True)
class BCConfig(Checked):
    """Settings of behavioural cloning."""

    hidden: Layers = (256, 256, 256)
    """Sizes of the policy's hidden layers."""
    batch_size: Positive = 256
    """Transitions per batch."""
    learning_rate: Rate = 3e-4
    """Adam's learning rate."""
    loss: Loss = "likelihood"
    """likelihood: maximise the likelihood of logged actions. squared: minimise the squared error of
    the policy's mode, as for a deterministic policy."""


PAPER: dict[str, Any] = {"steps": 1_000_000, **LONG_RUN}
PRESETS: dict[str, dict[str, Any]] = {
    "paper-antmaze": PAPER,
    "paper-gym": PAPER,
    "paper-maze2d": PAPER,
    "paper-rlu": PAPER,
    "small": {"hidden": (64, 64, 64), "learning_rate": 1e-3, "steps": 10_000},
}


class Hyper(NamedTuple):
    """Continuous settings, kept as arrays so that one compiled program serves every value."""

    learning_rate: Float[Array, ""]


class BCState(NamedTuple):
    policy: Policy
    optimiser: PyTree
    hyper: Hyper


def make_bc(config: BCConfig, observation_size: int, action_size: int) -> Algorithm[BCState]:
    """Behavioural cloning for vectors of the given sizes."""

    def init(key: PRNGKeyArray) -> BCState:
        policy = Policy.init(observation_size, action_size, config.hidden, key=key)
        return BCState(policy, adam_init(policy), Hyper(jnp.float32(config.learning_rate)))

    def goodness(policy: Policy, batch: Batch) -> tuple[Float[Array, ""], Metrics]:
        """What is maximised: the log-likelihood of the logged actions, or minus the squared error."""
        pi = policy(batch.observations)
        metrics = {
            "policy/log_likelihood": pi.log_prob(batch.actions).mean(),
            "policy/squared_error": ((pi.mode - batch.actions) ** 2).mean(),
        }
        if config.loss == "squared":
            return -metrics["policy/squared_error"], metrics
        return metrics["policy/log_likelihood"], metrics

    def policy_loss(policy: Policy, batch: Batch) -> tuple[Float[Array, ""], Metrics]:
        value, metrics = goodness(policy, batch)
        return -value, metrics

    def update(state: BCState, batch: Batch, key: PRNGKeyArray) -> tuple[BCState, Metrics]:
        del key  # the loss is deterministic
        gradient, metrics = jax.grad(policy_loss, has_aux=True)(state.policy, batch)
        learning_rate = state.hyper.learning_rate
        policy, optimiser = adam_step(state.policy, gradient, state.optimiser, learning_rate)
        return BCState(policy, optimiser, state.hyper), metrics

    def act(
        state: BCState,
        observations: Float[Array, "batch observation"],
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "batch action"]:
        # The squared error teaches the mode alone: a scale that nobody trained is no policy's noise.
        return state.policy.act(observations, key=None if config.loss == "squared" else key)

    def validate(state: BCState, batch: Batch) -> Float[Array, ""]:
        return goodness(state.policy, batch)[0]

    return Algorithm(init, update, act, validate=validate)
