"""The paper's way to beta and alpha on new data (its section "Practical Workflow"), step by step.

1. Low beta, -4 and -8, with a range of alpha. What the preset has is tried too.
2. With the best alpha, beta is raised: less pessimism.
3. With the best beta, alpha is changed to values between those tried, as long as the budget lasts.

Ensembles are small during the search; the last run, whose command is the result, has a large one. Runs
are scored by their evaluations, or without looking at a simulator by `select`. The folder is a sweep;
`tune.json` has what was decided and why.
"""

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from chary.config import require
from chary.errors import CharyError
from chary.host.files import jsonable, read_json, write_whole
from chary.host.terminal import say
from chary.runs.folder import RunFolder
from chary.runs.logs import headline
from chary.training import resolve
from chary.training.run_config import RunSpec
from chary.tune import grid, sweep, workers
from chary.tune.select import select
from chary.tune.where import Where

RESULT, PAGE = "tune.json", "tune.md"
LOW = (-4.0, -8.0)
ALPHAS = (0.0, 0.1, 0.5, 1.0)
RAISED = (-2.0, -1.0, -0.5, 0.0)
FIRST_SHARE = 3 / 4
"""Of the budget, for the first step."""
HOLDOUT = 0.2

Pair: TypeAlias = tuple[float, float]
"""Beta and alpha."""
Scored: TypeAlias = tuple[dict[Pair, float], str, Pair | None]
"""Scores, remark and the pair that is kept, as a step has them."""


class Step(NamedTuple):
    """One step of the search."""

    title: str
    why: str
    tried: tuple[Pair, ...]
    """New in this step."""
    scores: dict[Pair, float]
    """Of all pairs so far, higher is better."""
    remark: str
    """How they were scored."""
    kept: Pair | None = None
    """The preset's pair, where no score shows that another is better."""

    @property
    def best(self) -> Pair:
        return self.kept or max(self.scores, key=lambda pair: self.scores[pair])

    def record(self) -> dict[str, Any]:
        """As JSON."""
        scores = [[*pair, score] for pair, score in self.scores.items()]
        return jsonable({**self._asdict(), "scores": scores, "best": self.best})

    @classmethod
    def of(cls, record: dict[str, Any]) -> "Step":
        scores = {(beta, alpha): score for beta, alpha, score in record["scores"]}
        tried = tuple((beta, alpha) for beta, alpha in record["tried"])
        kept = (kept[0], kept[1]) if (kept := record.get("kept")) else None
        return cls(record["title"], record["why"], tried, scores, record["remark"], kept)


class Tuned(NamedTuple):
    """What was found."""

    steps: tuple[Step, ...]
    command: str
    """That trains the last run."""

    @property
    def best(self) -> Pair:
        return self.steps[-1].best


def tune(
    spec: RunSpec,
    folder: Path,
    *,
    budget: int = 12,
    seeds: Sequence[int] = (0,),
    blind: bool = False,
    members: int = 4,
    final_members: int = 64,
    where: Where | None = None,
) -> Tuned:
    """Search beta and alpha with at most `budget` pairs, each trained in every seed.

    With `blind`, no simulator is looked at, and the preset's pair is kept as long as `chary select`
    cannot tell it apart from the best. What is in the folder is resumed.
    """
    require(budget >= 2, "budget", budget, "at least 2")
    preset = spec.config.beta, spec.config.alpha
    search = _for_search(spec, members, blind=blind)
    score = _by_selection if blind else _by_evaluations
    recorded = _recorded(folder)
    steps: list[Step] = []

    def take(title: str, why: str, pairs: Iterable[Pair]) -> None:
        """Train new pairs and score all."""
        known = list(steps[-1].scores) if steps else []
        left = budget - len(known)
        new = [pair for pair in dict.fromkeys(pairs) if pair not in known][:left]
        if not new:
            return
        say(f"{title}: {', '.join(_words(pair) for pair in new)}")
        cells = {pair: _specs(search, folder, pair, seeds) for pair in [*known, *new]}
        plan = sweep.create(folder, [each for specs in cells.values() for each in specs])
        trained = plan.named([each for pair in new for each in cells[pair]])
        workers.train_all(plan, trained, where or Where())
        place = len(steps)
        before = recorded[place] if place < len(recorded) else None
        if before is not None and set(before.scores) == set(cells) and before.title == title:
            steps.append(before)  # what was decided stays decided
        else:
            steps.append(Step(title, why, tuple(new), *score(cells, preset)))
        _write(folder, spec, steps, final_members)
        say(f"best so far: {_words(steps[-1].best)}")

    low = [(beta, alpha) for alpha in ALPHAS for beta in LOW]
    take(
        "Low beta, a range of alpha",
        "Pessimism is safe to begin with; alpha depends on the data. The preset's pair is tried too.",
        list(dict.fromkeys([preset, *low]))[: max(2, int(FIRST_SHARE * budget))],
    )
    _, alpha = steps[-1].best
    take(
        "Beta raised",
        f"With alpha {alpha:g}: less pessimism may lead to better policies.",
        [(beta, alpha) for beta in RAISED],
    )
    beta, alpha = steps[-1].best
    take(
        "Alpha between",
        f"With beta {beta:g}: the budget allows values of alpha between those tried.",
        [(beta, value) for value in _between(alpha)],
    )
    return Tuned(tuple(steps), command(spec, folder, steps[-1].best, final_members))


def command(spec: RunSpec, folder: Path, pair: Pair, members: int) -> str:
    """The command of the last run."""
    config, run = resolve.configure(spec.algorithm, spec.preset, spec.run.dataset)
    taken = {"members", "beta", "alpha", "run", "seed", "holdout", "dataset", "data_file"}
    words = ["chary", "train", spec.algorithm, "--dataset", spec.run.dataset]
    if spec.run.data_file is not None:
        words += ["--data-file", str(spec.run.data_file)]
    if spec.preset != "auto":
        words += ["--preset", spec.preset]
    for mine, before in ((spec.config, config), (spec.run, run)):
        for field in fields(mine):
            value = getattr(mine, field.name)
            if field.name not in taken and value != getattr(before, field.name):
                option = f"--{field.name.replace('_', '-')}"
                if isinstance(value, bool):
                    words.append(option if value else option.replace("--", "--no-", 1))
                else:
                    several = value if isinstance(value, tuple) else (value,)
                    words += [option, *map(str, several)]
    words += ["--beta", f"{pair[0]:g}", "--alpha", f"{pair[1]:g}", "--members", str(members)]
    return shlex.join([*words, "--run", str(folder / "final")])


def _for_search(spec: RunSpec, members: int, *, blind: bool) -> RunSpec:
    """A run of the search: a small ensemble, and without a simulator episodes held out."""
    run = spec.run
    if blind:
        run = replace(run, holdout=run.holdout or HOLDOUT, final_episodes=0)
    elif not run.final_episodes:
        raise CharyError("--final-episodes 0 leaves nothing to score runs by; add --blind.")
    return spec._replace(config=replace(spec.config, members=members), run=run)


def _specs(spec: RunSpec, folder: Path, pair: Pair, seeds: Sequence[int]) -> list[RunSpec]:
    varied = {"beta": (pair[0],), "alpha": (pair[1],)}
    return grid.combinations(spec, folder, varied, seeds)


def _by_evaluations(cells: dict[Pair, list[RunSpec]], preset: Pair) -> Scored:
    """The mean over seeds of each run's last evaluation; a run that diverged has the least of all."""
    del preset  # is one of them
    found: dict[Pair, list[float | None]] = {}
    for pair, specs in cells.items():
        lasts = [RunFolder.open(spec.folder).last() for spec in specs]
        found[pair] = [None if last is None else headline(last) for last in lasts]
    known = [value for values in found.values() for value in values if value is not None]
    if not known:
        raise CharyError("no run could be evaluated: all of them diverged.")
    least = min(known)
    scores = {
        pair: sum(least if value is None else value for value in values) / len(values)
        for pair, values in found.items()
    }
    return scores, "mean score of the last evaluation.", None


def _by_selection(cells: dict[Pair, list[RunSpec]], preset: Pair) -> Scored:
    """Minus the mean over seeds of each run's place among all; one that diverged comes last."""
    verdict = select([spec.folder for specs in cells.values() for spec in specs]).verdict
    places = {row.name: row.place for row in verdict.rows}
    last = float(len(places) + 1)
    scores = {
        pair: -sum(places.get(str(spec.folder), last) for spec in specs) / len(specs)
        for pair, specs in cells.items()
    }
    remark = f"minus the place by `chary select`. {verdict.sentence}"
    alike = any(str(spec.folder) in verdict.shortlist for spec in cells[preset])
    if verdict.outcome == "untrusted" or alike:
        return scores, f"{remark} So the preset's pair is kept.", preset
    return scores, remark, None


def _between(alpha: float) -> list[float]:
    """Values of alpha around one, between those of the first step."""
    below = [a for a in ALPHAS if a < alpha]
    above = [a for a in ALPHAS if a > alpha]
    return [round((near + alpha) / 2, 4) for near in (*below[-1:], *above[:1])]


def _words(pair: Pair) -> str:
    return f"beta {pair[0]:g}, alpha {pair[1]:g}"


def _recorded(folder: Path) -> list[Step]:
    """Steps of an earlier call."""
    path = folder / RESULT
    if not path.exists():
        return []
    try:
        return [Step.of(record) for record in read_json(path)["steps"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CharyError(f"{path}: cannot be read ({error}).") from error


def _write(folder: Path, spec: RunSpec, steps: Sequence[Step], members: int) -> None:
    """Keep what was decided, and a page that tells it."""
    last = command(spec, folder, steps[-1].best, members)
    record = {"steps": [step.record() for step in steps], "command": last}
    write_whole(folder / RESULT, json.dumps(record, indent=1) + "\n")
    write_whole(folder / PAGE, page(steps, last))


def page(steps: Sequence[Step], last: str) -> str:
    """Every step, why it was taken, and the command for the last run, as Markdown."""
    lines = ["# How beta and alpha were chosen", ""]
    for number, step in enumerate(steps, 1):
        lines += [f"## {number}. {step.title}", "", step.why, "", f"Score: {step.remark}", ""]
        lines += ["| beta | alpha | score | |", "|---|---|---|---|"]
        for pair in sorted(step.scores, key=lambda pair: -step.scores[pair]):
            notes = ["new"] if pair in step.tried else []
            notes += ["**best**"] if pair == step.best else []
            lines.append(
                f"| {pair[0]:g} | {pair[1]:g} | {step.scores[pair]:.4g} | {', '.join(notes)} |"
            )
        lines.append("")
    lines += [
        "## The last run",
        "",
        "Chosen: " + _words(steps[-1].best) + ".",
        "",
        f"    {last}",
        "",
    ]
    return "\n".join(lines)
