"""Settings of the width experiment, and its presets."""

from dataclasses import dataclass
from math import inf
from typing import Any

from chary.config import require, require_rate
from chary.theory import mdp
from chary.theory.kernels import Kernels
from chary.theory.mdp import Chain

BIAS_STDS = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0)
"""sigma_b for which the closed forms are tabulated, with sigma_w = 1."""
OTHERS = ((1.5, 0.05), (1.5, 0.5))
"""Other sigma_w and sigma_b: those of the erf networks in the tutorial of neural-tangents, the paper's
library, and a pair with which complete fits diverge."""


@dataclass(frozen=True)
class WidthConfig:
    """Ensembles of growing width. The defaults are the paper's; sigma_w and sigma_b are ours.

    sigma_w = 1 is the default of neural-tangents, the paper's library. Its default for biases, none,
    makes Q odd, Q(-s, -a) = -Q(s, a), which no value function here is. From 0.25 to 1 the closed forms
    hardly depend on sigma_b (`collapse.py` tabulates it); 0.5 is in the middle.
    """

    widths: tuple[int, ...] = (32, 128, 512, 2048, 8192, 32768)
    """Hidden units of the linearised networks."""
    trained: tuple[int, ...] = (32, 128, 512, 2048, 8192, 32768)
    """Hidden units of the trained networks, in both parameterisations; may be empty."""
    members: int = 16
    """Number N of members of an ensemble."""
    few: int = 4
    """Number of members of the widest trained ensembles."""
    few_from: int = 32768
    """Trained ensembles with at least this many hidden units have --few members."""
    weight_std: float = 1.0
    """sigma_w, standard deviation of weights."""
    bias_std: float = 0.5
    """sigma_b, standard deviation of biases."""
    discount: float = 0.99
    """Discount factor gamma."""
    learning_rate: float = 1.0
    """Learning rate of gradient descent on half the mean squared error."""
    iterations: int = 500
    """Iterations: how often the targets are recomputed."""
    steps: int = 1000
    """Gradient steps per iteration."""
    ridge: float = 1e-3
    """Added to the diagonal of Theta(X, X) in the form with complete fits."""
    episodes: int = 40
    """Logged episodes."""
    length: int = 30
    """Steps of a logged episode."""
    seed: int = 0
    """Seed of the data and of the networks."""
    checkpoint_minutes: float = 5.0
    """Minutes between checkpoints. The same command resumes from the last one."""

    def __post_init__(self) -> None:
        require(len(self.widths) > 0, "widths", "empty", "at least one number")
        for name in ("widths", "trained"):
            sizes = getattr(self, name)
            for width in sizes:
                require(width >= 1, name, width, "at least 1")
            require(len(set(sizes)) == len(sizes), name, sizes, "different ones")
        require(self.members >= 2, "members", self.members, "at least 2")
        require(self.few >= 2, "few", self.few, "at least 2")
        require(self.few_from >= 1, "few-from", self.few_from, "at least 1")
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
        """Of an ensemble that is trained; the widest are smaller, as in the paper."""
        return self.few if width >= self.few_from else self.members

    def data(self) -> Chain:
        """The transitions that the seed gives."""
        return mdp.collect(self.episodes, self.length, self.seed)

    def kernels(self) -> Kernels:
        """Of the infinitely wide network."""
        return Kernels(self.weight_std, self.bias_std)


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    # All has the paper's size but for the networks that are trained: these are narrower, and fewer.
    "quick": {"trained": (32, 128, 512), "few_from": 128},
}
