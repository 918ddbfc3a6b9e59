"""Settings of a run beside those of its algorithm."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from chary.config import require, require_finite
from chary.errors import CharyError
from chary.evaluation import acting
from chary.networks.matmul import Matmul

Normalise: TypeAlias = Literal["auto", "none", "moments", "quantiles"]


@dataclass(frozen=True)
class RunConfig:
    """What to learn from, for how long, and what to keep on the way."""

    dataset: str = ""
    """Name of a dataset (`chary data list`), or a file in D4RL's layout (.hdf5, .npz)."""
    data_file: Path | None = None
    """File to read the named dataset from, instead of from where chary keeps it."""
    steps: int = 2_000_000
    """Gradient steps."""
    env: str | None = None
    """Simulator to evaluate in, where the dataset does not bring one: a Gymnasium id, or module:make of
    your own, found from the current folder."""
    seed: int = 0
    """Seed of everything random in the run."""
    run: Path | None = None
    """Run folder; by default runs/<algorithm>-<dataset>-<seed>."""
    reward_scale: float | None = None
    """Learning sees scale * (reward + shift). By default what the named dataset recommends; for data of
    your own what brings its discounted returns to a standard range."""
    reward_shift: float | None = None
    """Added to each reward before scaling. By default what the named dataset recommends; for data of
    your own minus the median reward where no episode truly ends, else 0."""
    return_range: float | None = None
    """Scale rewards so that the dataset's best and worst return are this far apart, whatever the scale
    given above."""
    n_step: int = 1
    """Steps that a TD target looks ahead: the rewards of so many logged steps, then the value there.
    Values travel through the data so many times as fast; the actions between are the data's."""
    normalise_observations: Normalise = "auto"
    """Give every observation column the same scale: by its mean and deviation over the dataset
    (moments), by its median and the range of its middle nine tenths (quantiles), or leave all as they
    are (none). auto is quantiles for data of your own, and none for a named dataset."""
    allow_finite_actions: bool = False
    """Train although the logged actions take only a few values. The policy then chooses any number
    between the bounds, which makes sense for amounts and not for kinds."""
    log_every: int = 500
    """Steps between lines of metrics, which are averages over those steps."""
    eval_every: int = 5_000
    """Steps between evaluations; there is always one at the end. 0 for only that one. Without a
    simulator only the critics are asked: what they doubt, in the data and beyond."""
    eval_episodes: int = 20
    """Episodes of an evaluation on the way."""
    final_episodes: int = 100
    """Episodes of the evaluation at the end; 0 for none at all, here or on the way."""
    act: str = "mode"
    """How the policy acts in evaluations: mode, sample, both (the mode, and samples beside it), or
    best-of-32: of so many samples the one with the largest lower confidence bound."""
    checkpoint_minutes: float = 5.0
    """Time between checkpoints; there is also one at each evaluation and at the end."""
    validation: float = 0.0
    """Share of episodes held out, on which algorithms that can are scored at every log line."""
    patience: int = 0
    """End the run after this many log lines without a better validation score; 0 for never."""
    matmul: Matmul = "float32"
    """What the networks multiply while they learn: float32, or on accelerators that are faster with it
    bfloat16, with sums, parameters and targets in float32 all the same."""
    tensorboard: bool = False
    """Also write TensorBoard event files into the run folder."""

    BEFORE: ClassVar[dict[str, Any]] = {"normalise_observations": "none"}
    """What runs did before these were settings."""

    @staticmethod
    def migrated(settings: dict[str, Any]) -> dict[str, Any]:
        """Settings in which observations are normalised by a word: once the choice was yes or no."""
        chosen = settings.get("normalise_observations")
        if not isinstance(chosen, bool):
            return settings
        return {**settings, "normalise_observations": "moments" if chosen else "none"}

    def __post_init__(self) -> None:
        require(self.steps >= 1, "steps", self.steps, "at least 1")
        require(0 <= self.seed < 2**31, "seed", self.seed, "between 0 and 2147483647")
        require(self.n_step >= 1, "n-step", self.n_step, "at least 1")
        require(self.log_every >= 1, "log-every", self.log_every, "at least 1")
        require(self.eval_every >= 0, "eval-every", self.eval_every, "at least 0")
        require(self.eval_episodes >= 1, "eval-episodes", self.eval_episodes, "at least 1")
        require(self.final_episodes >= 0, "final-episodes", self.final_episodes, "at least 0")
        acting.resolve(self.act)
        require(
            self.checkpoint_minutes >= 0,
            "checkpoint-minutes",
            self.checkpoint_minutes,
            "at least 0",
        )
        require(0 <= self.validation < 1, "validation", self.validation, "at least 0 and below 1")
        ways = get_args(Normalise)
        chosen = self.normalise_observations
        require(chosen in ways, "normalise-observations", chosen, " or ".join(ways))
        kinds = get_args(Matmul)
        require(self.matmul in kinds, "matmul", self.matmul, " or ".join(kinds))
        require(self.patience >= 0, "patience", self.patience, "at least 0")
        if self.return_range is not None:
            require(self.return_range > 0.0, "return-range", self.return_range, "above 0")
        for option in ("reward_scale", "reward_shift"):
            value = getattr(self, option)
            if value is not None:
                require_finite(option.replace("_", "-"), value)
        if self.patience and not self.validation:
            raise CharyError("--patience needs held-out episodes: add --validation 0.1, say.")
