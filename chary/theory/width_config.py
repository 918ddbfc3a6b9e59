"""Settings of the width experiment, and its presets."""

from dataclasses import dataclass
from math import inf
from typing import Any

from chary.settings import require, require_rate
from chary.theory.kernels import Kernels

WIDEST = 32768
"""From this width on ensembles have `few` members."""


@dataclass(frozen=True)
class WidthConfig:
    """Ensembles of growing width. The defaults are the paper's, but for the two standard deviations:
    it gives none, and with these its learning rate of 1 is stable."""

    widths: tuple[int, ...] = (32, 128, 512, 2048, 8192, 32768)
    """Hidden units."""
    members: int = 16
    """N, members of an ensemble."""
    few: int = 4
    """Members where there are 32768 hidden units or more."""
    weight_std: float = 1.5
    """sigma_w, standard deviation of weights."""
    bias_std: float = 0.5
    """sigma_b, standard deviation of biases."""
    discount: float = 0.99
    """gamma."""
    learning_rate: float = 1.0
    """Of gradient descent on half the mean squared error."""
    iterations: int = 500
    """How often targets are computed anew."""
    steps: int = 1000
    """Steps of gradient descent in an iteration."""
    ridge: float = 1e-3
    """Added to the diagonal of Theta(X, X) in the form with complete fits."""
    episodes: int = 40
    """Logged episodes."""
    length: int = 30
    """Steps of a logged episode."""
    seed: int = 0
    """Seed of the data and of the networks."""
    checkpoint_minutes: float = 5.0
    """Time between savings of the state; the same command goes on from there."""

    def __post_init__(self) -> None:
        require(len(self.widths) > 0, "widths", "empty", "at least one number")
        for width in self.widths:
            require(width >= 1, "widths", width, "at least 1")
        require(len(set(self.widths)) == len(self.widths), "widths", self.widths, "different ones")
        require(self.members >= 2, "members", self.members, "at least 2")
        require(self.few >= 2, "few", self.few, "at least 2")
        for name in ("iterations", "steps", "episodes", "length"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        require_rate("weight-std", self.weight_std)
        require_rate("learning-rate", self.learning_rate)
        require_rate("ridge", self.ridge)
        require(0 <= self.bias_std < inf, "bias-std", self.bias_std, "at least 0 and finite")
        require(0 <= self.discount < 1, "discount", self.discount, "at least 0 and below 1")
        require(0 <= self.seed < 2**31, "seed", self.seed, "between 0 and 2147483647")
        require(
            self.checkpoint_minutes >= 0,
            "checkpoint-minutes",
            self.checkpoint_minutes,
            "at least 0",
        )

    def members_at(self, width: int) -> int:
        """The widest ensembles are smaller, as in the paper."""
        return self.few if width >= WIDEST else self.members

    def kernels(self) -> Kernels:
        """Of the infinitely wide network."""
        return Kernels(self.weight_std, self.bias_std)


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    # More members for the intervals; less of everything that costs time. Values need some tens of
    # iterations to arrive left of the gap, and with them the spread; the discount is such that they do.
    "quick": {
        "widths": (32, 128, 512, 2048),
        "members": 64,
        "discount": 0.9,
        "iterations": 40,
        "steps": 100,
        "episodes": 4,
    },
}
