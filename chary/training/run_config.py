"""Settings of a run beside those of its algorithm."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from chary.config import BelowOne, Checked, Count, Positive, Rate, Seed, Weight
from chary.errors import CharyError
from chary.evaluation import acting
from chary.execution.config import Execution

Normalise: TypeAlias = Literal["auto", "none", "moments", "quantiles"]


@dataclass(frozen=True)
class RunConfig(Checked):
    """What to learn from, for how long, and what to keep on the way."""

    dataset: str = ""
    """Name of a dataset (`chary data list`), or a file in D4RL's layout (.hdf5, .npz)."""
    data_file: Path | None = None
    """File to read the named dataset from, instead of from where chary keeps it."""
    steps: Positive = 2_000_000
    """Gradient steps."""
    env: str | None = None
    """Simulator to evaluate in, where the dataset does not bring one: a Gymnasium id, or module:make of
    your own, found from the current folder."""
    seed: Seed = 0
    """Seed of everything random in the run."""
    run: Path | None = None
    """Run folder; by default runs/<algorithm>-<dataset>-<seed>."""
    reward_scale: float | None = None
    """Learning sees scale * (reward + shift). By default what the named dataset recommends; for data of
    your own what brings its discounted returns to a standard range."""
    reward_shift: float | None = None
    """Added to each reward before scaling. By default what the named dataset recommends; for data of
    your own minus the median reward where no episode truly ends, else 0."""
    return_range: Rate | None = None
    """Scale rewards so that the dataset's best and worst return are this far apart, whatever the scale
    given above."""
    n_step: Positive = 1
    """Steps that a TD target looks ahead: the rewards of so many logged steps, then the value there.
    Values travel through the data so many times as fast; the actions between are the data's."""
    normalise_observations: Normalise = "auto"
    """Give every observation column the same scale: by its mean and deviation over the dataset
    (moments), by its median and the range of its middle nine tenths (quantiles), or leave all as they
    are (none). auto is quantiles for data of your own, and none for a named dataset."""
    allow_finite_actions: bool = False
    """Train although the logged actions take only a few values. The policy then chooses any number
    between the bounds, which makes sense for amounts and not for kinds."""
    log_every: Positive = 500
    """Steps between lines of metrics, which are averages over those steps."""
    eval_every: Count = 5_000
    """Steps between evaluations; there is always one at the end. 0 for only that one. Without a
    simulator only the critics are asked: what they doubt, in the data and beyond."""
    eval_episodes: Positive = 20
    """Episodes of an evaluation on the way."""
    final_episodes: Count = 100
    """Episodes of the evaluation at the end; 0 for none at all, here or on the way."""
    act: str = "mode"
    """How the policy acts in evaluations: mode, sample, both (the mode, and samples beside it), or
    best-of-32: of so many samples the one with the largest lower confidence bound."""
    checkpoint_minutes: Weight = 5.0
    """Time between checkpoints; there is also one at each evaluation and at the end."""
    validation: BelowOne = 0.0
    """Share of episodes held out, on which algorithms that can are scored at every log line."""
    patience: Count = 0
    """End the run after this many log lines without a better validation score; 0 for never."""
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
        super().__post_init__()
        acting.resolve(self.act)
        if self.patience and not self.validation:
            raise CharyError("--patience needs held-out episodes: add --validation 0.1, say.")


class RunSpec(NamedTuple):
    """A run in full."""

    algorithm: str
    config: Any
    """The algorithm's settings."""
    run: RunConfig
    execution: Execution
    preset: str
    """The name that the settings started from."""

    @property
    def folder(self) -> Path:
        assert self.run.run is not None
        return self.run.run
