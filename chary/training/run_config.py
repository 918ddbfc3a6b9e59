"""Settings of a run beside those of its algorithm."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from chary.config import BelowOne, Checked, Count, Positive, Rate, Seed, Weight
from chary.errors import CharyError
from chary.evaluation import acting
from chary.execution.config import Execution
from chary.online.config import OnlineConfig
from chary.track import TrackerName

Normalise: TypeAlias = Literal["auto", "none", "moments", "quantiles"]


@dataclass(frozen=True)
class RunConfig(Checked):
    """What to learn from, for how long, and what to keep on the way."""

    dataset: str = ""
    """Name of a dataset (see `chary data list`), or a file in D4RL's layout (.hdf5, .npz)."""
    data_file: Path | None = None
    """File with the data of the named dataset, instead of the one in chary's cache."""
    steps: Positive = 2_000_000
    """Number of gradient steps; for a run that learns in its task, of environment steps."""
    env: str | None = None
    """Simulator, if the dataset has none: a Gymnasium id, or your own module:make, imported from the
    current folder."""
    seed: Seed = 0
    """Seed of all random numbers of the run."""
    run: Path | None = None
    """Run folder. If omitted: runs/<algorithm>-<dataset>-<seed>."""
    reward_scale: float | None = None
    """The learner's reward is scale * (reward + shift). If omitted: a named dataset's recommended
    scale; for your own data a scale that gives discounted returns a standard range."""
    reward_shift: float | None = None
    """Added to each reward before scaling. If omitted: a named dataset's recommended shift; for
    your own data minus the median reward if no episode truly ends, else 0."""
    return_range: Rate | None = None
    """Scale rewards so that the dataset's best and worst return differ by this much. Overrides
    --reward-scale."""
    n_step: Positive = 1
    """Length of n-step TD targets: the rewards of this many logged steps, then the value of the
    state reached. Values propagate faster, but the actions in between are the data's."""
    normalise_observations: Normalise = "auto"
    """Normalise each observation column. moments: by its mean and standard deviation. quantiles: by
    its median and the range of its middle 90%. none: no normalisation. auto: quantiles for your own
    data, none for a named dataset."""
    allow_finite_actions: bool = False
    """Train even if the logged actions take only a few values. The policy chooses any number
    between the bounds, so this suits quantities, not categories."""
    log_every: Positive = 500
    """Steps between log lines. Metrics are averages over these steps."""
    eval_every: Count = 5_000
    """Steps between evaluations. There is always one at the end; with 0 only that one. Without a
    simulator only the critics' diagnostics are computed, on and off the data."""
    eval_episodes: Positive = 20
    """Episodes per evaluation during training."""
    final_episodes: Count = 100
    """Episodes of the evaluation at the end; 0 turns all evaluations off."""
    act: str = "mode"
    """How the policy acts in evaluations. mode: its mode. sample: sampled actions. both: one
    evaluation of each. best-of-32: of 32 samples the one with the largest lower confidence bound
    (any number works)."""
    checkpoint_minutes: Weight = 5.0
    """Minutes between checkpoints. There is also one at each evaluation and at the end."""
    validation: BelowOne = 0.0
    """Share of episodes to hold out, from 0 to below 1. Algorithms with a held-out score are scored
    on them at every log line."""
    holdout: BelowOne = 0.0
    """Share of episodes, from 0 to below 1, that no run learns from: the same ones in every seed.
    `chary select` compares policies on them."""
    patience: Count = 0
    """Stop after this many log lines without a better validation score; 0 never stops early."""
    track: tuple[TrackerName, ...] = ()
    """Also pass the logs on to these trackers: tensorboard, wandb, mlflow, trackio. Everything stays on
    this machine unless you say otherwise; see `chary track --help`."""

    BEFORE: ClassVar[dict[str, Any]] = {"normalise_observations": "none"}
    """What runs did before these were settings."""

    @staticmethod
    def migrated(settings: dict[str, Any]) -> dict[str, Any]:
        """Settings in today's words: normalising observations and TensorBoard were once yes or no."""
        settings = dict(settings)
        if isinstance(chosen := settings.get("normalise_observations"), bool):
            settings["normalise_observations"] = "moments" if chosen else "none"
        if settings.pop("tensorboard", False):
            settings.setdefault("track", ("tensorboard",))
        return settings

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
    online: OnlineConfig | None = None
    """How the run learns in its task; None for one that learns from logged data alone."""

    @property
    def own_code(self) -> tuple[str, ...]:
        """The user's code that training imports, by module:Name."""
        named = (self.algorithm, getattr(self.config, "ensemble", None), self.run.env)
        return tuple(name for name in named if name and ":" in name)

    @property
    def folder(self) -> Path:
        assert self.run.run is not None
        return self.run.run
