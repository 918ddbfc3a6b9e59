"""Whether an ensemble can be believed: its disagreement, its calibration and its members, over training.

All values are in the learner's reward units. What the numbers mean in words is in `verdicts.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chary.report.online import rewards_seen
from chary.report.statistics import area_under_roc
from chary.report.story import RunStory
from chary.runs.schema import is_number

ACTIONS = ("data", "policy", "random")
"""Whose actions the members are compared on, at the same dataset states."""
LATER = ("perturbed", "off")
"""Kinds that runs of earlier versions do not have: perturbed actions, and states off the data."""
VALUES = tuple(f"values_{kind}" for kind in (*ACTIONS, *LATER))
READ = (*VALUES, "start_values", "discounted_returns", "beta")
COLUMNS = ("column_values", "column_std", "column_counts")
"""The doubt along each column of the observations, kept at the final step."""
CHOSEN = ("probe_actions", "policy_actions")
"""Actions in [-1, 1] at the same states of the data: logged ones and the policy's."""
INNER = (0.01, 0.99)
"""Quantiles of the logged actions between which an action is usual."""
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
    relative: dict[str, float]
    """The same of Q_i(s, a) - Q_i(s, pi(s)) for logged, perturbed and random a: what an action changes,
    without the offsets by which whole members differ. This is all that a policy can act on."""
    told_apart: dict[str, float]
    """How well that tells perturbed and random actions from logged ones: area under the ROC curve."""
    spread: float
    """How much their mean differs between those states and actions: what a std is large against."""
    calibration: "Calibration | None"
    """What was promised at the start of episodes; None where there is no simulator."""
    typical: dict[str, np.ndarray]
    """The members' mean at every dataset state, for each kind of actions."""
    effective: float
    dead: tuple[int, ...]
    wild: tuple[int, ...]


@dataclass(frozen=True)
class Calibration:
    """What was promised at the start of each episode of an evaluation, and what came of it."""

    mean: np.ndarray
    """The members' mean at the start, for the policy's action."""
    lcb: np.ndarray | None
    """Their lower confidence bound there; None where beta is not known."""
    achieved: np.ndarray
    """The discounted return that followed."""

    @property
    def held(self) -> float | None:
        """Share of episodes whose return was no less than the bound."""
        return None if self.lcb is None else float((self.achieved >= self.lcb).mean())


@dataclass(frozen=True)
class Sweep:
    """The doubt as one column of the observations moves through its range and beyond."""

    values: np.ndarray
    """(column, point) in the data's units."""
    std: np.ndarray
    """(column, point): the members' deviation for the policy's action, averaged over states."""
    counts: np.ndarray
    """(column, point): rows of a sample of the data that lie nearest to each value."""

    def growth(self) -> np.ndarray:
        """For each column, the lesser doubt at the two far ends against that where the data lies."""
        inside = (self.std * self.counts).sum(axis=1) / np.maximum(self.counts.sum(axis=1), 1)
        return np.minimum(self.std[:, 0], self.std[:, -1]) / np.maximum(inside, 1e-12)


@dataclass(frozen=True)
class Actions:
    """What was logged and what the policy does instead, at the same states, in [-1, 1]."""

    logged: np.ndarray
    """(state, action)"""
    policy: np.ndarray

    def outside(self) -> np.ndarray:
        """For each action, the share of states in which the policy leaves what is usual in the data."""
        low, high = np.quantile(self.logged, INNER, axis=0)
        return ((self.policy < low) | (self.policy > high)).mean(axis=0)


@dataclass(frozen=True)
class Health:
    """The ensemble over training."""

    looks: list[Look]
    bounds: tuple[float, float] | None
    """The smallest and largest discounted return that rewards like the data's allow."""
    beta: float | None
    evaluations: int
    """How many there were, of which `looks` are some or all."""
    sweep: Sweep | None
    actions: Actions | None

    @property
    def last(self) -> Look:
        return self.looks[-1]


def examine(story: RunStory) -> Health | None:
    """What is known of a run's critics; None where there are none, or none were asked yet."""
    looks: list[Look] = []
    beta = _number(story.part("settings").get("beta"))
    newest: dict[str, np.ndarray] = {}
    for step, arrays in story.snapshots((*READ, *COLUMNS, *CHOSEN), most=MOST):
        if not all(f"values_{kind}" in arrays for kind in ACTIONS):
            continue
        if "beta" in arrays:
            beta = float(arrays["beta"])
        looks.append(look(step, arrays, beta))
        newest = arrays
    if not looks:
        return None
    return Health(
        looks,
        return_bounds(story),
        beta,
        len(story.snapshot_steps),
        sweep=_made(Sweep, newest, COLUMNS),
        actions=_made(Actions, newest, CHOSEN),
    )


def _made(kind: Callable[..., Any], arrays: dict[str, np.ndarray], names: Sequence[str]) -> Any:
    """What is made of these arrays, where all are there."""
    return kind(*(arrays[n] for n in names)) if all(n in arrays for n in names) else None


def look(step: int, arrays: dict[str, np.ndarray], beta: float | None) -> Look:
    """One evaluation's arrays, judged."""
    with np.errstate(all="ignore"):  # members that diverged are counted, not warned of
        values = {
            kind: arrays[f"values_{kind}"].astype(np.float64)
            for kind in (*ACTIONS, *LATER)
            if f"values_{kind}" in arrays
        }
        everywhere = np.concatenate([values[kind] for kind in ACTIONS], axis=1)
        dead, wild = _lost(everywhere)
        offsets_gone = {
            kind: (values[kind] - values["policy"]).std(axis=0)
            for kind in ("data", "perturbed", "random")
            if kind in values
        }
        return Look(
            step=step,
            members=len(everywhere),
            std={kind: spread(v) for kind, v in values.items()},
            relative={kind: float(std.mean()) for kind, std in offsets_gone.items()},
            told_apart={
                kind: area_under_roc(std, offsets_gone["data"])
                for kind, std in offsets_gone.items()
                if kind != "data"
            },
            spread=float(everywhere.mean(axis=0).std()),
            calibration=_calibration(arrays, beta),
            typical={kind: v.mean(axis=0) for kind, v in values.items()},
            effective=effective_members(np.concatenate([values["data"], values["policy"]], axis=1)),
            dead=dead,
            wild=wild,
        )


def _calibration(arrays: dict[str, np.ndarray], beta: float | None) -> Calibration | None:
    if "start_values" not in arrays or "discounted_returns" not in arrays:
        return None
    starts = arrays["start_values"].astype(np.float64)
    mean = starts.mean(axis=0)
    lcb = None if beta is None else mean + beta * starts.std(axis=0)
    return Calibration(mean, lcb, arrays["discounted_returns"])


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
    """The smallest and largest discounted return of any episode with rewards like the data's, and like
    those that the task gave to a run that learns in it.

    An episode is worth between what going on for ever pays and what ending at once pays:
    r (1 - gamma^t) / (1 - gamma) + gamma^t r_end lies between r / (1 - gamma) and r_end for every t.
    """
    rewards, seen = story.data.get("rewards", {}), rewards_seen(story)
    transform = story.part("scaling", "reward")
    discount = _number(story.part("settings").get("discount"))
    scale, shift = _number(transform.get("scale")), _number(transform.get("shift"))
    if discount is None or not 0.0 <= discount < 1.0 or scale is None or shift is None:
        return None
    worths: list[float] = []
    for kind, worth in (("going_on", 1.0 / (1.0 - discount)), ("ending", 1.0)):
        known = (*(rewards.get(kind) or ()), *seen[kind])
        worths += [scale * (reward + shift) * worth for reward in known]
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
