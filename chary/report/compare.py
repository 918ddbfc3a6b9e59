"""Runs side by side: what they differ in, which belong together, and how each group did."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from chary.report.story import RunStory
from chary.runs import headline
from chary.statistics import (
    Estimate,
    bootstrap,
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
)

BOOKKEEPING = {
    "seed", "run", "dataset", "data_file", "log_every", "eval_every", "eval_episodes",
    "final_episodes", "checkpoint_minutes", "tensorboard", "return_range", "chunk", "devices",
}  # fmt: skip
"""Settings that do not change what is learned, or that are told in another way."""
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

    @property
    def method(self) -> str:
        """The algorithm, with what tells it from others of its kind."""
        words = [f"{key} {shown(value)}" for key, value in self.changes.items()]
        return f"{self.algorithm} ({', '.join(words)})" if words else self.algorithm

    @property
    def scored(self) -> list[RunStory]:
        return [run for run in self.runs if run.last]

    def last(self) -> Estimate:
        return bootstrap([headline(run.last) for run in self.scored if run.last])

    def best(self) -> Estimate:
        return bootstrap([headline(run.best) for run in self.scored if run.best])

    def speed(self) -> float | None:
        speeds = [run.speed for run in self.runs if run.speed is not None]
        return fmean(speeds) if speeds else None

    def seconds(self) -> float | None:
        seconds = [run.seconds for run in self.runs if run.timing]
        return fmean(seconds) if seconds else None


def group_runs(stories: Sequence[RunStory]) -> list[Group]:
    """Runs with the same settings together, in the order in which they were found."""
    varied = varied_settings(stories)
    groups: dict[tuple[str, ...], Group] = {}
    for story in stories:
        settings = settings_of(story)
        changes = {key: settings.get(key) for key in varied[story.algorithm]}
        key = (story.algorithm, repr(changes), story.dataset)
        group = Group(story.algorithm, changes, story.dataset, [])
        groups.setdefault(key, group).runs.append(story)
    return list(groups.values())


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
    settings = {**story.part("settings"), **story.part("run")}
    kept = {key: _as_value(value) for key, value in settings.items() if key not in BOOKKEEPING}
    # Main numbers by samples are not those of the mode, with or without samples beside them.
    return {**kept, "act": story.act, "fingerprint": story.fingerprint[:12]}


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
        if group.scored:
            last = [headline(run.last) for run in group.scored if run.last]
            scores[group.method][group.dataset] = np.array(last, np.float64)
    measures = {run.measure for group in groups for run in group.scored}
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
