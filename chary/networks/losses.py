"""What the algorithms' losses are made of, each piece with its equation, written once."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from chary.networks.targets import mean_and_std, smallest
from chary.types import Batch, Metrics

# ---- critics ---------------------------------------------------------------------------------------


def td_targets(
    batch: Batch,
    discount: Float[Array, ""],
    next_values: Float[Array, "*member rows"],
    rows: Int[Array, "member rows"] | None = None,
) -> Float[Array, "*member rows"]:
    """y = r + gamma * V(s'), without the second term where the episode truly ended; of all rows, or of
    each member's own."""
    rewards, discounts = (x if rows is None else x[rows] for x in (batch.rewards, batch.discounts))
    return rewards + discount * discounts * next_values


def td_loss(
    heads: Float[Array, "member head batch"],
    y: Float[Array, "member batch"] | Float[Array, " batch"],
    weights: Float[Array, "member #head batch"] | None = None,
) -> Float[Array, " member"]:
    """1/2 E[w (Q - y)^2] of each member, a mean over batch and heads; w is 1 unless given."""
    squared = (heads - y[..., None, :]) ** 2
    if weights is not None:
        squared = weights * squared
    return 0.5 * squared.mean(axis=-1).mean(axis=1)


def critic_metrics(
    td: Float[Array, " loss"],
    heads: Float[Array, "member head batch"],
    y: Float[Array, "*member batch"],
) -> Metrics:
    """What every algorithm with critics reports of them."""
    return {
        "critic/td": td.mean(),
        "critic/q": heads.mean(),
        "critic/std": mean_and_std(smallest(heads, axis=1))[1].mean(),
        "critic/target": y.mean(),
    }


def regression_loss(
    heads: Float[Array, "member head batch"], y: Float[Array, " batch"]
) -> tuple[Float[Array, ""], Metrics]:
    """All critics to one target: their TD losses together, and what there is to report."""
    td = td_loss(heads, y)
    return td.sum(), critic_metrics(td, heads, y)


def expectile_loss(errors: Float[Array, " batch"], expectile: Float[Array, ""]) -> Float[Array, ""]:
    """E[|expectile - 1(u < 0)| u^2]: above one half, what lies above the estimate weighs more.

    At one half it is half the squared error, whose minimum is the mean; towards one its minimum is the
    largest value (Newey and Powell 1987; Eq. 5 of Kostrikov, Nair and Levine 2021).
    """
    return (jnp.abs(expectile - (errors < 0.0)) * errors**2).mean()


def sampled_log_sum_exp(
    values: Float[Array, "*member draw batch"], log_densities: Float[Array, "draw batch"]
) -> Float[Array, "*member batch"]:
    """log of the integral of exp(Q(s, a)) over all actions, from actions drawn with known densities.

    log 1/K sum_k exp(Q(s, a_k) - log p(a_k)): importance sampling, whose error falls as the number K of
    draws grows (appendix of Kumar et al. 2020).
    """
    draws = log_densities.shape[0]
    return jax.nn.logsumexp(values - log_densities, axis=-2) - jnp.log(float(draws))


def contrastive_loss(
    first: Float[Array, "*axes batch feature"], second: Float[Array, "*axes batch feature"]
) -> Float[Array, "*axes"]:
    """Each row's features must find those of its partner among all others of both, by dot products: the
    NT-Xent loss of Chen et al. 2020 with temperature 1 and without normalisation."""
    batch = first.shape[-2]
    together = jnp.concatenate([first, second], axis=-2)
    similar = together @ jnp.swapaxes(together, -1, -2)
    similar = jnp.where(jnp.eye(2 * batch, dtype=bool), -1e10, similar)  # nobody finds itself
    partner = jnp.roll(jnp.arange(2 * batch), batch)[:, None]
    log_found = jnp.take_along_axis(
        jax.nn.log_softmax(similar), jnp.broadcast_to(partner, (*similar.shape[:-1], 1)), axis=-1
    )
    return -log_found[..., 0].mean(axis=-1)


# ---- policies --------------------------------------------------------------------------------------


def exponential_weights(
    advantages: Float[Array, " batch"], sharpness: Float[Array, ""], limit: float
) -> Float[Array, " batch"]:
    """min(exp(sharpness * A), limit), with no gradient: how much an action is to be imitated."""
    # The exponent is limited, not only its result: no advantage overflows.
    exponent = jnp.minimum(sharpness * advantages, jnp.log(limit))
    return jax.lax.stop_gradient(jnp.exp(exponent))


def binary_weights(advantages: Float[Array, " batch"]) -> Float[Array, " batch"]:
    """1(A > 0): actions that are better than the policy's own, and no others."""
    better: Bool[Array, " batch"] = advantages > 0.0
    return better.astype(jnp.float32)


def weighted_cloning_loss(
    likelihood: Float[Array, " batch"],
    weights: Float[Array, " batch"],
    advantages: Float[Array, " batch"],
) -> tuple[Float[Array, ""], Metrics]:
    """-E[w log pi(a | s)]: cloning in which a logged action counts by the weight of its advantage."""
    loss = -(weights * likelihood).mean()
    metrics = {
        "policy/loss": loss,
        "policy/advantage": advantages.mean(),
        "policy/weight": weights.mean(),
        "policy/log_likelihood": likelihood.mean(),
    }
    return loss, metrics


def soft_policy_loss(
    objective: Float[Array, " batch"],
    log_prob: Float[Array, " batch"],
    log_temperature: Float[Array, ""],
) -> tuple[Float[Array, ""], Metrics]:
    """-E[J - temperature * log pi(a | s)]: maximise J, and stay random (Haarnoja et al. 2018)."""
    temperature = jnp.exp(log_temperature)
    loss = (temperature * log_prob - objective).mean()
    metrics = {
        "policy/loss": loss,
        "policy/entropy": -log_prob.mean(),
        "policy/temperature": temperature,
    }
    return loss, metrics


def temperature_loss(
    log_temperature: Float[Array, ""],
    entropy: Float[Array, ""],
    target_entropy: Float[Array, ""],
) -> Float[Array, ""]:
    """The temperature falls while the policy is more random than asked, and rises otherwise
    (Haarnoja et al. 2018)."""
    return jnp.exp(log_temperature) * (entropy - target_entropy)


def normalised(values: Float[Array, " batch"]) -> Float[Array, " batch"]:
    """Q / E|Q|, with no gradient through E|Q|: a weight on it means the same whatever the rewards'
    scale (Eq. 5 of Fujimoto and Gu 2021)."""
    size = jax.lax.stop_gradient(jnp.abs(values).mean())
    return values / jnp.maximum(size, 1e-8)
