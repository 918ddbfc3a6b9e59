"""The tables of the antmaze page: the runs of each, at a laptop's budget and at the paper's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from chary.errors import unknown_name
from chary.study.cells import Cell, said_in
from chary.training.resolve import configure

PLAIN, FAST = "paper", "antmaze-fast"
"""Presets: the paper's for the maze, and the one for a laptop."""
MAZES = tuple(
    f"antmaze-{maze}-v2"
    for maze in (
        "umaze", "umaze-diverse", "medium-play", "medium-diverse", "large-play", "large-diverse",
    )
)  # fmt: skip
MEDIUM, LARGE = "antmaze-medium-play-v2", "antmaze-large-play-v2"


@dataclass(frozen=True)
class Budget:
    """How much is spent on every run."""

    members: int
    steps: dict[str, int]
    """Updates, by the size of the maze."""
    eval_every: int
    seeds: tuple[int, ...]
    on_large: tuple[int, ...]
    """Seeds of the table of scores on the large mazes, where single runs differ most."""

    def steps_on(self, dataset: str) -> int:
        return self.steps[dataset.split("-")[1]]

    def seeds_on(self, dataset: str) -> tuple[int, ...]:
        return self.on_large if dataset.startswith("antmaze-large") else self.seeds


BUDGETS = {
    "small": Budget(
        members=4,
        steps={"umaze": 30_000, "medium": 60_000, "large": 100_000},
        eval_every=10_000,
        seeds=(0, 1),
        on_large=(0, 1, 2),
    ),
    "paper": Budget(
        members=64,
        steps=dict.fromkeys(("umaze", "medium", "large"), 2_000_000),
        eval_every=100_000,
        seeds=(0, 1, 2, 3, 4),
        on_large=(0, 1, 2, 3, 4),
    ),
}


class Part(NamedTuple):
    """A table's runs on one dataset."""

    table: str
    dataset: str
    cells: list[Cell]
    seeds: tuple[int, ...]
    steps: int

    @property
    def name(self) -> str:
        """The name of its page."""
        return f"{self.table}-{self.dataset}"


class Table(NamedTuple):
    """A question, and the runs that answer it."""

    question: str
    datasets: tuple[str, ...]
    cells: Callable[[Budget, str], list[Cell]]


def parts(tables: Sequence[str], budget: Budget) -> list[Part]:
    """The runs of some tables, of all where none are named."""
    for name in tables:
        if name not in TABLES:
            raise unknown_name("table", name, TABLES)
    return [
        Part(
            name,
            dataset,
            TABLES[name].cells(budget, dataset),
            budget.seeds_on(dataset) if name == "scores" else budget.seeds[:2],
            budget.steps_on(dataset),
        )
        for name in tables or TABLES
        for dataset in TABLES[name].datasets
    ]


def preset_cell(
    name: str,
    algorithm: str,
    preset: str,
    dataset: str,
    *,
    steps: int | None = None,
    **changes: Any,
) -> Cell:
    """An algorithm with a preset's settings and a few changes."""
    config, run = configure(algorithm, preset, dataset, changes)
    own = {**said_in(run), "n_step": run.n_step, "act": run.act}
    if steps is not None:
        own["steps"] = steps
    return Cell(name, vars(replace(config, **changes)), algorithm, own, preset)


def _msg(name: str, preset: str, budget: Budget, dataset: str, **changes: Any) -> Cell:
    """MSG with a preset. The paper clones for 50,000 steps of 2,000,000: of fewer, for a sixth."""
    if preset == PLAIN:
        usual = configure("msg", PLAIN, dataset)[0].warmup_steps
        changes["warmup_steps"] = min(usual, budget.steps_on(dataset) // 6)
    return preset_cell(name, "msg", preset, dataset, members=budget.members, **changes)


def _scores(budget: Budget, dataset: str) -> list[Cell]:
    return [
        _msg("msg-fast", FAST, budget, dataset),
        _msg("msg-shared", FAST, budget, dataset, targets="shared-lcb"),
        _msg("msg-paper", PLAIN, budget, dataset),
        preset_cell("rebrac", "rebrac", "auto", dataset),
        preset_cell("iql", "iql", "auto", dataset),
        preset_cell("bc", "bc", "auto", dataset),
    ]


def _independence(budget: Budget, dataset: str) -> list[Cell]:
    rules: dict[str, dict[str, Any]] = {
        "independent": {"targets": "independent"},
        "shared-lcb": {"targets": "shared-lcb"},
        "shared-min": {"targets": "shared-min"},
        "shared-min-batch": {"targets": "shared-min", "min_over": "batch"},
        "shared-mean": {"targets": "shared-mean"},
    }
    return [
        _msg(f"{rule}{suffix}", preset, budget, dataset, **changes)
        for preset, suffix in ((PLAIN, ""), (FAST, "-fast"))
        for rule, changes in rules.items()
    ]


def _size(budget: Budget, dataset: str) -> list[Cell]:
    sizes = [
        preset_cell(f"n{size}", "msg", FAST, dataset, members=size, beta=beta)
        for size, beta in ((1, 0.0), (4, None), (16, None))
        for beta in [_beta(dataset) if beta is None else beta]
    ]
    longer = 4 * budget.steps_on(dataset)
    return [
        *sizes,
        preset_cell("n1-longer", "msg", FAST, dataset, members=1, beta=0.0, steps=longer),
    ]


def _beta(dataset: str) -> float:
    return configure("msg", FAST, dataset)[0].beta


def _ensembles(budget: Budget, dataset: str) -> list[Cell]:
    kinds: dict[str, dict[str, Any]] = {
        "deep": {"ensemble": "deep"},
        "multihead": {"ensemble": "multihead"},
        "mimo": {"ensemble": "mimo"},
        "batch-split": {"ensemble": "batch", "member_rows": "split"},
        "batch-whole": {"ensemble": "batch", "member_rows": "whole"},
    }
    # The relative bound needs every member at every row, which a divided batch does not have.
    common: dict[str, Any] = {"members": budget.members, "bound": "state", "cloning": 0.03}
    return [
        preset_cell(kind, "msg", FAST, dataset, **common, **changes)
        for kind, changes in kinds.items()
    ]


TABLES = {
    "scores": Table(
        "MSG, the same with shared targets, ReBRAC, IQL and cloning at the same number of updates",
        MAZES,
        _scores,
    ),
    "independence": Table(
        "Do members need targets of their own, with and without what makes training fast?",
        (MEDIUM,),
        _independence,
    ),
    "size": Table("How many members are needed?", (LARGE,), _size),
    "ensembles": Table("Do cheaper ensembles do what separate networks do?", (MEDIUM,), _ensembles),
}
