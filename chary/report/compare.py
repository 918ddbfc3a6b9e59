"""Runs side by side: what they differ in, which belong together, and how each group did."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from chary.report.statistics import (
    Estimate,
    bootstrap,
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
    worst_possible,
)
from chary.report.story import RunStory
from chary.runs.logs import headline
from chary.runs.schema import Record, is_number

BOOKKEEPING = {
    "seed", "run", "dataset", "data_file", "log_every", "eval_every", "eval_episodes",
    "final_episodes", "checkpoint_minutes", "track", "return_range", "chunk", "devices", "matmul",
    "parent", "step_seconds",
}  # fmt: skip
"""Settings that do not change what is learned, or that are shown elsewhere."""
MOST_METHODS = 12
"""Methods that are compared pair by pair; of more, the best by their interquartile mean."""
THRESHOLDS = 41


@dataclass(frozen=True)
class Group:
    """Runs of one method on one dataset, which differ in their seeds."""

    algorithm: str
    changes: dict[str, Any]
    """What tells this group from others of the algorithm."""
    dataset: str
    runs: list[RunStory]
    worst: dict[str, float]
    """What a run that diverged counts as, by measure, as far as it is known."""
    measure: str | None
    """What ranks runs on this dataset: score or return; None where none was evaluated."""

    @property
    def method(self) -> str:
        """The algorithm, with what tells it from others of its kind."""
        words = [f"{key} {shown(value)}" for key, value in self.changes.items()]
        return f"{self.algorithm} ({', '.join(words)})" if words else self.algorithm

    def finals(self) -> list[float]:
        """Each run's last score; the worst for runs that diverged, none for those without one yet."""
        return self._scores([None if run.diverged else run.last for run in self.runs])

    def last(self) -> Estimate:
        return bootstrap(self.finals())

    def best(self) -> Estimate:
        """At each run's best evaluation, which those that diverged have from before."""
        return bootstrap(self._scores([run.best for run in self.runs]))

    def sampled(self) -> Estimate | None:
        """As `last`, by sampled actions; None where no run has them beside the mode."""
        sampled = [run.last and run.last.get("sampled") for run in self.runs]
        if not any(sampled):
            return None
        ended = zip(self.runs, sampled, strict=True)
        return bootstrap(self._scores([None if run.diverged else each for run, each in ended]))

    def _scores(self, evaluations: Sequence[Record | None]) -> list[float]:
        """What ranks each run's evaluation; for a run that diverged and has none, the worst."""
        found: list[float] = []
        for run, evaluation in zip(self.runs, evaluations, strict=True):
            if evaluation is not None:
                found.append(headline(evaluation))
            elif run.diverged and self.measure in self.worst:
                found.append(self.worst[self.measure])
        return found

    def speed(self) -> float | None:
        speeds = [run.speed for run in self.runs if run.speed is not None]
        return fmean(speeds) if speeds else None

    def seconds(self) -> float | None:
        seconds = [run.seconds for run in self.runs if run.timing]
        return fmean(seconds) if seconds else None


def group_runs(stories: Sequence[RunStory]) -> list[Group]:
    """Runs with the same settings together, in the order in which they were found."""
    varied = varied_settings(stories)
    acting = {key for story in stories for key in story.part("online")}
    worst = {dataset: _worst(stories, dataset) for dataset in {s.dataset for s in stories}}
    measures = {story.dataset: story.measure for story in stories if story.measure}
    groups: dict[tuple[str, ...], Group] = {}
    for story in stories:
        settings = settings_of(story)
        # Settings of acting are those of runs that act; others lack them.
        own = [k for k in varied[story.algorithm] if story.is_online or k not in acting]
        changes = {key: settings.get(key) for key in own}
        key = (story.algorithm, repr(changes), story.dataset)
        dataset = story.dataset
        measure = measures.get(dataset)
        group = Group(story.algorithm, changes, dataset, [], worst[dataset], measure)
        groups.setdefault(key, group).runs.append(story)
    return list(groups.values())


def _worst(stories: Sequence[RunStory], dataset: str) -> dict[str, float]:
    """What runs on a dataset that diverged count as, by measure."""
    mine = [story for story in stories if story.dataset == dataset]
    lines = [line for story in mine for line in story.evaluations]
    lines += [line["sampled"] for line in lines if line.get("sampled")]
    returns = [story.smallest_return for story in mine if story.smallest_return is not None]
    found: dict[str, float] = {}
    for measure in ("score", "success", "return"):
        seen = [float(line[measure]) for line in lines if is_number(line.get(measure))]
        worst = worst_possible(measure, seen, min(returns, default=None))
        if worst is not None:
            found[measure] = worst
    return found


def varied_settings(stories: Sequence[RunStory]) -> dict[str, list[str]]:
    """For each algorithm, the settings that differ between its runs on the same data.

    What differs only from one dataset to the next is the dataset's own preset, not another method.
    """
    seen: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for story in stories:
        for key, value in settings_of(story).items():
            seen[story.algorithm, story.dataset][key].add(repr(value))
    varied: dict[str, list[str]] = {story.algorithm: [] for story in stories}
    for (algorithm, _), settings in seen.items():
        for key, values in settings.items():
            if len(values) > 1 and key not in varied[algorithm]:
                varied[algorithm].append(key)
    return varied


def settings_of(story: RunStory) -> dict[str, Any]:
    """Everything in a run's config that may change what it learns."""
    online = story.part("online")
    settings = {**story.part("settings"), **story.part("run"), **online}
    kept = {key: _as_value(value) for key, value in settings.items() if key not in BOOKKEEPING}
    # Main numbers by samples are not those of the mode, with or without samples beside them.
    training = "offline" if not online else "fine-tuned" if online.get("parent") else "online"
    return {**kept, "training": training, "act": story.act, "fingerprint": story.fingerprint[:12]}


def _as_value(value: Any) -> Any:
    """A setting as it is compared: -4 and -4.0, as programs and command lines write it, are one."""
    if isinstance(value, list):
        return [_as_value(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def shown(value: Any) -> str:
    """A setting in a label."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return "x".join(map(shown, value))
    if isinstance(value, bool):
        return "on" if value else "off"
    return "unset" if value is None else str(value)


def across_tasks(groups: Sequence[Group]) -> dict[str, Any] | None:
    """Interquartile mean, profile and probability of improvement of every method, or None for one run.

    Methods are compared on the tasks that all of them have runs on, in normalised scores; returns serve
    where there is only one task and it has no references.
    """
    scores: dict[str, dict[str, np.ndarray]] = defaultdict(dict)
    for group in groups:
        if finals := group.finals():
            scores[group.method][group.dataset] = np.array(finals, np.float64)
    measures = {group.measure for group in groups if group.finals()}
    tasks = sorted(set.intersection(*(set(found) for found in scores.values()))) if scores else []
    several = any(len(task) > 1 for found in scores.values() for task in found.values())
    if not tasks or not (several or len(tasks) > 1):
        return None
    if len(measures) > 1 or (measures == {"return"} and len(tasks) > 1):
        return None  # returns of different tasks have nothing in common
    methods = {name: [found[task] for task in tasks] for name, found in scores.items()}
    means = {name: interquartile_mean(found) for name, found in methods.items()}
    ranked = sorted(methods, key=lambda name: -(means[name].mean or 0.0))
    everything = np.concatenate([task for found in methods.values() for task in found])
    margin = 0.02 * np.ptp(everything) or 1.0
    thresholds = np.linspace(everything.min() - margin, everything.max() + margin, THRESHOLDS)
    compared = ranked[:MOST_METHODS]
    return {
        "measure": measures.pop(),
        "tasks": tasks,
        "methods": [{"name": name, **means[name]._asdict()} for name in ranked],
        "thresholds": thresholds.tolist(),
        "profiles": {name: performance_profile(methods[name], thresholds) for name in compared},
        "compared": compared,
        "improvement": [
            [
                None
                if ours == theirs
                else probability_of_improvement(methods[ours], methods[theirs])
                for theirs in compared
            ]
            for ours in compared
        ],
    }
