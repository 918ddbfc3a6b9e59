"""Policies: networks from observations to distributions over actions in [-1, 1].

Most algorithms use the tanh-Gaussian, a Gaussian over the real line that is squashed into [-1, 1]. A
Gaussian that is not squashed, a mixture of squashed ones, and a policy of one action a state are here
for those whose authors use them.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Float, PRNGKeyArray

from chary.networks.layers import MLP, Dense, relu

MINIMUM_SCALE = 0.01
# Logged actions are often clipped to exactly -1 or 1, where the density of a tanh-Gaussian is not
# defined. Beyond this magnitude the probability of the whole tail is spread evenly over it.
TAIL = 0.999
LOG_2 = math.log(2.0)
EDGE = 1e-6
"""How close to the bounds the density of a mixture is looked at, which is not defined on them."""
LOG_SCALES = (-5.0, 2.0)
"""Range of the logarithm of an unsquashed Gaussian's deviation."""
LOG_SQRT_2_PI = 0.5 * math.log(2.0 * math.pi)


class TanhGaussian(NamedTuple):
    """The distribution of tanh(loc + scale * noise), noise ~ N(0, 1), in each action dimension."""

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
        self, noise: Float[Array, "*draw batch action"]
    ) -> tuple[Float[Array, "*draw batch action"], Float[Array, "*draw batch"]]:
        """Samples and their log-densities, which are finite however far the noise reaches."""
        raw = self.loc + self.scale * noise
        log_gaussian = _log_gaussian(noise, self.scale)
        return jnp.tanh(raw), (log_gaussian - _log_tanh_slope(raw)).sum(-1)

    def log_prob(self, actions: Float[Array, "batch action"]) -> Float[Array, " batch"]:
        """Log-density of given actions, the tails beyond +-0.999 taken as a whole."""
        raw = jnp.arctanh(jnp.clip(actions, -TAIL, TAIL))
        standardised = (raw - self.loc) / self.scale
        inside = _log_gaussian(standardised, self.scale) - _log_tanh_slope(raw)
        log_width = math.log(1.0 - TAIL)
        above = log_ndtr(-standardised) - log_width
        below = log_ndtr(standardised) - log_width
        each = jnp.where(actions >= TAIL, above, jnp.where(actions <= -TAIL, below, inside))
        return each.sum(-1)


class Point(NamedTuple):
    """One action a state; a sample is the action with clipped noise (Fujimoto et al. 2018)."""

    mode: Float[Array, "batch action"]
    noise: float
    clip: float

    def sample(
        self, noise: Float[Array, "*draw batch action"]
    ) -> Float[Array, "*draw batch action"]:
        """Around the action, for standard-normal noise: what smooths TD targets."""
        return jnp.clip(self.mode + jnp.clip(self.noise * noise, -self.clip, self.clip), -1.0, 1.0)

    def sample_and_log_prob(
        self, noise: Float[Array, "batch action"]
    ) -> tuple[Float[Array, "batch action"], Float[Array, " batch"]]:
        """The action itself, through which the policy's gradient goes; it has no density."""
        del noise
        return self.mode, jnp.zeros(len(self.mode))

    def log_prob(self, actions: Float[Array, "batch action"]) -> Float[Array, " batch"]:
        """Minus the squared distance: what cloning by likelihood is for a single action."""
        return -((self.mode - actions) ** 2).sum(-1)


class Gaussian(NamedTuple):
    """The distribution of loc + scale * noise, noise ~ N(0, 1), in each action dimension."""

    loc: Float[Array, "batch action"]
    scale: Float[Array, " action"]

    def log_prob(self, actions: Float[Array, "batch action"]) -> Float[Array, " batch"]:
        """Log-density of given actions, which those beyond the bounds have their share of."""
        return _log_gaussian((actions - self.loc) / self.scale, self.scale).sum(-1)


class TanhMixture(NamedTuple):
    """In each action dimension a mixture of tanh-Gaussians, independent of the other dimensions."""

    logits: Float[Array, "batch action part"]
    loc: Float[Array, "batch action part"]
    scale: Float[Array, "batch action part"]

    def log_prob(self, actions: Float[Array, "batch action"]) -> Float[Array, " batch"]:
        """Log-density of given actions, with a gradient in them everywhere but on the very bounds."""
        raw = jnp.arctanh(jnp.clip(actions, -1.0 + EDGE, 1.0 - EDGE))[..., None]
        parts = _log_gaussian((raw - self.loc) / self.scale, self.scale) - _log_tanh_slope(raw)
        return jax.nn.logsumexp(jax.nn.log_softmax(self.logits) + parts, axis=-1).sum(-1)

    def sample(
        self,
        noise: Float[Array, "batch action"],
        choice: Float[Array, "batch action part"],
    ) -> Float[Array, "batch action"]:
        """Actions for standard-normal noise, from the parts that standard Gumbel noise chooses."""
        part = jnp.argmax(self.logits + choice, axis=-1, keepdims=True)
        loc, scale = (jnp.take_along_axis(p, part, -1)[..., 0] for p in (self.loc, self.scale))
        return jnp.tanh(loc + scale * noise)


def _log_gaussian(
    standardised: Float[Array, "..."], scale: Float[Array, "..."]
) -> Float[Array, "..."]:
    """Log-density of N(loc, scale^2), given (x - loc) / scale."""
    return -0.5 * standardised**2 - jnp.log(scale) - LOG_SQRT_2_PI


def _log_tanh_slope(raw: Float[Array, "..."]) -> Float[Array, "..."]:
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
        features = relu(self.trunk(observations))
        scale = jax.nn.softplus(self.raw_scale(features)) + MINIMUM_SCALE
        return TanhGaussian(self.loc(features), scale)

    def act(
        self,
        observations: Float[Array, "batch observation"],
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "batch action"]:
        """The mode, or with a key a sample."""
        pi = self(observations)
        return pi.mode if key is None else pi.sample(jax.random.normal(key, pi.loc.shape))


class GaussianPolicy(eqx.Module):
    """A network to the mean of a Gaussian, whose deviation is learned but the same in every state."""

    loc: MLP
    log_scale: Float[Array, " action"]

    @classmethod
    def init(
        cls,
        observation_size: int,
        action_size: int,
        hidden: Sequence[int],
        *,
        key: PRNGKeyArray,
    ) -> "GaussianPolicy":
        return cls(MLP.init(observation_size, hidden, action_size, key=key), jnp.zeros(action_size))

    def __call__(self, observations: Float[Array, "batch observation"]) -> Gaussian:
        scale = jnp.exp(jnp.clip(self.log_scale, *LOG_SCALES))
        return Gaussian(jnp.tanh(self.loc(observations)), scale)

    def act(
        self,
        observations: Float[Array, "batch observation"],
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "batch action"]:
        """The mean, or with a key a sample, brought back to the bounds."""
        pi = self(observations)
        if key is None:
            return pi.loc
        return jnp.clip(
            pi.loc + pi.scale * jax.random.normal(key, pi.loc.shape),
            -1.0,
            1.0,
        )


class MixturePolicy(eqx.Module):
    """A network from observations to mixtures of tanh-Gaussians: a model of several behaviours."""

    network: MLP
    parts: int = eqx.field(static=True)

    @classmethod
    def init(
        cls,
        observation_size: int,
        action_size: int,
        hidden: Sequence[int],
        *,
        parts: int,
        key: PRNGKeyArray,
    ) -> "MixturePolicy":
        return cls(MLP.init(observation_size, hidden, 3 * parts * action_size, key=key), parts)

    def __call__(self, observations: Float[Array, "batch observation"]) -> TanhMixture:
        outputs = self.network(observations).reshape(observations.shape[0], -1, 3, self.parts)
        logits, loc, raw_scale = jnp.moveaxis(outputs, -2, 0)
        return TanhMixture(logits, loc, jax.nn.softplus(raw_scale) + MINIMUM_SCALE)


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


class PointPolicy(eqx.Module):
    """A network from observations to one action each, with the noise that TD targets are smoothed by."""

    network: MLP
    noise: float = eqx.field(static=True)
    clip: float = eqx.field(static=True)

    @classmethod
    def init(
        cls,
        observation_size: int,
        action_size: int,
        hidden: Sequence[int],
        *,
        noise: float,
        clip: float,
        key: PRNGKeyArray,
    ) -> "PointPolicy":
        return cls(MLP.init(observation_size, hidden, action_size, key=key), noise, clip)

    def __call__(self, observations: Float[Array, "batch observation"]) -> Point:
        return Point(jnp.tanh(self.network(observations)), self.noise, self.clip)

    def act(
        self,
        observations: Float[Array, "batch observation"],
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "batch action"]:
        """The action, or with a key the action with the noise of TD targets on it."""
        here = self(observations)
        if key is None:
            return here.mode
        return here.sample(jax.random.normal(key, here.mode.shape))
