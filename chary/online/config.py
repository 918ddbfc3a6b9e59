"""Settings of learning in the task, beside those of the algorithm and of the run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from chary.config import Checked, Count, Fraction, Positive, Rate, Weight

Explore: TypeAlias = Literal["ucb", "mean", "lcb", "policy"]


@dataclass(frozen=True)
class OnlineConfig(Checked):
    """How a run acts in its task, and what it learns from there."""

    explore: Explore = "ucb"
    """How actions are chosen among samples of the policy. ucb: the largest mean + weight * std of the
    critics, where the weight moves from the run's beta to --optimism. mean: the largest mean. lcb: the
    largest lower confidence bound. policy: the first sample, whatever the critics say."""
    optimism: Weight = 1.0
    """Weight of the standard deviation that ucb ends with."""
    policy_beta: float = 0.0
    """Beta of MSG's policy once pessimism is gone. Above 0 the policy itself maximises an upper
    confidence bound, and proposes actions that the critics are unsure of."""
    candidates: Positive = 10
    """Samples of the policy to choose from."""
    noise: Weight = 0.1
    """Standard deviation of the noise on the actions of a deterministic policy, in units of [-1, 1]."""
    environments: Positive = 5
    """Copies of the task that are stepped in turn."""
    warmup: Count = 5_000
    """Environment steps before the first update: by the policy as it is, or at random without one."""
    updates_per_step: Positive = 1
    """Updates per environment step."""
    retain: Fraction | None = 0.5
    """Share of each batch that comes from the logged data. None: both are sampled alike, row by row."""
    loosen_steps: Count | None = None
    """Environment steps after the warm-up in which the run's pessimism (beta, alpha) goes to 0. If
    omitted: a fifth of all steps."""
    keep_pessimism: Fraction = 0.0
    """Share of the run's pessimism that stays for good. 1: learn on as the run did."""
    guard: bool = True
    """Return to the run's pessimism while the last 20 episodes are worse than the policy was at the
    start, by more than two standard errors."""
    step_seconds: Rate = 60.0
    """Seconds after which a step of the environment counts as hanging."""
    parent: Path | None = None
    """The run whose policy and critics this one starts with."""

    @property
    def from_nothing(self) -> bool:
        """Whether there is no policy to start with."""
        return self.parent is None
