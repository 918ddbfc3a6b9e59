"""Values as expectations over bins, learned by cross-entropy (Farebrother et al. 2024, HL-Gauss).

A critic gives K logits for K bins of equal width w between a lowest and a highest value. Its value is
sum_k p_k z_k, the expectation over the bins' centres z. A target y becomes a distribution too: the share
of N(y, sigma^2) that falls into each bin, with sigma = 3/4 w, as the authors recommend.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

WIDTHS = 0.75
"""The deviation of a target in widths of a bin."""


class Bins(NamedTuple):
    """K bins between two values."""

    low: float
    high: float
    bins: int

    @property
    def width(self) -> float:
        return (self.high - self.low) / self.bins

    def edges(self) -> Float[Array, " edges"]:
        return jnp.linspace(self.low, self.high, self.bins + 1)

    def value(self, logits: Float[Array, "*axes bin"]) -> Float[Array, "*axes"]:
        """E[z] of the distribution that the logits give."""
        edges = self.edges()
        return jax.nn.softmax(logits) @ (0.5 * (edges[1:] + edges[:-1]))

    def distribution(self, targets: Float[Array, "*axes"]) -> Float[Array, "*axes bin"]:
        """What falls into each bin of a Gaussian around each target; what falls outside is left out."""
        inside = jnp.clip(targets, self.low, self.high)[..., None]
        below = ndtr((self.edges() - inside) / (WIDTHS * self.width))
        return jnp.diff(below) / (below[..., -1:] - below[..., :1])

    def cross_entropy(
        self,
        logits: Float[Array, "member head rows bin"],
        targets: Float[Array, "member rows"],
        weights: Float[Array, "member #head rows"],
    ) -> Float[Array, " member"]:
        """E[-w sum_k p_k(y) log p_k(s, a)] of each member, a mean over rows and heads."""
        expected = self.distribution(targets)[:, None]
        return -(weights * (expected * jax.nn.log_softmax(logits)).sum(-1)).mean(axis=(1, 2))
