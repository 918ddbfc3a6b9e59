"""What the algorithms with critics have in common: settings, acting and valuing."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from chary.config import Checked, Fraction, Layers, Positive, Rate, Share
from chary.ensembles import Ensemble, EnsembleShape, make_ensemble
from chary.types import PyTree

LONG_RUN: dict[str, Any] = {"eval_every": 100_000, "log_every": 5_000}
"""Of presets that train for a million steps and more."""

TargetEntropy: TypeAlias = float | Literal["auto"]


@dataclass(frozen=True)
class CriticConfig(Checked):
    """Networks, batches and step sizes."""

    hidden: Layers = (256, 256)
    """Sizes of the hidden layers of the policy and of each Q-function."""
    layer_norm: bool = False
    """Layer normalisation in each hidden layer of the Q-functions, before the ReLU."""
    batch_size: Positive = 256
    """Transitions per batch."""
    discount: Fraction = 0.99
    """Discount factor gamma."""
    critic_learning_rate: Rate = 3e-4
    """Adam's learning rate for the critics."""
    policy_learning_rate: Rate = 3e-4
    """Adam's learning rate for the policy."""
    tau: Share = 0.005
    """Target networks move by this share towards the new parameters at every update."""

    def critics(
        self,
        observation_size: int,
        action_size: int,
        *,
        members: int = 2,
        ensemble: str = "deep",
    ) -> Ensemble:
        """Separate Q-functions: a pair of them unless asked otherwise."""
        shape = self.critic_shape(observation_size, action_size, members=members)
        return make_ensemble(ensemble, shape)

    def critic_shape(
        self, observation_size: int, action_size: int, *, members: int
    ) -> EnsembleShape:
        """What an ensemble is built from."""
        return EnsembleShape(
            members=members,
            heads=1,
            observation_size=observation_size,
            action_size=action_size,
            hidden=self.hidden,
            layer_norm=self.layer_norm,
        )


@dataclass(frozen=True)
class EntropyConfig(CriticConfig):
    """The same, for a policy with an entropy bonus whose temperature is tuned as in SAC."""

    temperature: Rate = 1.0
    """Initial weight of the entropy bonus; it is tuned."""
    temperature_learning_rate: Rate = 3e-4
    """Adam's learning rate for the logarithm of the temperature."""
    target_entropy: TargetEntropy = "auto"
    """Target entropy of the policy, in nats over all action dimensions (auto: minus their
    number)."""


def target_entropy(config: Any, action_size: int) -> float:
    """What tuning aims at with so many action dimensions."""
    target: TargetEntropy | None = config.target_entropy  # None in runs from before 0.2
    return -float(action_size) if target is None or target == "auto" else target


def with_target_entropy(config: Any, action_size: int) -> Any:
    """A config that says the number; one without a temperature to tune stays as it is."""
    if not hasattr(config, "target_entropy"):
        return config
    return replace(config, target_entropy=target_entropy(config, action_size))


def acting(policy_of: Callable[[Any], Any]) -> Callable[..., Any]:
    """`act` of an algorithm whose state has a policy: its mode, or a sample where there is a key."""

    def act(
        state: Any,
        observations: Float[Array, "batch observation"],
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "batch action"]:
        return policy_of(state).act(observations, key=key)

    return act


def valuing(values: Callable[..., Any]) -> Callable[..., Any]:
    """`values` of an algorithm with critics, from `values(params, observations, actions)`."""

    def of_state(
        state: Any,
        observations: Float[Array, "batch observation"],
        actions: Float[Array, "batch action"],
    ) -> Float[Array, "member batch"]:
        return values(state.critics.online, observations, actions)

    return of_state


def smaller_of_two(state: Any) -> Float[Array, ""]:
    """Weight of the deviation with which the lower confidence bound of a pair is its smaller value."""
    del state
    return jnp.float32(-1.0)


def values_at(
    ensemble: Ensemble,
    critics: PyTree,
    observations: Float[Array, "batch observation"],
    draws: Float[Array, "draw batch action"],
) -> Float[Array, "member draw batch"]:
    """Each member's values of several actions in each state, in one pass."""
    each = jnp.broadcast_to(observations, (*draws.shape[:2], observations.shape[-1]))
    values = ensemble.values(critics, *(x.reshape(-1, x.shape[-1]) for x in (each, draws)))
    return values.reshape(-1, *draws.shape[:2])
