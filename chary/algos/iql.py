"""IQL: implicit Q-learning (Kostrikov, Nair and Levine 2021).

No action outside the data is ever asked about. One step does, for a batch (s, a, r, s'):

    value    V minimises  E[L2(Q_target(s, a) - V(s))],  L2(u) = |expectile - 1(u < 0)| u^2  (Eq. 5)
    policy   maximise  E[w log pi(a | s)],  w = min(exp(b (Q_target(s, a) - V(s))), 100)      (Eq. 7)
    critics  y = r + gamma * V(s');  minimise  sum_i 1/2 E[(Q_i(s, a) - y)^2]                 (Eq. 6)
    targets  Q_target_i moves by tau towards Q_i;  Q_target is the smaller of the two

An expectile above one half leans V towards the best actions in the data, so the backup improves on the
behaviour without naming a better action. b is the inverse temperature.
"""

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Gt, Lt
from jaxtyping import Array, Float, Int, PRNGKeyArray

from chary.algos.critics import LONG_RUN, CriticConfig, acting, smaller_of_two, valuing
from chary.config import Count, Rate, Weight
from chary.networks.layers import MLP
from chary.networks.losses import (
    expectile_loss,
    exponential_weights,
    regression_loss,
    td_targets,
    weighted_cloning_loss,
)
from chary.networks.optimisers import Trained, TrainedWithTarget, as_arrays
from chary.networks.policies import GaussianPolicy
from chary.networks.targets import smallest
from chary.types import Algorithm, Batch, Metrics, PyTree


@dataclass(frozen=True)
class IQLConfig(CriticConfig):
    """Settings of IQL; the defaults are its authors' for Gym."""

    expectile: Annotated[float, Gt(0.0), Lt(1.0)] = 0.7
    """Expectile of the Q-values in the data that V estimates: 0.5 is the mean, towards 1 the
    maximum."""
    inverse_temperature: Weight = 3.0
    """Weight of the advantage when logged actions are cloned; 0 clones all equally."""
    weight_limit: Rate = 100.0
    """Largest weight of one action."""
    policy_decay_steps: Count = 1_000_000
    """Steps over which the policy's learning rate decays to 0 along a cosine; 0 keeps it
    constant."""


PAPER: dict[str, Any] = {"steps": 1_000_000, **LONG_RUN}
PRESETS: dict[str, dict[str, Any]] = {
    # The authors' configs/antmaze_config.py, and r - 1 as in their train_offline.py.
    "paper-antmaze": {
        "expectile": 0.9,
        "inverse_temperature": 10.0,
        "reward_scale": 1.0,
        "reward_shift": -1.0,
        **PAPER,
    },
    # configs/mujoco_config.py; rewards are scaled so that returns span 1000.
    "paper-gym": {"return_range": 1000.0, **PAPER},
    # The paper has neither of these: Gym's settings.
    "paper-maze2d": PAPER,
    "paper-rlu": PAPER,
    "small": {
        "hidden": (64, 64, 64),
        "discount": 0.995,
        "tau": 0.05,
        "expectile": 0.9,
        "inverse_temperature": 10.0,
        "critic_learning_rate": 1e-3,
        "policy_learning_rate": 1e-3,
        "policy_decay_steps": 8_000,
        "steps": 8_000,
    },
}


class Hyper(NamedTuple):
    """Continuous settings, kept as arrays so that one compiled program serves every value."""

    expectile: Float[Array, ""]
    inverse_temperature: Float[Array, ""]
    discount: Float[Array, ""]
    critic_learning_rate: Float[Array, ""]
    policy_learning_rate: Float[Array, ""]
    tau: Float[Array, ""]


class IQLState(NamedTuple):
    """Everything that changes while learning, and the settings that could."""

    step: Int[Array, ""]
    policy: Trained[GaussianPolicy]
    value: Trained[MLP]
    critics: TrainedWithTarget[PyTree]
    hyper: Hyper


def make_iql(config: IQLConfig, observation_size: int, action_size: int) -> Algorithm[IQLState]:
    """IQL for vectors of the given sizes."""
    ensemble = config.critics(observation_size, action_size)

    def init(key: PRNGKeyArray) -> IQLState:
        policy_key, value_key, critic_key = jax.random.split(key, 3)
        policy = GaussianPolicy.init(observation_size, action_size, config.hidden, key=policy_key)
        value = MLP.init(observation_size, config.hidden, 1, key=value_key)
        return IQLState(
            step=jnp.int32(0),
            policy=Trained.of(policy),
            value=Trained.of(value),
            critics=TrainedWithTarget.of(ensemble.init(critic_key)),
            hyper=as_arrays(Hyper, config),
        )

    def value_loss(
        value: MLP, y: Float[Array, " batch"], batch: Batch, hyper: Hyper
    ) -> tuple[Float[Array, ""], Metrics]:
        """V towards an expectile of Q over the actions in the data (Eq. 5)."""
        values = value(batch.observations)[:, 0]
        loss = expectile_loss(y - values, hyper.expectile)
        return loss, {"value/loss": loss, "value/v": values.mean()}

    def policy_loss(
        policy: GaussianPolicy, advantages: Float[Array, " batch"], batch: Batch, hyper: Hyper
    ) -> tuple[Float[Array, ""], Metrics]:
        """Imitate each action by the exponential of its advantage (Eq. 7)."""
        weights = exponential_weights(advantages, hyper.inverse_temperature, config.weight_limit)
        likelihood = policy(batch.observations).log_prob(batch.actions)
        return weighted_cloning_loss(likelihood, weights, advantages)

    def critic_loss(
        critics: PyTree, y: Float[Array, " batch"], batch: Batch
    ) -> tuple[Float[Array, ""], Metrics]:
        """Both critics to the same target (Eq. 6)."""
        heads = ensemble.heads(critics, batch.observations, batch.actions)
        return regression_loss(heads, y)

    def update(state: IQLState, batch: Batch, key: PRNGKeyArray) -> tuple[IQLState, Metrics]:
        """As the authors do it: V first, and the policy and the critics with the new V."""
        del key  # nothing is drawn: only actions of the data are looked at
        hyper = state.hyper
        q = smallest(
            ensemble.values(state.critics.target, batch.observations, batch.actions), axis=0
        )
        gradient, value_metrics = jax.grad(value_loss, has_aux=True)(
            state.value.params, q, batch, hyper
        )
        value = state.value.step(gradient, hyper.critic_learning_rate)

        advantages = q - value.params(batch.observations)[:, 0]
        gradient, policy_metrics = jax.grad(policy_loss, has_aux=True)(
            state.policy.params, advantages, batch, hyper
        )
        policy = state.policy.step(gradient, hyper.policy_learning_rate * remaining(state.step))

        y = td_targets(batch, hyper.discount, value.params(batch.next_observations)[:, 0])
        gradient, metrics = jax.grad(critic_loss, has_aux=True)(state.critics.online, y, batch)
        critics = state.critics.step(gradient, hyper.critic_learning_rate, hyper.tau)
        state = IQLState(state.step + 1, policy, value, critics, hyper)
        return state, metrics | value_metrics | policy_metrics

    def remaining(step: Int[Array, ""]) -> Float[Array, ""]:
        """Share of the policy's step size that is left, along half a cosine."""
        if config.policy_decay_steps == 0:
            return jnp.float32(1.0)
        done = jnp.minimum(step / config.policy_decay_steps, 1.0)
        return 0.5 * (1.0 + jnp.cos(jnp.pi * done))

    return Algorithm(
        init,
        update,
        acting(lambda state: state.policy.params),
        valuing(ensemble.values),
        beta=smaller_of_two,
    )
