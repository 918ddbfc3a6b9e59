"""Spending real episodes on a few policies: which to try next, and when it is clear which is best.

Each policy's mean return has a normal prior whose mean follows the order that was found without a
simulator, and the next episode goes to the policy with the largest upper confidence bound. What the
scores mean in returns is not known, so location and spread of the priors come from the episodes
themselves.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

SURE = 0.95
"""Probability of being the best from which no more episodes are spent."""
TRUST = 0.5
"""Deviations of the prior by which a policy of one deviation more in score is expected to be better."""
DRAWS = 4_000


class Trial(NamedTuple):
    """What became of the episodes."""

    returns: tuple[tuple[float, ...], ...]
    """Of each policy, in the order they were played."""
    best: int
    probability: float
    """That it is the best of them."""

    @property
    def used(self) -> int:
        """Episodes."""
        return sum(map(len, self.returns))


def spend(
    play: Callable[[int, int], float], scores: Sequence[float], episodes: int, *, seed: int = 0
) -> Trial:
    """Play at most so many episodes; `play(policy, number)` gives the return of its number-th."""
    order = np.argsort(-np.asarray(scores, float), kind="stable")
    returns: list[list[float]] = [[] for _ in scores]
    rng = np.random.default_rng(seed)
    for used in range(episodes):
        untried = [int(i) for i in order if not returns[i]]
        if untried:
            policy = untried[0]
        else:
            mean, deviation = posterior(scores, returns)
            if _probabilities(mean, deviation, rng).max() >= SURE:
                break
            policy = int(np.argmax(mean + np.sqrt(2.0 * np.log(used + 1.0)) * deviation))
        returns[policy].append(float(play(policy, len(returns[policy]))))
    mean, deviation = posterior(scores, returns)
    best = int(np.argmax(mean))
    chance = float(_probabilities(mean, deviation, rng)[best])
    return Trial(tuple(map(tuple, returns)), best, chance)


def posterior(
    scores: Sequence[float], returns: Sequence[Sequence[float]]
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of what is believed of every policy's mean return."""
    every = np.concatenate([np.asarray(r, float) for r in returns])
    spread = max(float(every.std()), 1e-6)
    score = np.asarray(scores, float)
    standard = (score - score.mean()) / max(float(score.std()), 1e-12)
    prior = every.mean() + TRUST * spread * standard
    counts = np.array([len(r) for r in returns], float)
    means = np.array([np.mean(r) if len(r) else 0.0 for r in returns])
    # One policy's episodes differ as all do until there are enough of them to say: as if one more
    # episode of each had that deviation.
    within = sum(float(((np.asarray(r) - np.mean(r)) ** 2).sum()) for r in returns if len(r))
    noise = (within + len(returns) * spread**2) / (counts.sum() + len(returns))
    precision = 1.0 / spread**2 + counts / noise
    mean = (prior / spread**2 + counts * means / noise) / precision
    return mean, np.sqrt(1.0 / precision)


def _probabilities(mean: np.ndarray, deviation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """That each policy is the best."""
    draws = mean + deviation * rng.standard_normal((DRAWS, len(mean)))
    return np.bincount(draws.argmax(axis=1), minlength=len(mean)) / DRAWS
