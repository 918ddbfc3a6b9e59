"""Behavioural cloning: the policy that makes the logged actions most likely.

    maximise  E[log pi(a | s)],  (s, a) from the data

It is the plainest baseline, and the warm-up of MSG. Trained until the likelihood of held-out episodes
stops rising (`--validation 0.1 --patience 5`), it says how good the data itself is.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from chary.algos.critics import LONG_RUN
from chary.optimise import adam_init, adam_step
from chary.policies import Policy
from chary.settings import require_layers, require_rate
from chary.types import Algorithm, Batch, Metrics, PyTree


@dataclass(frozen=True)
class BCConfig:
    """Settings of behavioural cloning."""

    hidden: tuple[int, ...] = (256, 256, 256)
    """Sizes of the policy's hidden layers."""
    batch_size: int = 256
    """Transitions in a batch."""
    learning_rate: float = 3e-4
    """Adam's step size."""

    def __post_init__(self) -> None:
        require_layers(self.hidden, self.batch_size)
        require_rate("learning-rate", self.learning_rate)


PAPER: dict[str, Any] = {"steps": 1_000_000, **LONG_RUN}
PRESETS: dict[str, dict[str, Any]] = {
    "paper-antmaze": PAPER,
    "paper-gym": PAPER,
    "paper-maze2d": PAPER,
    "paper-rlu": PAPER,
    "small": {"hidden": (64, 64, 64), "learning_rate": 1e-3, "steps": 10_000},
}


class BCState(NamedTuple):
    policy: Policy
    optimiser: PyTree
    learning_rate: Float[Array, ""]


def make_bc(config: BCConfig, observation_size: int, action_size: int) -> Algorithm[BCState]:
    """Behavioural cloning for vectors of the given sizes."""

    def init(key: PRNGKeyArray) -> BCState:
        policy = Policy.init(observation_size, action_size, config.hidden, key=key)
        return BCState(policy, adam_init(policy), jnp.float32(config.learning_rate))

    def likelihood(policy: Policy, batch: Batch) -> Float[Array, ""]:
        return policy(batch.observations).log_prob(batch.actions).mean()

    def policy_loss(policy: Policy, batch: Batch) -> tuple[Float[Array, ""], Metrics]:
        """Negative log-likelihood of the logged actions."""
        value = likelihood(policy, batch)
        return -value, {"policy/log_likelihood": value}

    def update(state: BCState, batch: Batch, key: PRNGKeyArray) -> tuple[BCState, Metrics]:
        del key  # the loss is deterministic
        gradient, metrics = jax.grad(policy_loss, has_aux=True)(state.policy, batch)
        policy, optimiser = adam_step(state.policy, gradient, state.optimiser, state.learning_rate)
        return BCState(policy, optimiser, state.learning_rate), metrics

    def act(
        state: BCState,
        observations: Float[Array, "batch observation"],
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "batch action"]:
        return state.policy.act(observations, key=key)

    def validate(state: BCState, batch: Batch) -> Float[Array, ""]:
        return likelihood(state.policy, batch)

    return Algorithm(init, update, act, validate=validate)
