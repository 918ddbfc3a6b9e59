"""Settings of a run beside those of its algorithm, and how presets fill them in."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from chary import acting
from chary.errors import CharyError, unknown_name

Matmul: TypeAlias = Literal["float32", "bfloat16"]
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


def require(condition: bool, option: str, value: object, allowed: str) -> None:
    """Refuse a setting that makes no sense, or is infinite, which config.json could not say."""
    finite = not isinstance(value, float) or isfinite(value)
    if not (condition and finite):
        also = "" if finite else " and finite"
        raise CharyError(f"--{option} is {value}, but must be {allowed}{also}.")


def require_finite(option: str, value: float) -> None:
    """Refuse what is no number."""
    require(True, option, value, "a number")


def require_rate(option: str, value: float) -> None:
    """Refuse a step size that would not learn."""
    require(value > 0.0, option, value, "above 0")


def require_layers(hidden: tuple[int, ...], batch_size: int) -> None:
    """Refuse networks or batches of nothing."""
    require(min(hidden, default=0) >= 1, "hidden", hidden, "sizes of at least 1")
    require(batch_size >= 1, "batch-size", batch_size, "at least 1")


def require_backup(discount: float, tau: float) -> None:
    """Refuse a discount or a target average that is none."""
    require(0.0 <= discount <= 1.0, "discount", discount, "between 0 and 1")
    require(0.0 < tau <= 1.0, "tau", tau, "above 0 and at most 1")


def refuse_repeats(option: str, values: Sequence[Any]) -> None:
    """Nothing is to be trained twice under one name."""
    repeated = [value for value in values if list(values).count(value) > 1]
    if repeated:
        raise CharyError(f"--{option} names {repeated[0]} more than once.")


def apply(
    settings: dict[str, Any], algorithm: Any, run: RunConfig, *, source: str
) -> tuple[Any, RunConfig]:
    """Both configs with the given fields replaced; each field belongs to one of them."""
    settings = in_words(settings)
    algorithm_fields = {f.name for f in fields(algorithm)}
    run_fields = {f.name for f in fields(run)}
    for name in settings:
        if name not in algorithm_fields | run_fields:
            raise unknown_name("setting", name, algorithm_fields | run_fields, f"(in {source})")
    mine = {k: v for k, v in settings.items() if k in algorithm_fields}
    return (
        replace(algorithm, **mine),
        replace(run, **{k: v for k, v in settings.items() if k in run_fields}),
    )


def in_words(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings in which observations are normalised by a word: once the choice was only yes or no."""
    chosen = settings.get("normalise_observations")
    if not isinstance(chosen, bool):
        return settings
    return {**settings, "normalise_observations": "moments" if chosen else "none"}


def to_json(config: Any) -> dict[str, Any]:
    """A config as plain JSON values."""
    return {
        k: str(v) if isinstance(v, Path) else list(v) if isinstance(v, tuple) else v
        for k, v in asdict(config).items()
    }


def from_json(kind: Any, record: dict[str, Any]) -> Any:
    """The config that `to_json` made; an older run did what the config says of the time before."""
    known = {f.name for f in fields(kind)}
    record = in_words({**getattr(kind, "BEFORE", {}), **record})
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in record.items() if k in known}
    for path in ("run", "data_file"):
        if isinstance(values.get(path), str):
            values[path] = Path(str(values[path]))
    return kind(**values)
