"""What it takes to choose among trained policies when only real episodes can tell them apart.

Two curves for the policies of a method, one policy a run:

- `bandit_curve`, after Jackson et al. 2025 (A Clean Slate for Offline Reinforcement Learning): a UCB
  bandit tries a few policies, one episode a pull. The curve is the true score of the policy that it
  would recommend after so many episodes.
- `expected_maximum`, after Dodge et al. 2019, which Kurenkov and Kolesnikov 2022 (Showing Your Offline
  Reinforcement Learning Work) call expected online performance: the best of so many policies.

A policy's true score is the mean of the episodes that its run recorded. Intervals draw the runs again,
always in the same way, so that equal runs give equal curves.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from chary.report.compare import MOST_METHODS, Group
from chary.report.statistics import FEWER, TAILS
from chary.runs.logs import headline
from chary.runs.schema import Record, is_number

POLICIES = 8
"""That the bandit chooses among, at most; and `ALPHA` in its bonus: as Jackson et al. have them."""
ALPHA = 2.0
PULLS = 100
"""Episodes that it may spend."""
TRIALS = 2_000
"""Choices that the curve is the mean of."""
RESAMPLES, TRIALS_EACH = 200, 25
"""Times that the runs are drawn again, and choices among each of these sets."""
MOST_TRIED = 100
"""Policies up to which the expected maximum is shown."""
SHARED = ("training", "act", "fingerprint")
"""Settings that policies have in common if one is to choose among them: how they act, on what data, and
whether they learned from that alone."""


class Curve(NamedTuple):
    """A mean and its interval at every budget; the interval is NaN for a single run."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def bandit_curve(
    episodes: Sequence[np.ndarray],
    *,
    policies: int = POLICIES,
    pulls: int = PULLS,
) -> Curve:
    """The true score of the recommended policy after 0, 1, ..., `pulls` episodes.

    `episodes` has the scores, from 0 to about 100, of every run's recorded episodes. Each trial draws so
    many of the runs, all different, and pulls draw from a run's episodes with replacement. After 0
    episodes any policy may be the one.
    """
    runs = len(episodes)
    several = min(policies, runs)
    rng = np.random.default_rng(0)

    def recommended(drawn: np.ndarray) -> np.ndarray:
        order = _different(rng, len(drawn), several, several)
        return _bandit(episodes, drawn, order, rng.random((pulls, len(drawn))))

    curve = recommended(_different(rng, TRIALS, runs, several)).mean(axis=1)
    curve[0] = np.mean([scores.mean() for scores in episodes])
    if runs == 1:
        return Curve(curve, *np.full((2, pulls + 1), np.nan))
    again = rng.integers(runs, size=(RESAMPLES, runs)).repeat(TRIALS_EACH, axis=0)
    places = _different(rng, len(again), runs, several)
    found = recommended(np.take_along_axis(again, places, axis=1))
    low, high = np.quantile(found.reshape(-1, RESAMPLES, TRIALS_EACH).mean(axis=2), TAILS, axis=1)
    # A set that was drawn again has some runs twice, so its best may be worse: the mean can be outside.
    return Curve(curve, np.minimum(low, curve), np.maximum(high, curve))


def _different(rng: np.random.Generator, rows: int, size: int, count: int) -> np.ndarray:
    """Rows of so many different numbers below size, in random order."""
    return rng.random((rows, size)).argsort(axis=1)[:, :count]


def _bandit(
    episodes: Sequence[np.ndarray], drawn: np.ndarray, order: np.ndarray, chances: np.ndarray
) -> np.ndarray:
    """(pull, trial): the true score of what UCB recommends, all trials side by side.

    `drawn`, (trial, policy), are the runs to choose among. Each is tried once, then always the one with
    the largest mean + sqrt(ALPHA * log(pull) / tries), of equals the largest in `order`. `chances`,
    (pull, trial) between 0 and 1, say which of a run's episodes comes. The policy with the largest mean
    is recommended, of equals the first; one that was not tried yet counts as 0. Both orders are random
    and have nothing to do with each other, or ties would favour what was tried often.
    """
    sizes = np.array([len(scores) for scores in episodes])
    padded = np.zeros((len(episodes), sizes.max()))
    for row, scores in zip(padded, episodes, strict=True):
        row[: len(scores)] = scores
    truth = np.array([scores.mean() for scores in episodes])
    trials = np.arange(len(drawn))
    tries, sums = np.zeros(drawn.shape), np.zeros(drawn.shape)
    tie_break = 1e-9 * order
    means = np.zeros(drawn.shape)
    recommended = np.empty((len(chances) + 1, len(drawn)))
    recommended[0] = truth[drawn].mean(axis=1)
    for pull, chance in enumerate(chances):
        if pull < drawn.shape[1]:
            arm = order[:, pull]
        else:
            bound = means + np.sqrt(ALPHA * np.log(pull + 1) / tries)
            arm = (bound + tie_break).argmax(axis=1)
        run = drawn[trials, arm]
        sums[trials, arm] += padded[run, (chance * sizes[run]).astype(int)]
        tries[trials, arm] += 1.0
        means[trials, arm] = sums[trials, arm] / tries[trials, arm]
        recommended[pull + 1] = truth[drawn[trials, means.argmax(axis=1)]]
    return recommended


def expected_maximum(scores: np.ndarray, *, replacement: bool = False) -> np.ndarray:
    """The mean of the largest of 1, 2, ..., n of these n scores, exactly.

    Without replacement it has no bias as an estimate for as many other policies (Tang et al. 2020), and
    of all n the best is the best. Dodge et al. and Kurenkov and Kolesnikov draw with replacement, which
    gives less.
    """
    return np.sort(scores) @ _chances(len(scores), replacement).T


def _chances(size: int, replacement: bool) -> np.ndarray:
    """(drawn, place): how likely the largest of those drawn is at a place of the sorted scores.

    Without replacement C(place - 1, drawn - 1) / C(size, drawn), from the last place downwards.
    """
    places = np.arange(1, size + 1)
    drawn = places[:, None]
    if replacement:
        return (places / size) ** drawn - ((places - 1) / size) ** drawn
    ratios = np.maximum(places[:-1] - drawn + 1, 0) / places[:-1]
    below = np.cumprod(ratios[:, ::-1], axis=1)[:, ::-1]
    return np.concatenate([below, np.ones((size, 1))], axis=1) * drawn / size


def maximum_curve(scores: np.ndarray) -> Curve:
    """The expected maximum without replacement, and its interval."""
    size = len(scores)
    mean = expected_maximum(scores)
    if size == 1:
        return Curve(mean, *np.full((2, 1), np.nan))
    rows = np.random.default_rng(0).integers(size, size=(FEWER, size))
    again = np.sort(scores[rows], axis=1) @ _chances(size, False).T
    return Curve(mean, *np.quantile(again, TAILS, axis=0))


def budgets(groups: Sequence[Group]) -> Record | None:
    """Both curves for each method and for all runs of each algorithm; None if nothing was evaluated."""
    measured = [group for group in groups if group.finals()]
    if not measured:
        return None
    pools: list[Record] = []
    left_out: list[str] = []
    for dataset in dict.fromkeys(group.dataset for group in measured):
        mine = [group for group in measured if group.dataset == dataset]
        slope = _slope(mine)
        several = [group for group in mine if len(group.finals()) > 1]
        shown = sorted(several, key=lambda group: -(group.last().mean or 0.0))[:MOST_METHODS]
        whole = [group for group in pooled(mine) if len(group.finals()) > 1]
        # Groups hold arrays, which cannot be compared: they are told apart by what they are.
        for group in [*shown, *(each for each in whole if not any(each is m for m in mine))]:
            views = ["method"] if any(group is each for each in mine) else []
            views += ["algorithm"] if any(group is each for each in whole) else []
            pools.append(_pool(group, views, slope))
        if len(shown) < len(several):
            best = f"the best {len(shown)} methods of {len(several)} are shown"
            left_out.append(f"On {dataset}, {best}.")
        if alone := [group.method for group in mine if len(group.finals()) == 1]:
            why = "only one policy was evaluated, and choosing needs two"
            left_out.append(f"Left out on {dataset}, because {why}: {', '.join(alone)}.")
    if bare := [f"{p['method']} on {p['dataset']}" for p in pools if p["bandit"] is None]:
        why = "fewer than two runs recorded single episodes"
        left_out.append(f"Without a curve over episodes, because {why}: {', '.join(bare)}.")
    return {"policies": POLICIES, "pools": pools, "left_out": left_out}


def pooled(groups: Sequence[Group]) -> list[Group]:
    """All runs of each algorithm on a dataset together; the group itself where there is only one."""
    found: dict[tuple[str, ...], list[Group]] = {}
    for group in groups:
        shared = {key: group.changes[key] for key in SHARED if key in group.changes}
        found.setdefault((group.algorithm, group.dataset, repr(shared)), []).append(group)
    return [
        members[0]
        if len(members) == 1
        else replace(
            members[0],
            changes={k: v for k, v in members[0].changes.items() if k in SHARED},
            runs=[run for member in members for run in member.runs],
        )
        for members in found.values()
    ]


def _pool(group: Group, views: Sequence[str], slope: float) -> Record:
    """The curves of a method's policies."""
    finals = np.array(group.finals(), np.float64)
    episodes = _episodes(group, slope)
    bandit: Record | None = None
    with np.errstate(all="ignore"):  # of numbers that are too large for sums
        if len(episodes) > 1:
            # The bonus and the 0 of the untried are made for scores; returns are brought to their range.
            everything = np.concatenate(episodes)
            low, unit = 0.0, 1.0
            if group.measure == "return":
                low, unit = everything.min(), np.ptp(everything) / 100.0 or 1.0
            curve = bandit_curve([(each - low) / unit for each in episodes])
            bandit = {
                "policies": min(POLICIES, len(episodes)),
                "recorded": min(len(each) for each in episodes),
                "episodes": np.arange(PULLS + 1),
                **{key: low + unit * values for key, values in curve._asdict().items()},
            }
        maximum = {
            "policies": np.arange(1, len(finals) + 1),
            **maximum_curve(finals)._asdict(),
            "with_replacement": expected_maximum(finals, replacement=True),
        }
    return {
        "method": group.method,
        "algorithm": group.algorithm,
        "dataset": group.dataset,
        "measure": group.measure,
        "views": views,
        "policies": len(finals),
        "bandit": bandit,
        "maximum": {key: column[:MOST_TRIED] for key, column in maximum.items()},
    }


def _episodes(group: Group, slope: float) -> list[np.ndarray]:
    """The episodes of every run's last evaluation, as what ranks it; the worst for one that diverged."""
    found: list[np.ndarray] = []
    for run in group.runs:
        if run.diverged:
            worst = group.worst.get(group.measure or "")
            found += [] if worst is None else [np.array([worst])]
        elif run.last and run.last["returns"]:
            returns = np.array(run.last["returns"], np.float64)
            with np.errstate(all="ignore"):
                found.append(headline(run.last) + slope * (returns - returns.mean()))
    return found


def _slope(groups: Sequence[Group]) -> float:
    """What a return of 1 more adds to the score; runs log the two together but no references."""
    if groups[0].measure == "return":
        return 1.0
    lines = [line for group in groups for run in group.runs for line in run.evaluations]
    pairs = sorted(
        (float(line["return"]), float(line["score"]))
        for line in lines
        if is_number(line.get("score"))
    )
    with np.errstate(all="ignore"):
        rise, span = np.subtract(pairs[-1], pairs[0])[::-1] if pairs else (0.0, 0.0)
        slope: Any = np.divide(rise, span)
    # Where all returns are equal, so are all scores, and nothing depends on it.
    return float(slope) if np.isfinite(slope) else 0.0
