"""What MSG's settings choose from: the policy's objective, the critics' loss, and what is logged.

`msg.py` has the algorithm; the pieces here are the alternatives to what the paper does.
"""

from collections.abc import Callable
from math import sqrt
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from chary.algos.msg_config import MSGConfig
from chary.algos.msg_noise import Noise, draw_noise
from chary.ensembles import Ensemble, make_ensemble
from chary.errors import CharyError
from chary.networks import losses
from chary.networks.losses import td_loss
from chary.networks.policies import PointPolicy, Policy
from chary.networks.targets import (
    TARGETS,
    Objective,
    mean_and_std,
    minimum,
    minimum_of_all,
    of_expectation,
    smallest,
)
from chary.types import Batch, Metrics, PyTree

AnyPolicy: TypeAlias = Policy | PointPolicy
Members: TypeAlias = Float[Array, "member batch"]


def make_policy(
    config: MSGConfig, observation_size: int, action_size: int, *, key: PRNGKeyArray
) -> AnyPolicy:
    """A squashed Gaussian, or one action a state."""
    sizes = observation_size, action_size, config.hidden
    if config.policy == "gaussian":
        return Policy.init(*sizes, key=key)
    noise, clip = config.target_noise, config.target_noise_clip
    return PointPolicy.init(*sizes, noise=noise, clip=clip, key=key)


def make_critics(config: MSGConfig, observation_size: int, action_size: int) -> Ensemble:
    """The ensemble, if it goes with the rule for its targets."""
    ensemble = make_ensemble(config.ensemble, config.shape(observation_size, action_size))
    if TARGETS[config.targets].shared and ensemble.arrange is not None:
        raise CharyError(
            f"--ensemble {config.ensemble} cannot be combined with --targets {config.targets}: its "
            "members see different rows in one pass, so they share no next value. Use --targets "
            "independent or double-q, or --ensemble deep."
        )
    return ensemble


def noise(config: MSGConfig, ensemble: Ensemble, batch: Batch, *, key: PRNGKeyArray) -> Noise:
    """All draws of a step."""
    size, action_size = batch.actions.shape
    rule = TARGETS[config.targets]
    shared = ensemble.shares_weights or (rule.shared and config.next_actions == "shared")
    drawn = draw_noise(config, size, action_size, shared=shared, arrange=ensemble.arrange, key=key)
    # The barrier asks the compiler not to draw the same noise again in every use of it.
    return jax.lax.optimization_barrier(drawn)


def every_value(config: MSGConfig) -> Callable[[Any], Float[Array, "member head batch"]]:
    """Q of every network: its output, or the expectation over its bins."""
    bins = config.value_bins()
    return (lambda outputs: outputs) if bins is None else bins.value


def value(config: MSGConfig) -> Callable[[Any], Members]:
    """Q_i: the smaller of a pair of networks."""
    of = every_value(config)
    return lambda outputs: smallest(of(outputs), axis=1)


def td(config: MSGConfig) -> Callable[[Any, Any, Noise], Float[Array, " member"]]:
    """L_i = 1/2 E[w_i (Q_i(s, a) - y_i)^2], or the cross-entropy over bins instead (Eq. 5)."""
    bins = config.value_bins()
    loss = td_loss if bins is None else bins.cross_entropy
    # A pair of networks counts as one; before 0.2 it counted as two.
    networks = TARGETS[config.targets].heads if config.double_q == "sum" else 1
    return lambda outputs, targets, noise: networks * loss(outputs, targets, noise.weights)


def objective(config: MSGConfig) -> Objective:
    """What the policy maximises: what goes with the targets, or as the paper's text or code has it."""
    chosen = TARGETS[config.targets].objective
    if chosen is minimum and config.min_over == "batch":
        chosen = minimum_of_all
    return of_expectation(chosen) if config.bound == "expectation" else chosen


def beta_factor(config: MSGConfig, ensemble: Ensemble) -> float:
    """Deviations are taken with ddof 0 everywhere: the square root of N / (N - ddof) goes to beta."""
    ddof = ensemble.ddof if config.ddof is None else config.ddof
    return sqrt(config.members / max(config.members - ddof, 1))


def sass(config: MSGConfig, ensemble: Ensemble, batch: Batch) -> Any:
    """The authors' self-supervised loss: features of (s, a) find those of (s', a') and themselves, a'
    logged in half of the rows and uniform in the others. None where it has no weight."""
    if not config.sass:
        return None

    def loss(online: PyTree, slow: PyTree, mine: Noise) -> Float[Array, " member"]:
        assert ensemble.features is not None and batch.next_actions is not None
        assert mine.ensemble_key is not None
        key = jax.random.fold_in(mine.ensemble_key, 1)
        uniform = jax.random.uniform(key, batch.actions.shape, minval=-1.0)
        half = jnp.arange(len(batch.rewards))[:, None] < len(batch.rewards) // 2
        logged = half & jnp.isfinite(batch.next_actions)
        following = jnp.where(logged, jnp.nan_to_num(batch.next_actions), uniform)
        here = ensemble.features(online, batch.observations, batch.actions)
        there = ensemble.features(jax.lax.stop_gradient(slow), batch.next_observations, following)
        both = losses.contrastive_loss(here, there) + losses.contrastive_loss(here, here)
        return config.sass * 0.5 * both.mean(axis=1)

    return loss


def held_to_the_data(
    config: MSGConfig,
    bound: Float[Array, " batch"],
    bonus: Float[Array, " batch"] | float,
    bounded: Members,
    distance: Float[Array, " batch"],
    likelihood: Float[Array, " batch"],
) -> Float[Array, " batch"]:
    """The bound and the entropy bonus, with the cloning penalty where there is one: bound / E|Q| - nu d.

    Divided by E|Q|, or E|D| of the relative bound, nu means the same whatever the rewards' scale.
    """
    if not config.cloning:
        return bound + bonus
    size = jax.lax.stop_gradient(jnp.maximum(jnp.abs(bounded).mean(), 1e-8))
    penalty = distance if config.cloning_loss == "squared" else -likelihood
    return bound / size + bonus - config.cloning * penalty


def spread_metrics(
    values: Members, logged: Members | None, bounded: Members, beta: Float[Array, ""]
) -> Metrics:
    """What the members' spread is made of, at the policy's actions.

    `policy/pushed_down`: the share of members whose value the bound's gradient lowers, because its
    weight 1 + beta (Q_i - mean) / std is negative. `policy/action_share`: what an action changes of the
    spread, E[var_i(Q_i(s, pi(s)) - Q_i(s, a))], as a share of itself and offsets, E[var_i Q_i(s, a)].
    """
    mean, std = mean_and_std(bounded)
    weight = 1.0 + beta * (bounded - mean) / jnp.maximum(std, 1e-8)
    metrics = {"policy/pushed_down": (weight < 0.0).mean()}
    if logged is not None:
        changed, offset = (values - logged).var(axis=0).mean(), logged.var(axis=0).mean()
        metrics["policy/action_share"] = changed / jnp.maximum(changed + offset, 1e-12)
    return metrics
