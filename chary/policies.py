"""Policies: a Gaussian over the real line, squashed into [-1, 1], or one action a state."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Float, PRNGKeyArray

from chary.nets import MLP, Dense

MINIMUM_SCALE = 0.01
# Logged actions are often clipped to exactly -1 or 1, where the density of a tanh-Gaussian is not
# defined. Beyond this magnitude the probability of the whole tail is spread evenly over it.
TAIL = 0.999
LOG_2 = math.log(2.0)
LOG_SQRT_2_PI = 0.5 * math.log(2.0 * math.pi)


class TanhGaussian(NamedTuple):
    """The law of tanh(loc + scale * noise), noise ~ N(0, 1), in each action dimension."""

    loc: Float[Array, "batch action"]
    scale: Float[Array, "batch action"]

    @property
    def mode(self) -> Float[Array, "batch action"]:
        """The squashed mean: what the policy does when it must not be random."""
        return jnp.tanh(self.loc)

    def sample(
        self, noise: Float[Array, "*draw batch action"]
    ) -> Float[Array, "*draw batch action"]:
        """Actions for standard-normal noise; leading axes of the noise are independent draws."""
        return jnp.tanh(self.loc + self.scale * noise)

    def sample_and_log_prob(
        self, noise: Float[Array, "batch action"]
    ) -> tuple[Float[Array, "batch action"], Float[Array, " batch"]]:
        """A sample and its log-density, which is finite however far the noise reaches."""
        raw = self.loc + self.scale * noise
        log_gaussian = -0.5 * noise**2 - jnp.log(self.scale) - LOG_SQRT_2_PI
        return jnp.tanh(raw), (log_gaussian - _log_tanh_slope(raw)).sum(-1)

    def log_prob(self, actions: Float[Array, "batch action"]) -> Float[Array, " batch"]:
        """Log-density of given actions, the tails beyond +-0.999 taken as a whole."""
        raw = jnp.arctanh(jnp.clip(actions, -TAIL, TAIL))
        standardised = (raw - self.loc) / self.scale
        log_gaussian = -0.5 * standardised**2 - jnp.log(self.scale) - LOG_SQRT_2_PI
        inside = log_gaussian - _log_tanh_slope(raw)
        log_width = math.log(1.0 - TAIL)
        above = log_ndtr(-standardised) - log_width
        below = log_ndtr(standardised) - log_width
        each = jnp.where(actions >= TAIL, above, jnp.where(actions <= -TAIL, below, inside))
        return each.sum(-1)


def _log_tanh_slope(raw: Float[Array, "*batch action"]) -> Float[Array, "*batch action"]:
    """log(1 - tanh(raw)^2), without cancellation."""
    return 2.0 * (LOG_2 - raw - jax.nn.softplus(-2.0 * raw))


class Policy(eqx.Module):
    """A network from observations to a tanh-Gaussian over actions."""

    trunk: MLP
    loc: Dense
    raw_scale: Dense

    @classmethod
    def init(
        cls,
        observation_size: int,
        action_size: int,
        hidden: Sequence[int],
        *,
        key: PRNGKeyArray,
    ) -> "Policy":
        *before, features = hidden
        trunk_key, loc_key, scale_key = jax.random.split(key, 3)
        return cls(
            MLP.init(observation_size, before, features, key=trunk_key),
            Dense.init(features, action_size, key=loc_key),
            Dense.init(features, action_size, key=scale_key),
        )

    def __call__(self, observations: Float[Array, "batch observation"]) -> TanhGaussian:
        features = jax.nn.relu(self.trunk(observations))
        scale = jax.nn.softplus(self.raw_scale(features)) + MINIMUM_SCALE
        return TanhGaussian(self.loc(features), scale)

    def act(
        self,
        observations: Float[Array, "batch observation"],
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "batch action"]:
        """The mode, or with a key a sample."""
        law = self(observations)
        return law.mode if key is None else law.sample(jax.random.normal(key, law.loc.shape))


class DeterministicPolicy(eqx.Module):
    """A network from observations to actions, squashed into [-1, 1]."""

    network: MLP

    @classmethod
    def init(
        cls,
        observation_size: int,
        action_size: int,
        hidden: Sequence[int],
        *,
        key: PRNGKeyArray,
    ) -> "DeterministicPolicy":
        return cls(MLP.init(observation_size, hidden, action_size, key=key))

    def __call__(
        self, observations: Float[Array, "batch observation"]
    ) -> Float[Array, "batch action"]:
        return jnp.tanh(self.network(observations))
