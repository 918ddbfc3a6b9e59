"""Whether an ensemble can be believed: its disagreement, its calibration and its members, over training.

All values are in the learner's reward units. What the numbers mean in words is in `verdicts.py`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from chary.lines import is_number
from chary.report.story import RunStory

ACTIONS = ("data", "policy", "random")
"""Whose actions the members are compared on, at the same dataset states."""
READ = (*(f"values_{kind}" for kind in ACTIONS), "start_values", "discounted_returns", "beta")
MOST = 40
"""Evaluations that are looked at; of more, that many evenly spread over training."""
CONSTANT = 1e-6
"""A member whose values vary less than this, relative to the others', has died."""
OUTSIDE = 10.0
"""A member whose values are this many times as large as the others' has gone its own way."""


@dataclass(frozen=True)
class Look:
    """The ensemble at one evaluation."""

    step: int
    members: int
    std: dict[str, float]
    """Mean over dataset states of the members' standard deviation, for each kind of actions."""
    spread: float
    """How much their mean differs between those states and actions: what a std is large against."""
    mean: np.ndarray
    """The members' mean at the start of every episode, for the policy's action."""
    lcb: np.ndarray | None
    """Their lower confidence bound there; None where beta is not known."""
    achieved: np.ndarray
    """The discounted return that followed."""
    typical: dict[str, np.ndarray]
    """The members' mean at every dataset state, for each kind of actions."""
    effective: float
    dead: tuple[int, ...]
    wild: tuple[int, ...]

    @property
    def held(self) -> float | None:
        """Share of episodes whose return was no less than the bound."""
        return None if self.lcb is None else float((self.achieved >= self.lcb).mean())


@dataclass(frozen=True)
class Health:
    """The ensemble over training."""

    looks: list[Look]
    bounds: tuple[float, float] | None
    """The smallest and largest discounted return that rewards like the data's allow."""
    beta: float | None
    evaluations: int
    """How many there were, of which `looks` are some or all."""

    @property
    def last(self) -> Look:
        return self.looks[-1]


def examine(story: RunStory) -> Health | None:
    """What is known of a run's critics; None where there are none, or none were asked yet."""
    looks: list[Look] = []
    beta = _number(story.part("settings").get("beta"))
    for step, arrays in story.snapshots(READ, most=MOST):
        if not all(name in arrays for name in READ[:-1]):
            continue
        if "beta" in arrays:
            beta = float(arrays["beta"])
        looks.append(look(step, arrays, beta))
    if not looks:
        return None
    return Health(looks, return_bounds(story), beta, len(story.snapshot_steps))


def look(step: int, arrays: dict[str, np.ndarray], beta: float | None) -> Look:
    """One evaluation's arrays, judged."""
    with np.errstate(all="ignore"):  # members that diverged are counted, not warned of
        values = {kind: arrays[f"values_{kind}"].astype(np.float64) for kind in ACTIONS}
        starts = arrays["start_values"].astype(np.float64)
        everywhere = np.concatenate(list(values.values()), axis=1)
        mean = starts.mean(axis=0)
        dead, wild = _lost(everywhere)
        return Look(
            step=step,
            members=len(starts),
            std={kind: spread(v) for kind, v in values.items()},
            spread=float(everywhere.mean(axis=0).std()),
            mean=mean,
            lcb=None if beta is None else mean + beta * starts.std(axis=0),
            achieved=arrays["discounted_returns"],
            typical={kind: v.mean(axis=0) for kind, v in values.items()},
            effective=effective_members(np.concatenate([values["data"], values["policy"]], axis=1)),
            dead=dead,
            wild=wild,
        )


def spread(values: np.ndarray) -> float:
    """Mean over states of the members' standard deviation, from (member, state)."""
    return float(values.std(axis=0, dtype=np.float64).mean())


def effective_members(values: np.ndarray) -> float:
    """How many independent members would differ in as many ways, from (member, state).

    What members have in common, the true value among it, cancels in their deviations from the mean, and
    what is left are the errors that are their own. Their covariance S between members has
    (tr S)^2 / tr S^2 directions that matter (as in Pennell and Reichler 2011 for climate models), less
    what chance adds to tr S^2 in so many states; the common direction makes one more. Independent
    members count fully, identical ones as one.
    """
    members, states = values.shape
    own = values - values.mean(axis=0)
    own = own - own.mean(axis=1, keepdims=True)
    covariance = own @ own.T / states
    total, squared = np.trace(covariance), float((covariance**2).sum())
    if not np.isfinite(squared):
        return float("nan")
    scale = float(np.abs(values).max())
    if total <= members * (1e-6 * scale) ** 2:  # no more than rounding
        return 1.0
    by_chance = total**2 / states
    return float(min(members, 1.0 + total**2 / max(squared - by_chance, total**2 / members)))


def return_bounds(story: RunStory) -> tuple[float, float] | None:
    """The smallest and largest discounted return of any episode with rewards like the data's.

    An episode is worth between what going on for ever pays and what ending at once pays:
    r (1 - gamma^t) / (1 - gamma) + gamma^t r_end lies between r / (1 - gamma) and r_end for every t.
    """
    rewards = story.data.get("rewards", {})
    transform = story.part("scaling", "reward")
    discount = _number(story.part("settings").get("discount"))
    scale, shift = _number(transform.get("scale")), _number(transform.get("shift"))
    if discount is None or not 0.0 <= discount < 1.0 or scale is None or shift is None:
        return None
    worths: list[float] = []
    for kind, worth in (("going_on", 1.0 / (1.0 - discount)), ("ending", 1.0)):
        worths += [scale * (reward + shift) * worth for reward in rewards.get(kind) or ()]
    return (min(worths), max(worths)) if worths else None


def _lost(values: np.ndarray) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Members that say the same everywhere, and members far from all others."""
    variation, size = values.std(axis=1), np.abs(values).max(axis=1)
    finite = np.isfinite(values).all(axis=1)
    if not finite.any():
        return (), tuple(range(len(values)))
    usual, large = np.median(variation[finite]), np.median(size[finite])
    wild = ~finite | (size > OUTSIDE * large if finite.sum() > 2 else False)
    dead = ~wild & (variation <= CONSTANT * max(usual, CONSTANT * large))
    return tuple(np.flatnonzero(dead).tolist()), tuple(np.flatnonzero(wild).tolist())


def _number(value: Any) -> float | None:
    return float(value) if is_number(value) else None
