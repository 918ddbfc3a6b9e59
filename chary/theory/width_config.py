"""Settings of the width experiment, and its presets."""

from dataclasses import dataclass
from typing import Any

from chary.config import (
    BelowOne,
    Checked,
    Layers,
    Positive,
    Rate,
    Seed,
    Several,
    Weight,
    require,
)
from chary.theory import mdp
from chary.theory.kernels import Kernels
from chary.theory.mdp import Chain

BIAS_STDS = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0)
"""sigma_b for which the closed forms are tabulated, with sigma_w = 1."""
OTHERS = ((1.5, 0.05), (1.5, 0.5))
"""Other sigma_w and sigma_b: those of the erf networks in the tutorial of neural-tangents, the paper's
library, and a pair with which complete fits diverge."""


@dataclass(frozen=True)
class WidthConfig(Checked):
    """Ensembles of growing width. The defaults are the paper's; sigma_w and sigma_b are ours.

    sigma_w = 1 is the default of neural-tangents, the paper's library. Its default for biases, none,
    makes Q odd, Q(-s, -a) = -Q(s, a), which no value function here is. From 0.25 to 1 the closed forms
    hardly depend on sigma_b (`collapse.py` tabulates it); 0.5 is in the middle.
    """

    widths: Layers = (32, 128, 512, 2048, 8192, 32768)
    """Hidden units of the linearised networks."""
    trained: tuple[int, ...] = (32, 128, 512, 2048, 8192, 32768)
    """Hidden units of the trained networks, in both parameterisations; may be empty."""
    members: Several = 16
    """Number N of members of an ensemble."""
    few: Several = 4
    """Number of members of the widest trained ensembles."""
    few_from: Positive = 32768
    """Trained ensembles with at least this many hidden units have --few members."""
    weight_std: Rate = 1.0
    """sigma_w, standard deviation of weights."""
    bias_std: Weight = 0.5
    """sigma_b, standard deviation of biases."""
    discount: BelowOne = 0.99
    """Discount factor gamma."""
    learning_rate: Rate = 1.0
    """Learning rate of gradient descent on half the mean squared error."""
    iterations: Positive = 500
    """Iterations: how often the targets are recomputed."""
    steps: Positive = 1000
    """Gradient steps per iteration."""
    ridge: Rate = 1e-3
    """Added to the diagonal of Theta(X, X) in the form with complete fits."""
    episodes: Positive = 40
    """Logged episodes."""
    length: Positive = 30
    """Steps of a logged episode."""
    seed: Seed = 0
    """Seed of the data and of the networks."""
    checkpoint_minutes: Weight = 5.0
    """Minutes between checkpoints. The same command resumes from the last one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("widths", "trained"):
            sizes = getattr(self, name)
            for width in sizes:
                require(width >= 1, name, width, "at least 1")
            require(len(set(sizes)) == len(sizes), name, sizes, "different ones")

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
