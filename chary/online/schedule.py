"""How pessimistic a run is while it learns in its task.

One number says it: 1 is the run's own pessimism, 0 is none. It falls evenly after the warm-up, and the
guard sets it back to 1 while acting is worse than it was before.
"""

import numpy as np

from chary.online.config import OnlineConfig

EPISODES, ERRORS = 20, 2.0
"""The guard compares the mean of this many episodes, and allows this many standard errors."""


def falling(config: OnlineConfig, step: int) -> float:
    """The share of the pessimism that is left at an environment step, unless the guard is up."""
    assert config.loosen_steps is not None
    if config.from_nothing:
        return 0.0  # nothing is known, so there is nothing to hold on to
    over = max(step - config.warmup, 0)
    gone = over / config.loosen_steps if config.loosen_steps else 1.0
    return max(config.keep_pessimism, 1.0 - gone)


def weight(config: OnlineConfig, share: float, beta: float) -> float:
    """Weight of the critics' standard deviation when an action is chosen."""
    if config.explore == "ucb":
        return config.optimism + share * (beta - config.optimism)
    return beta if config.explore == "lcb" else 0.0


class Guard:
    """Watches the returns of the episodes that are acted."""

    def __init__(self, before: float | None):
        self.before = before
        """Mean return of the policy at the start; None where nobody measured it."""
        self.recent: list[float] = []
        self.up = False

    def add(self, episode_return: float) -> None:
        """An episode is over."""
        self.recent = [*self.recent, episode_return][-EPISODES:]
        if self.before is None or len(self.recent) < EPISODES:
            return
        mean, error = np.mean(self.recent), np.std(self.recent, ddof=1) / np.sqrt(EPISODES)
        # Up when it is clearly worse, down only when it is as good again: it does not flutter.
        self.up = bool(mean < self.before if self.up else mean < self.before - ERRORS * error)
