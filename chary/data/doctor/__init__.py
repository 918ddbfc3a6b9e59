"""The dataset doctor: what is wrong or odd in a dataset, why it matters, and how to mend it.

It looks at columns before they are checked for loading, so that it can also explain what loading
refuses. Each rule is a generator of findings; the files here hold one group of rules each.
"""

import os
from pathlib import Path

import numpy as np

from chary.data import formats, load, sources
from chary.data.columns import COLUMNS, EXTRAS
from chary.data.dataset import Dataset
from chary.data.doctor import episodes, layout, logs, rewards, values
from chary.data.doctor.finding import NO_FACTS, Facts, Finding
from chary.data.formats.guard import fits
from chary.data.names import FILES, names_in
from chary.errors import one_line

__all__ = ["Facts", "Finding", "check", "examine", "facts_of"]

RULES = (*values.RULES, *logs.RULES, *rewards.RULES, *episodes.RULES)
GRAVEST_FIRST = ("error", "warning", "note")
INFOS = ("infos/qpos", "infos/qvel", "infos/goal")
"""Where D4RL's files say more about resets than the flags do."""


def check(name_or_path: str | Path, *, data_file: str | Path | None = None) -> list[Finding]:
    """Examine a file as it stands on the disk, or a named dataset as learning sees it."""
    with fits(name_or_path):
        return _check(name_or_path, data_file)


def _check(name_or_path: str | Path, data_file: str | Path | None) -> list[Finding]:
    path = Path(os.path.expanduser(name_or_path))
    known = path.suffix.lower() in formats.FORMATS and os.path.exists(path)
    if known and sources.find(str(name_or_path)) is None:
        return _check_file(path)
    dataset = load(name_or_path, data_file=data_file)
    # What a name stands for comes with its own reward transform.
    findings = examine(columns_of(dataset), facts_of(dataset))
    return [finding for finding in findings if finding.rule != "reward-transform"]


def columns_of(dataset: Dataset) -> dict[str, np.ndarray]:
    """A dataset's columns as the doctor looks at them."""
    keys = (*COLUMNS, *formats.BOUNDS, *EXTRAS)
    return {key: getattr(dataset, key) for key in keys if getattr(dataset, key) is not None}


def facts_of(dataset: Dataset, normalised: bool | None = None) -> Facts:
    """What a dataset says of itself."""
    return Facts(
        dataset.observation_names,
        dataset.action_names,
        dataset.metadata.get(FILES, ""),
        dataset.name,
        own=sources.recognise(dataset.name) is None,
        normalised=normalised,
    )


def examine(columns: dict[str, np.ndarray], facts: Facts = NO_FACTS) -> list[Finding]:
    """Every finding about columns in D4RL's names, the gravest first.

    Beside the columns there may be `action_low`, `action_high`, `times`, `source_rows`, and D4RL's
    `infos/qpos`, `infos/qvel` and `infos/goal`.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # numbers near float32's end are numbers too
        table, findings = layout.arrange(columns, facts)
        if table is not None:
            findings += [finding for rule in RULES for finding in rule(table)]
            if table.places.source:
                findings = [
                    finding._replace(
                        places=tuple(table.row(row) for row in finding.rows),
                        source=table.places.source,
                    )
                    for finding in findings
                ]
    return sorted(findings, key=lambda finding: GRAVEST_FIRST.index(finding.severity))


def _check_file(path: Path) -> list[Finding]:
    """Examine the arrays in a file, by what the file says of them."""
    target = formats.format_of(path)
    requested = (*COLUMNS, *formats.BOUNDS, *EXTRAS, *INFOS, *layout.OTHER_NAMES)
    columns, attributes = target.read(path, requested)
    widths = {key: array.shape[1] for key, array in columns.items() if array.ndim == 2}
    facts = Facts(
        *(tuple(map(one_line, names)) for names in names_in(attributes, widths)),
        files=str(attributes.get(FILES, "")),
        name=one_line(str(attributes.get("name", path.stem))),
        own=sources.find_by_file(path) is None,
        there=tuple(map(one_line, target.names(path))),
    )
    return examine(columns, facts)
