"""CRR: critic-regularised regression (Wang et al. 2020).

The policy imitates the logged actions that the critics hold for better than its own. One step does, for
a batch (s, a, r, s') and the policy pi:

    critics  y = r + gamma * min_i Q_target_i(s', a'),  a' ~ pi_target(s')
             minimise  sum_i 1/2 E[(Q_i(s, a) - y)^2]                                        (Eq. 1)
    policy   maximise  E[f(A(s, a)) log pi(a | s)]                                           (Eq. 2)
             A  = Q(s, a) - mean_j Q(s, a_j)  or  Q(s, a) - max_j Q(s, a_j),  a_j ~ pi(s)    (Tab. 1)
             f  = 1(A > 0)  or  min(exp(A / beta), 20);  Q is the mean of the members'       (Eqs. 3, 4)
    targets  pi_target and Q_target_i become pi and Q_i every so many steps

All losses see the parameters from before the step.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from chary.algos.critics import LONG_RUN, CriticConfig, acting, values_at, valuing
from chary.config import Positive, Rate, Share
from chary.networks.losses import (
    binary_weights,
    exponential_weights,
    regression_loss,
    td_targets,
    weighted_cloning_loss,
)
from chary.networks.optimisers import TrainedWithTarget, as_arrays
from chary.networks.policies import Policy
from chary.networks.targets import smallest
from chary.types import Algorithm, Batch, Metrics, PyTree


@dataclass(frozen=True)
class CRRConfig(CriticConfig):
    """Settings of CRR; the defaults are those of its authors' library, Acme."""

    tau: Share = 1.0
    target_period: Positive = 100
    """Steps between updates of the target networks. With a tau of 1 they are copied."""
    weights: Literal["exp", "binary"] = "exp"
    """Weight of a logged action. exp: exponential of its advantage. binary: 1 if the advantage is
    above 0, else 0."""
    advantage: Literal["mean", "max"] = "mean"
    """Baseline of the advantage: the mean or the maximum of the values of the policy's own
    actions."""
    samples: Positive = 4
    """Number of the policy's own actions in each state."""
    beta: Rate = 1.0
    """Temperature of the exponential weights."""
    weight_limit: Rate = 20.0
    """Largest weight of one action."""


# The paper's own tasks need other networks, and it has none of D4RL's: the library's defaults for all.
PAPER: dict[str, Any] = {"steps": 1_000_000, **LONG_RUN}
PRESETS: dict[str, dict[str, Any]] = {
    "paper-antmaze": PAPER,
    "paper-gym": PAPER,
    "paper-maze2d": PAPER,
    "paper-rlu": PAPER,
    "small": {
        "hidden": (64, 64, 64),
        "discount": 0.995,
        "tau": 0.05,
        "target_period": 1,
        "critic_learning_rate": 1e-3,
        "policy_learning_rate": 1e-3,
        "steps": 8_000,
    },
}


class Hyper(NamedTuple):
    """Continuous settings, kept as arrays so that one compiled program serves every value."""

    beta: Float[Array, ""]
    discount: Float[Array, ""]
    critic_learning_rate: Float[Array, ""]
    policy_learning_rate: Float[Array, ""]
    tau: Float[Array, ""]


class CRRState(NamedTuple):
    """Everything that changes while learning, and the settings that could."""

    step: Int[Array, ""]
    policy: TrainedWithTarget[Policy]
    critics: TrainedWithTarget[PyTree]
    hyper: Hyper


class Noise(NamedTuple):
    """All that is random in one step, standard normal."""

    next_actions: Float[Array, "batch action"]
    """For a' ~ pi_target(s')."""
    own_actions: Float[Array, "draw batch action"]
    """For a_j ~ pi(s)."""


def draw_noise(config: CRRConfig, size: int, action_size: int, *, key: PRNGKeyArray) -> Noise:
    """All draws of a step."""
    normal = jax.random.normal(key, (1 + config.samples, size, action_size))
    return Noise(normal[0], normal[1:])


def make_crr(config: CRRConfig, observation_size: int, action_size: int) -> Algorithm[CRRState]:
    """CRR for vectors of the given sizes."""
    ensemble = config.critics(observation_size, action_size)

    def init(key: PRNGKeyArray) -> CRRState:
        policy_key, critic_key = jax.random.split(key)
        policy = Policy.init(observation_size, action_size, config.hidden, key=policy_key)
        return CRRState(
            step=jnp.int32(0),
            policy=TrainedWithTarget.of(policy),
            critics=TrainedWithTarget.of(ensemble.init(critic_key)),
            hyper=as_arrays(Hyper, config),
        )

    def critic_loss(
        critics: PyTree, state: CRRState, batch: Batch, noise: Noise
    ) -> tuple[Float[Array, ""], Metrics]:
        """All critics to the target of the policy's own next action (Eq. 1)."""
        next_actions = state.policy.target(batch.next_observations).sample(noise.next_actions)
        next_values = ensemble.values(state.critics.target, batch.next_observations, next_actions)
        y = td_targets(batch, state.hyper.discount, smallest(next_values, axis=0))
        heads = ensemble.heads(critics, batch.observations, batch.actions)
        return regression_loss(heads, y)

    def advantages_of(state: CRRState, batch: Batch, noise: Noise) -> Float[Array, " batch"]:
        """How much better the logged action is than the policy's own."""
        own = state.policy.online(batch.observations).sample(noise.own_actions)
        together = jnp.concatenate([batch.actions[None], own])
        # The critics' mean: of two noisy values the smaller jumps from one critic to the other.
        q = values_at(ensemble, state.critics.online, batch.observations, together).mean(axis=0)
        held_against = q[1:].max(axis=0) if config.advantage == "max" else q[1:].mean(axis=0)
        return q[0] - held_against

    def policy_loss(
        policy: Policy, advantages: Float[Array, " batch"], batch: Batch, hyper: Hyper
    ) -> tuple[Float[Array, ""], Metrics]:
        """Imitate each action by the weight of its advantage (Eq. 2)."""
        if config.weights == "binary":
            weights = binary_weights(advantages)
        else:
            weights = exponential_weights(advantages, 1.0 / hyper.beta, config.weight_limit)
        likelihood = policy(batch.observations).log_prob(batch.actions)
        return weighted_cloning_loss(likelihood, weights, advantages)

    def step(state: CRRState, batch: Batch, noise: Noise) -> tuple[CRRState, Metrics]:
        hyper = state.hyper
        critic_gradient, metrics = jax.grad(critic_loss, has_aux=True)(
            state.critics.online, state, batch, noise
        )
        policy_gradient, policy_metrics = jax.grad(policy_loss, has_aux=True)(
            state.policy.online, advantages_of(state, batch, noise), batch, hyper
        )
        moves = (state.step + 1) % config.target_period == 0
        tau = jnp.where(moves, hyper.tau, 0.0)
        return CRRState(
            step=state.step + 1,
            policy=state.policy.step(policy_gradient, hyper.policy_learning_rate, tau),
            critics=state.critics.step(critic_gradient, hyper.critic_learning_rate, tau),
            hyper=hyper,
        ), metrics | policy_metrics

    def update(state: CRRState, batch: Batch, key: PRNGKeyArray) -> tuple[CRRState, Metrics]:
        noise = draw_noise(config, len(batch.rewards), action_size, key=key)
        # The barrier asks the compiler not to draw the same noise again in every use of it.
        return step(state, batch, jax.lax.optimization_barrier(noise))

    return Algorithm(
        init,
        update,
        acting(lambda state: state.policy.online),
        valuing(ensemble.values),
        beta=lambda _: jnp.float32(0.0),
    )
