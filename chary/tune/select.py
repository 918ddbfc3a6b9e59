"""Ranking trained policies without a simulator: `chary select`."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from chary import data
from chary.algos.fqe import FQEConfig
from chary.data.dataset import Dataset
from chary.errors import CharyError
from chary.evaluation.agent import Agent
from chary.host.files import jsonable, write_whole
from chary.host.terminal import say
from chary.runs.folder import SELECTED, RunFolder, find_runs
from chary.training import plan, records
from chary.training.run_config import RunSpec
from chary.training.start import open_run
from chary.tune.bandit import Trial, spend
from chary.tune.scores import look_at
from chary.tune.verdict import Verdict, judge

SHARE = 9
"""Fitted Q-evaluation of a policy takes this part of the steps that it was trained for: twelve policies
cost no more than training one of them."""
LEAST_STEPS = 400
FEWEST = 3
"""Policies that episodes are spent on, where there are as many."""
APART = 2**30
"""Added to the number of an episode, so that it is not one of those seen in training."""


class Candidate(NamedTuple):
    """A trained run."""

    name: str
    spec: RunSpec
    agent: Agent


class Tried(NamedTuple):
    """Episodes that were spent on the shortlist."""

    names: tuple[str, ...]
    trial: Trial

    def lines(self) -> list[str]:
        """What each policy's episodes gave, in the order of the shortlist."""
        return [
            f"{name}: {len(returns)} episode{'s' if returns[1:] else ''}, "
            f"mean return {sum(returns) / len(returns):.4g}"
            for name, returns in zip(self.names, self.trial.returns, strict=True)
            if returns
        ]

    @property
    def sentence(self) -> str:
        best = self.names[self.trial.best]
        mean = sum(self.trial.returns[self.trial.best]) / len(self.trial.returns[self.trial.best])
        return (
            f"After {self.trial.used} episodes {best} is the best of {len(self.names)} with "
            f"probability {self.trial.probability:.2f} (mean return {mean:.4g})."
        )


class Selection(NamedTuple):
    """A verdict, and what it is about."""

    verdict: Verdict
    candidates: tuple[Candidate, ...]
    left_out: tuple[str, ...]
    """Runs that could not be compared, and why."""
    steps: int
    """Of fitted Q-evaluation for each policy."""
    tried: Tried | None = None

    def record(self) -> dict[str, Any]:
        """As JSON."""
        record = self.verdict._asdict()
        record["rows"] = [row._asdict() for row in self.verdict.rows]
        record |= {"left_out": self.left_out, "steps": self.steps}
        if self.tried is not None:
            names, trial = self.tried
            record["tried"] = {
                "episodes": trial.used,
                "best": names[trial.best],
                "probability": trial.probability,
                "returns": dict(zip(names, trial.returns, strict=True)),
            }
        return jsonable(record)

    def with_episodes(self, episodes: int, env: str | None = None) -> "Selection":
        """Spend at most so many episodes on the shortlist, or on the first few where it is shorter."""
        order = [row.name for row in self.verdict.rows]
        names = order if self.verdict.outcome == "untrusted" else list(self.verdict.shortlist)
        names = [*names, *(name for name in order if name not in names)]
        names = names[: min(max(len(self.verdict.shortlist), FEWEST), episodes)]
        agents = {candidate.name: candidate.agent for candidate in self.candidates}
        places = {row.name: row.place for row in self.verdict.rows}

        def play(policy: int, number: int) -> float:
            # Evaluations in training have their own numbers; these are other episodes.
            result = agents[names[policy]].evaluate(env, 1, step=APART + number)
            return float(result.returns[0])

        trial = spend(play, [-places[name] for name in names], episodes)
        return self._replace(tried=Tried(tuple(names), trial))


def select(
    folders: Sequence[Path],
    *,
    dataset: Dataset | None = None,
    steps: int | None = None,
    members: int = FQEConfig.members,
    which: str = "last",
) -> Selection:
    """Rank all runs in these folders on the episodes that they held out.

    `steps` are those of fitted Q-evaluation for each policy.
    """
    candidates, left_out = _candidates(folders, which)
    specs = [candidate.spec for candidate in candidates]
    run = specs[0].run
    dataset = dataset or data.load(run.dataset, data_file=run.data_file)
    learned_from, held_out = plan.kept_out(dataset, run)
    assert held_out is not None
    recorded = RunFolder.open(specs[0].folder).config["held_out"]["fingerprint"]
    if held_out.fingerprint != recorded:
        raise CharyError(
            f"{specs[0].folder}: the held-out episodes of '{run.dataset}' are not those of this run."
        )
    scales = {(s.run.reward_scale, s.run.reward_shift) for s in specs}
    discounts = {s.config.discount for s in specs if hasattr(s.config, "discount")}
    remarks: list[str] = []
    if len(scales) > 1 or len(discounts) > 1:
        what = "reward scales" if len(scales) > 1 else "discounts"
        remarks.append(
            f"the runs have several {what}, so their values mean different things and were not compared."
        )
    discount = min(discounts, default=0.99)
    hidden = max((getattr(s.config, "hidden", (64, 64, 64)) for s in specs), key=sum)
    config = FQEConfig(members=members, hidden=hidden, discount=discount)
    steps = steps or max(LEAST_STEPS, max(s.run.steps for s in specs) // SHARE)
    say(
        f"{len(specs)} policies, {len(held_out.walk_ends)} held-out episodes; fitted Q-evaluation: "
        f"{members} members, at most {steps:,} steps for each policy"
    )
    evidence = look_at(
        [candidate.agent for candidate in candidates],
        dataset,
        held_out,
        learned_from=learned_from,
        scaling=plan.scaling_of(learned_from, replace(run, normalise_observations="moments")),
        discount=None if remarks else discount,
        config=config,
        steps=steps,
    )
    verdict = judge([candidate.name for candidate in candidates], evidence, remarks=remarks)
    return Selection(verdict, tuple(candidates), tuple(left_out), evidence.steps)


def write(folder: Path, selection: Selection) -> Path:
    """Keep the verdict beside the runs."""
    path = folder / SELECTED
    write_whole(path, json.dumps(selection.record(), indent=1) + "\n")
    return path


def _candidates(folders: Sequence[Path], which: str) -> tuple[list[Candidate], list[str]]:
    """The runs that can be compared, which must be of one dataset, and those that cannot."""
    for folder in folders:
        if not folder.is_dir():
            raise CharyError(f"{folder}: no such folder.")
    runs = list(dict.fromkeys(run for folder in folders for run in find_runs(folder)))
    candidates: list[Candidate] = []
    left_out: list[str] = []
    described: set[tuple[str, str]] = set()
    for path in runs:
        folder = RunFolder.open(path)
        if folder.diverged() or not folder.checkpoint_steps():
            why = "diverged" if folder.diverged() else "has no checkpoint yet"
            left_out.append(f"{path.name} {why}")
            continue
        spec = records.spec_of(folder)
        if "held_out" not in folder.config:
            raise CharyError(
                f"{path}: learned from all episodes, so none is left to compare policies on. Train "
                "with --holdout 0.2."
            )
        described.add(
            (folder.config["dataset"]["fingerprint"], folder.config["held_out"]["fingerprint"])
        )
        if len(described) > 1:
            raise CharyError(
                f"{path}: was trained on other data, or held out other episodes, than "
                f"{candidates[0].spec.folder}. Select among runs of one dataset and one --holdout."
            )
        candidates.append(Candidate(_name(path, folders), spec, open_run(path, which=which)))
    if len(candidates) < 2:
        where = ", ".join(map(str, folders))
        detail = f" ({'; '.join(left_out)})" if left_out else ""
        raise CharyError(
            f"{where}: {len(candidates)} trained run(s); select needs two or more{detail}."
        )
    return candidates, left_out


def _name(path: Path, folders: Sequence[Path]) -> str:
    """A run's name, as short as it can be."""
    for folder in folders:
        if len(folders) == 1 and path != folder and path.is_relative_to(folder):
            return str(path.relative_to(folder))
    return str(path)
