"""Everything a page shows, as plain JSON: the report has it inside, a live page asks for it again."""

from collections.abc import Sequence
from math import isfinite
from types import NoneType
from typing import Any

import numpy as np

from chary.report import budget, compare, health, maps, online, strips, verdicts
from chary.report.compare import Group
from chary.report.health import ACTIONS, LATER, Actions, Health, Look, Sweep
from chary.report.statistics import LEVEL, bootstrap_each
from chary.report.story import RunStory, thin
from chary.runs.schema import Record, are_numbers, way_of
from chary.version import __version__

POINTS = 250_000
"""Points of all logged curves together."""
MOST_POINTS, FEWEST_POINTS = 400, 30
"""Of a single curve."""
MEASURES = ("score", "success", "return", "length")
"""What evaluations are drawn by, as far as a task knows it."""
ACTION_BINS = 30
MOST_EPISODES = 100
"""Episodes of a run that calibration is drawn for."""


def page_data(
    stories: Sequence[RunStory],
    problems: Sequence[str] = (),
    selections: Sequence[Record] = (),
) -> Record:
    """The page of these runs, and of what `chary select` found among them."""
    points = curve_points(stories)
    runs = [run_data(story, health.examine(story), points) for story in stories]
    found, left_out = maps.maze_maps(stories)
    drawn = strips.strips(stories)
    # After all else: files that cannot be used are noticed on the way.
    data = overview(stories, runs, points, problems)
    data["thinned"]["maps"] = left_out
    place = {name: i for i, group in enumerate(data["groups"]) for name in group["names"]}
    runs = [{**run, "group": place[run["name"]]} for run in runs]
    groups = compare.group_runs(stories)
    more = {
        "statistics": compare.across_tasks(groups),
        "budget": budget.budgets(groups),
        "selections": selections,
        "mazes": found,
        "strips": drawn,
        "datasets": datasets(stories),
    }
    return {**data, "runs": runs, **_plain(more)}


def curve_points(stories: Sequence[RunStory]) -> int:
    """Points of each logged curve: fewer of each where there are many."""
    curves = sum(len(story.metrics) for story in stories)
    return max(FEWEST_POINTS, min(MOST_POINTS, POINTS // max(1, curves)))


def overview(
    stories: Sequence[RunStory], runs: Sequence[Record], points: int, problems: Sequence[str]
) -> Record:
    """What is to be said of all runs together, from them and their own parts of the page."""
    groups = compare.group_runs(stories)
    data = {
        "version": __version__,
        "level": LEVEL,
        "methods": list(dict.fromkeys(group.method for group in groups)),
        "groups": [_group(group, runs) for group in groups],
        "learning": [_learning(group) for group in groups],
        "warnings": [
            *({"run": "", "message": problem} for problem in problems),
            *({"run": s.name, "message": message} for s in stories for message in s.warnings),
        ],
        "thinned": {
            "curves": points if any(len(s.metrics["step"]) > points for s in stories) else None,
            "health": health.MOST
            if any(len(s.snapshot_steps) > health.MOST for s in stories)
            else None,
        },
    }
    return _plain(data)


def run_data(story: RunStory, examined: Health | None, points: int) -> Record:
    """A run for itself: its logs, its last episodes, its ensemble, and how to repeat it."""
    kept = thin(len(story.metrics["step"]), points)
    last, best = story.last, story.best
    data = {
        "name": story.name,
        "algorithm": story.algorithm,
        "dataset": story.dataset,
        "seed": story.seed,
        "step": story.step,
        "goal": story.goal,
        "speed": story.speed,
        "seconds": story.seconds,
        "diverged": story.diverged,
        "measure": story.measure,
        "last": _evaluation(last),
        "best": _evaluation(best),
        "returns": last["returns"] if last else [],
        "metrics": {name: column[kept] for name, column in story.metrics.items()},
        "verdicts": [v._asdict() for v in verdicts.judge(story, examined)],
        "health": _health(examined, story) if examined else None,
        "online": online.online_data(story, points),
        "made_by": {
            "command": story.config.get("command", ""),
            "chary": story.config.get("chary", ""),
            "fingerprint": story.fingerprint,
            "versions": story.part("versions"),
            "layout": {k: v for k, v in story.part("layout").items() if k != "population"},
        },
    }
    # A clock time needs more digits than six.
    return _plain(data) | {"updated": story.timing[-1].get("time") if story.timing else None}


def _evaluation(line: Record | None) -> Record | None:
    """An evaluation in the few numbers that tables show."""
    if line is None:
        return None
    sampled = line.get("sampled")
    return {
        **{key: line.get(key) for key in ("step", *MEASURES)},
        "act": way_of(line),
        "sampled": sampled and {key: sampled.get(key) for key in MEASURES},
    }


def _health(found: Health, story: RunStory) -> Record:
    looks, last = found.looks, found.last
    kinds = [kind for kind in (*ACTIONS, *LATER) if kind in last.std]
    with np.errstate(all="ignore"):
        return {
            "members": last.members,
            "beta": found.beta,
            "bounds": found.bounds,
            "step": [look.step for look in looks],
            "std": {kind: [look.std.get(kind) for look in looks] for kind in kinds},
            "relative": {
                kind: [look.relative.get(kind) for look in looks] for kind in last.relative
            },
            "told_apart": {
                kind: [look.told_apart.get(kind) for look in looks] for kind in last.told_apart
            },
            "effective": [look.effective for look in looks],
            "lost": [len({*look.dead, *look.wild}) for look in looks],
            "calibration": _calibration(looks),
            "sweep": found.sweep and _sweep(found.sweep, story.names("observation")),
            "actions": found.actions and _actions(found.actions, story),
        }


def _calibration(looks: Sequence[Look]) -> Record | None:
    """Promised and achieved over training, and start by start at the end; None without a simulator."""
    judged = [(look.step, look.calibration) for look in looks if look.calibration]
    if not judged:
        return None
    last = judged[-1][1]
    shown = thin(len(last.achieved), MOST_EPISODES)
    return {
        "step": [step for step, _ in judged],
        "mean": [each.mean.mean() for _, each in judged],
        "lcb": [None if each.lcb is None else each.lcb.mean() for _, each in judged],
        "achieved": [each.achieved.mean() for _, each in judged],
        "held": [each.held for _, each in judged],
        "starts": {
            "mean": last.mean[shown],
            "lcb": None if last.lcb is None else last.lcb[shown],
            "achieved": last.achieved[shown],
        },
    }


def _sweep(found: Sweep, names: Sequence[str]) -> list[Record]:
    """The doubt along each column, those along which it grows most beyond the data first."""
    growth = found.growth()
    known = len(names) == len(growth)
    return [
        {
            "name": names[column] if known else f"observation {column}",
            "growth": growth[column],
            "values": found.values[column],
            "std": found.std[column],
            "counts": found.counts[column],
        }
        for column in np.argsort(-growth, kind="stable")
    ]


def _actions(found: Actions, story: RunStory) -> list[Record]:
    """Logged actions and the policy's as histograms, in the data's units."""
    outside, size = found.outside(), found.logged.shape[1]
    names = story.names("action")
    low, high = (_bounds(story, which, size) for which in ("action_low", "action_high"))
    rows: list[Record] = []
    for action in range(size):
        edges = np.linspace(-1.0, 1.0, ACTION_BINS + 1)
        counts = [np.histogram(each[:, action], edges)[0] for each in (found.logged, found.policy)]
        rows.append(
            {
                "name": names[action] if len(names) == size else f"action {action}",
                "edges": low[action] + 0.5 * (edges + 1.0) * (high[action] - low[action]),
                "logged": counts[0],
                "policy": counts[1],
                "outside": outside[action],
            }
        )
    return rows


def _bounds(story: RunStory, which: str, size: int) -> np.ndarray:
    """A bound of the actions; -1 or 1 where a run does not say."""
    found = story.part("scaling").get(which)
    known = isinstance(found, list) and len(found) == size and are_numbers(found)
    return np.array(found) if known else np.full(size, -1.0 if which == "action_low" else 1.0)


def _group(group: Group, runs: Sequence[Record]) -> Record:
    """A line of the summary."""
    names = {run.name for run in group.runs}
    mine = [run for run in runs if run["name"] in names]
    judged = [run["verdicts"][0] for run in mine]
    sampled = group.sampled()
    gravest = min(judged, key=lambda v: verdicts.GRAVEST_FIRST.index(v["level"]))
    return {
        "method": group.method,
        "algorithm": group.algorithm,
        "changes": {key: compare.shown(value) for key, value in group.changes.items()},
        "dataset": group.dataset,
        "seeds": [run.seed for run in group.runs],
        "names": [run.name for run in group.runs],
        "measure": group.measure if group.finals() else None,
        "last": group.last()._asdict(),
        "sampled": sampled and sampled._asdict(),
        "best": group.best()._asdict(),
        "step": min(run.step for run in group.runs),
        "goal": max(run.goal for run in group.runs),
        "speed": group.speed(),
        "seconds": group.seconds(),
        "diverged": sum(run.diverged is not None for run in group.runs),
        "worst": group.worst.get(group.measure or ""),
        "verdict": gravest,
        "online": any(run.is_online for run in group.runs),
    }


def _learning(group: Group) -> Record:
    """Mean and interval over seeds at every evaluation, by each measure.

    A run that diverged has the worst score from then on: the mean of those left would rise.
    """
    curves: Record = {}
    for measure in MEASURES:
        values: dict[int, list[float]] = {}
        for run in group.runs:
            for evaluation in run.evaluations:
                if isinstance(evaluation.get(measure), int | float):
                    values.setdefault(evaluation["step"], []).append(evaluation[measure])
        steps = sorted(values)
        for run in group.runs:
            if run.diverged and measure in group.worst:
                last = run.last["step"] if run.last else 0
                for step in steps:
                    if step > last:
                        values[step].append(group.worst[measure])
        if steps:
            estimates = bootstrap_each([values[step] for step in steps])
            columns = {key: [getattr(e, key) for e in estimates] for key in ("mean", "low", "high")}
            curves[measure] = {"step": steps, "seeds": [len(values[s]) for s in steps], **columns}
    return curves


def datasets(stories: Sequence[RunStory]) -> list[Record]:
    """Each dataset once, by its fingerprint."""
    found: dict[str, Record] = {}
    for story in stories:
        described = story.part("dataset")
        key = story.fingerprint or story.dataset
        if key not in found or (story.data and not found[key]["summary"]):
            found[key] = {
                "name": story.dataset,
                "fingerprint": story.fingerprint,
                "transitions": described.get("transitions"),
                "observation_size": described.get("observation_size"),
                "action_size": described.get("action_size"),
                "summary": story.data or None,
            }
    return _plain(list(found.values()))


def _plain(value: Any) -> Any:
    """Plain JSON with six digits, which are more than a page can show and less than a file would hold.

    Asked of every number on the page, so it looks at types alone.
    """
    kind = type(value)
    if kind is float:
        return float(f"{value:.6g}") if isfinite(value) else None
    if kind in (str, int, bool, NoneType):
        return value
    if kind is dict:
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return _plain(value.tolist())  # NumPy's arrays and numbers
