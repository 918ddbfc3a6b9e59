"""How well scores without a simulator rank policies: `chary study selection`.

Candidates are trained with a fifth of the episodes held out and evaluated in the simulator, which is the
truth. `chary select` never sees it. Each of its scores then ranks the candidates:

    Spearman     rank correlation of score and truth
    regret@k     truth of the best candidate - truth of the best among the first k by the score
"""

from collections.abc import Callable, Sequence
from itertools import product
from math import comb
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from chary.report.statistics import TAILS
from chary.runs.folder import RunFolder
from chary.study.cells import Cell
from chary.study.plan import Plan
from chary.training.resolve import configure
from chary.tune.select import select
from chary.tune.verdict import Row, Verdict

PRESET = "msg"
"""The candidate whose settings are the preset's: what is used where nothing is selected."""
FIRST = (1, 3)
"""How many of the first are tried."""
DRAWS = 1_000

SCORES: dict[str, tuple[str, Callable[[Row], float | None]]] = {
    "place": ("`chary select`: place by both ranks", lambda row: -row.place),
    "bound": ("fitted Q-evaluation, lower bound of the gain", lambda row: row.bound),
    "value": ("fitted Q-evaluation, mean", lambda row: row.value),
    "outside": ("actions outside the data, few", lambda row: -row.outside),
    "action_error": ("distance from held-out actions, small", lambda row: -row.action_error),
    "own_value": ("value by the policy's own critics", lambda row: row.own_value),
    "td_error": (
        "TD error of its own critics, small",
        lambda row: None if row.td_error is None else -row.td_error,
    ),
}
"""What candidates are ranked by, the largest first; those without the score come last."""


def candidate_cells(
    config: Any,
    preset: str,
    dataset: str,
    *,
    betas: Sequence[float],
    alphas: Sequence[float],
    others: Sequence[str],
) -> list[Cell]:
    """MSG as the preset has it, with other beta and alpha, and other algorithms with their settings of
    the preset; all with one discount, without which values cannot be compared."""
    pairs = [pair for pair in product(betas, alphas) if pair != (config.beta, config.alpha)]
    cells = [Cell(PRESET, vars(config))]
    cells += [
        Cell(f"beta{beta:g}-alpha{alpha:g}", {**vars(config), "beta": beta, "alpha": alpha})
        for beta, alpha in pairs
    ]
    for name in others:
        own = vars(configure(name, preset, dataset)[0])
        discount = {"discount": config.discount} if "discount" in own else {}
        cells.append(Cell(name, {**own, **discount}, name))
    return cells


class Ranked(NamedTuple):
    """The candidates of one seed: what each score says, and the truth."""

    seed: int
    names: tuple[str, ...]
    verdict: Verdict
    scores: dict[str, np.ndarray]
    """Of every candidate, by the score's name."""
    episodes: list[np.ndarray]
    """What every episode of a candidate's last evaluation had: success, or return."""

    @property
    def truths(self) -> np.ndarray:
        return np.array([each.mean() for each in self.episodes])

    @property
    def best(self) -> list[str]:
        """The candidates with the largest truth."""
        return [self.names[i] for i in np.flatnonzero(self.truths == self.truths.max())]


def rank(plan: Plan, **options: Any) -> list[Ranked]:
    """What `chary select` says of a study's runs, and what the simulator said of them."""
    return [_rank_seed(plan, seed, **options) for seed in plan.seeds]


def _rank_seed(plan: Plan, seed: int, **options: Any) -> Ranked:
    jobs = [job for job in plan.jobs if job.run.seed == seed]
    verdict = select([job.folder for job in jobs], **options).verdict
    cells = {str(job.folder): job.cell.name for job in jobs}
    folders = {job.cell.name: job.folder for job in jobs}
    sentence = verdict.sentence
    for folder in sorted(cells, key=len, reverse=True):  # no name inside a longer one
        sentence = sentence.replace(folder, cells[folder])
    verdict = verdict._replace(
        sentence=sentence,
        rows=tuple(row._replace(name=cells[row.name]) for row in verdict.rows),
        shortlist=tuple(cells[name] for name in verdict.shortlist),
    )
    names = tuple(row.name for row in verdict.rows)  # those that diverged are not among them
    scores = {
        name: np.array([-np.inf if (s := of(row)) is None else s for row in verdict.rows])
        for name, (_, of) in SCORES.items()
    }
    what = "successes" if plan.measure == "success" else "returns"
    return Ranked(
        seed, names, verdict, scores, [_last_episodes(folders[name], what) for name in names]
    )


def _last_episodes(folder: Path, what: str) -> np.ndarray:
    return np.array(RunFolder.open(folder).read("evals")[-1][what], float)


def summarise(ranked: Sequence[Ranked]) -> list[dict[str, Any]]:
    """A row for every score, means over seeds, with those of the preset and of choosing at random.

    Intervals are bootstraps: of the correlation over candidates and their episodes, of regrets over
    episodes, since the candidates are those that there are.
    """
    again = [_again(r) for r in ranked]

    def estimate(
        name: str, statistic: Callable[[Ranked, np.ndarray], np.ndarray]
    ) -> dict[str, Any]:
        whole = np.mean([statistic(r, r.truths[None]) for r in ranked])
        drawn = np.mean([statistic(r, t) for r, t in zip(ranked, again, strict=True)], axis=0)
        return _interval(name, whole, drawn)

    rows: list[dict[str, Any]] = []
    for name, (words, _) in SCORES.items():
        row: dict[str, Any] = {"score": name, "words": words}
        whole = np.mean([spearman(r.scores[name][None], r.truths[None]) for r in ranked])
        drawn = np.mean(
            [_correlations(r.scores[name], t) for r, t in zip(ranked, again, strict=True)], 0
        )
        row |= _interval("spearman", whole, drawn)
        for k in FIRST:
            row |= estimate(f"regret{k}", lambda r, t, name=name, k=k: regret(r.scores[name], t, k))
        rows.append(row)
    preset = {"score": "preset", "words": "the preset, without looking"}
    preset |= estimate("regret1", lambda r, t: t.max(axis=1) - t[:, r.names.index(PRESET)])
    chance = {"score": "random", "words": "at random", "spearman": 0.0}
    for k in FIRST:
        chance |= estimate(f"regret{k}", lambda _, t, k=k: regret_at_random(t, k))
    return [*rows, preset, chance]


def spearman(scores: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """Rank correlation of every row; 0 where all are equal, which says nothing."""
    a, b = (rankdata(each, axis=1) for each in (scores, truths))
    a, b = (each - each.mean(axis=1, keepdims=True) for each in (a, b))
    size = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return (a * b).sum(axis=1) / np.where(size > 0.0, size, 1.0)


def regret(scores: np.ndarray, truths: np.ndarray, first: int) -> np.ndarray:
    """What is lost, in every row of truths, by trying only the first few by a score; of equal ones, the
    one placed before."""
    tried = np.argsort(-scores, kind="stable")[:first]
    return truths.max(axis=1) - truths[:, tried].max(axis=1)


def regret_at_random(truths: np.ndarray, first: int) -> np.ndarray:
    """What is lost on average, in every row of truths, by trying a few that are drawn at random."""
    count = truths.shape[1]
    first = min(first, count)
    ways = [comb(below, first - 1) for below in range(count)]  # in which it is the best of them
    return truths.max(axis=1) - np.sort(truths, axis=1) @ ways / comb(count, first)


def _again(r: Ranked) -> np.ndarray:
    """(draw, candidate): truths by other episodes."""
    rng = np.random.default_rng(0)
    return np.stack([rng.choice(e, (DRAWS, len(e))).mean(axis=1) for e in r.episodes], axis=1)


def _correlations(scores: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """In every draw, among as many candidates drawn with replacement."""
    drawn = np.random.default_rng(1).integers(len(scores), size=truths.shape)
    return spearman(scores[drawn], np.take_along_axis(truths, drawn, axis=1))


def _interval(name: str, whole: np.floating, drawn: np.ndarray) -> dict[str, Any]:
    low, high = np.quantile(drawn, TAILS)
    return {name: float(whole), f"{name}_low": float(low), f"{name}_high": float(high)}
