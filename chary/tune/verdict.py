"""From evidence to a verdict: which policy is better, which cannot be told apart, or why to trust none.

Scores are combined by rank. A policy's place is the mean of its ranks by the lower bound of fitted
Q-evaluation and by the share of its actions outside the data. Everything is computed anew for every draw
of a bootstrap over episodes and members, which gives intervals and the probability that one policy is
placed before another.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.stats import rankdata

from chary.tune.scores import Evidence

DRAWS = 1_000
SURE = 0.95
"""Probability from which one policy is called better than another."""
PESSIMISM = 1.0
"""Deviations of the members below their mean at which the lower bound of a value lies."""
FEW_EPISODES = 10
"""Held-out episodes with fewer than which nothing is said."""
MOSTLY = 0.5
"""Share of a policy's actions outside the data from which its value is a guess."""

Outcome: TypeAlias = Literal["better", "tied", "untrusted"]


class Row(NamedTuple):
    """What is known of one policy."""

    name: str
    place: float
    """Mean of its ranks; 1 is the best there is."""
    value: float | None
    """By fitted Q-evaluation, a mean over held-out starts and members."""
    value_low: float | None
    """2.5% and 97.5% of the bootstrap."""
    value_high: float | None
    bound: float | None
    """Lower bound of what it gains on the data's own actions."""
    outside: float
    """Share of its actions outside the data."""
    action_error: float
    """Mean squared distance from held-out actions, in [-1, 1]."""
    td_error: float | None
    own_value: float | None
    best: float
    """Probability that it is placed first."""


class Verdict(NamedTuple):
    """What to do."""

    outcome: Outcome
    shortlist: tuple[str, ...]
    """The policies to try, the best first."""
    sentence: str
    reasons: tuple[str, ...]
    """Why values are not to be trusted, or what limits the verdict."""
    rows: tuple[Row, ...]
    """The best first."""
    calibration: float | None
    """Error of fitted Q-evaluation at the data's own actions, whose returns are known."""
    agreement: float | None
    """Spearman's rank correlation of the two scores that are combined."""
    episodes: int


def judge(names: Sequence[str], evidence: Evidence, *, remarks: Sequence[str] = ()) -> Verdict:
    """The verdict on policies; `remarks` are reasons known before."""
    episodes = len(evidence.rows)
    draws = Draws.of(evidence)
    places = draws.places
    # (policy, policy): the probability that the first is placed before the second
    before = (places[:, :, None] < places[:, None]).mean(axis=0)
    before += 0.5 * (places[:, :, None] == places[:, None]).mean(axis=0)
    whole = Draws.of(evidence, draws=None)
    order: list[int] = np.lexsort((-np.nan_to_num(whole.bounds[0]), whole.places[0])).tolist()
    calibration = None
    if evidence.data_values is not None and evidence.returns is not None:
        calibration = float(abs(evidence.data_values.mean() - evidence.returns.mean()))
    reasons = [*remarks, *_distrust(evidence, whole, calibration, episodes)]
    first = order[0]
    close = [first, *(i for i in order[1:] if not _beaten(i, first, before, whole, calibration))]
    shortlist = tuple(names[i] for i in close)
    if reasons:
        outcome: Outcome = "untrusted"
        sentence = f"Nothing here can be trusted: {reasons[0]}"
    elif len(close) == 1:
        outcome = "better"
        least = min(before[first][i] for i in order[1:]) if len(order) > 1 else 1.0
        sentence = f"{names[first]} is better than the others (probability {least:.2f} or more)."
    else:
        outcome = "tied"
        sentence = f"These {len(close)} cannot be told apart; try them: {', '.join(shortlist)}."
    firsts = (places == places.min(axis=1, keepdims=True)).astype(float)
    firsts = (firsts / firsts.sum(axis=1, keepdims=True)).mean(axis=0)

    def row(i: int) -> Row:
        low, high = np.quantile(draws.values[:, i], (0.025, 0.975))
        known = evidence.values is not None
        return Row(
            names[i],
            float(whole.places[0, i]),
            float(whole.values[0, i]) if known else None,
            float(low) if known else None,
            float(high) if known else None,
            float(whole.bounds[0, i]) if known else None,
            float(whole.outside[0, i]),
            float(whole.errors[0, i]),
            _or_none(evidence.td_errors[i]),
            _or_none(evidence.own_values[i]),
            float(firsts[i]),
        )

    agreement = None
    if evidence.values is not None and min(map(np.ptp, (whole.bounds, whole.outside))) > 0.0:
        ranks = rankdata(whole.bounds[0]), rankdata(-whole.outside[0])
        agreement = _or_none(np.corrcoef(*ranks)[0, 1])
    return Verdict(
        outcome,
        shortlist,
        sentence,
        tuple(reasons),
        tuple(row(i) for i in order),
        calibration,
        agreement,
        episodes,
    )


class Draws(NamedTuple):
    """Scores of every policy in every draw of the bootstrap, (draw, policy)."""

    values: np.ndarray
    bounds: np.ndarray
    outside: np.ndarray
    errors: np.ndarray
    places: np.ndarray

    @classmethod
    def of(cls, evidence: Evidence, draws: int | None = DRAWS) -> "Draws":
        """Over episodes and members drawn with replacement, or with None each of them once."""
        rng = np.random.default_rng(0)
        episodes = _weights(rng, len(evidence.rows), draws)
        rows = np.maximum(episodes @ evidence.rows, 1e-9)[:, None]
        outside = episodes @ evidence.outside.T / rows
        errors = episodes @ evidence.action_errors.T / rows
        policies = len(evidence.outside)
        values = bounds = np.full((len(episodes), policies), np.nan)
        ranks = [_ranks(outside)]
        if evidence.values is not None and evidence.data_values is not None:
            members = _weights(rng, evidence.values.shape[1], draws)
            each = np.einsum("pme,de->dpm", evidence.values, episodes)
            gains = each - np.einsum("me,de->dm", evidence.data_values, episodes)[:, None]
            values = np.einsum("dpm,dm->dp", each, members)
            mean = np.einsum("dpm,dm->dp", gains, members)
            variance = np.einsum("dpm,dm->dp", (gains - mean[..., None]) ** 2, members)
            bounds = mean - PESSIMISM * np.sqrt(variance)
            ranks.append(_ranks(-np.where(np.isfinite(bounds), bounds, -np.inf)))
        return cls(values, bounds, outside, errors, np.mean(ranks, axis=0))


def _weights(rng: np.random.Generator, size: int, draws: int | None) -> np.ndarray:
    """(draw, one of so many): how much each counts, in all 1."""
    if draws is None:
        return np.full((1, size), 1.0 / size)
    return rng.multinomial(size, np.full(size, 1.0 / size), draws) / size


def _ranks(scores: np.ndarray) -> np.ndarray:
    """1 for the least; equals share theirs."""
    return rankdata(scores, axis=1)


def _beaten(
    policy: int, first: int, before: np.ndarray, whole: Draws, calibration: float | None
) -> bool:
    """Whether the first is surely better: placed before it, and by more than values are known to err."""
    if before[first, policy] < SURE:
        return False
    gap = whole.values[0, first] - whole.values[0, policy]
    return calibration is None or bool(gap > calibration)


def _distrust(
    evidence: Evidence, whole: Draws, calibration: float | None, episodes: int
) -> list[str]:
    """Why no verdict is possible, in sentences."""
    reasons: list[str] = []
    if episodes < FEW_EPISODES:
        reasons.append(
            f"only {episodes} episodes were held out. Train with a larger --holdout, or log more."
        )
    if evidence.values is not None:
        assert evidence.returns is not None and calibration is not None
        low, high = evidence.reach
        margin = 0.1 * (high - low)
        values = whole.values[0]
        wild = ~((values > low - margin) & (values < high + margin))
        if wild.any():
            reasons.append(
                f"fitted Q-evaluation diverged for {wild.sum()} of {len(wild)} policies: their values "
                f"are not between {low:.4g} and {high:.4g}, where rewards like those in the data end."
            )
        deviation = float(evidence.returns.std())
        if calibration > max(deviation, 1e-9):
            reasons.append(
                f"fitted Q-evaluation is wrong by {calibration:.3g} at the data's own actions, whose "
                f"returns are known and differ by {deviation:.3g}."
            )
    if (whole.outside[0] > MOSTLY).all():
        reasons.append(
            "every policy acts outside the data in most states, so its value there is a guess."
        )
    return reasons


def _or_none(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None
