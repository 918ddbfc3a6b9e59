"""What changes while MSG learns."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from chary.algos.critics import target_entropy
from chary.algos.msg_config import MSGConfig
from chary.algos.msg_parts import AnyPolicy, make_policy
from chary.ensembles import Ensemble
from chary.networks.optimisers import Trained, adam_init, as_arrays
from chary.types import OnlineAndTarget, PyTree


class Hyper(NamedTuple):
    """Continuous settings, kept as arrays so that one compiled program serves every value."""

    beta: Float[Array, ""]
    alpha: Float[Array, ""]
    discount: Float[Array, ""]
    critic_learning_rate: Float[Array, ""]
    policy_learning_rate: Float[Array, ""]
    temperature_learning_rate: Float[Array, ""]
    tau: Float[Array, ""]
    target_entropy: Float[Array, ""]
    target_beta: Float[Array, ""]


class MSGState(NamedTuple):
    """Everything that changes while learning, and the settings that could."""

    step: Int[Array, ""]
    policy: Trained[AnyPolicy]
    critics: OnlineAndTarget
    critic_optimiser: PyTree
    log_temperature: Trained[Float[Array, ""]]
    policy_average: AnyPolicy | None
    """The policy that acts, where that is an average of those that were trained."""
    hyper: Hyper


def initial_state(
    config: MSGConfig,
    ensemble: Ensemble,
    observation_size: int,
    action_size: int,
    *,
    key: PRNGKeyArray,
) -> MSGState:
    """The state before the first step: target networks begin as copies."""
    policy_key, critic_key = jax.random.split(key)
    policy = make_policy(config, observation_size, action_size, key=policy_key)
    params = ensemble.init(critic_key)
    target_beta = config.beta if config.target_beta is None else config.target_beta
    entropy = target_entropy(config, action_size)
    return MSGState(
        step=jnp.int32(0),
        policy=Trained.of(policy),
        critics=OnlineAndTarget(params, jax.tree.map(jnp.copy, params)),
        critic_optimiser=adam_init(params),
        log_temperature=Trained.of(jnp.log(jnp.float32(config.temperature))),
        policy_average=jax.tree.map(jnp.copy, policy) if config.policy_average else None,
        hyper=as_arrays(Hyper, config, target_beta=target_beta, target_entropy=entropy),
    )
