"""The dataset doctor: what is wrong or odd in a dataset, why it matters, and how to mend it.

It looks at columns before they are checked for loading, so that it can also explain what loading
refuses. Each rule is a generator of findings; the files here hold one group of rules each.
"""

import os
from pathlib import Path

import numpy as np

from chary.data import formats, load, sources
from chary.data.columns import COLUMNS
from chary.data.doctor import episodes, layout, rewards, values
from chary.data.doctor.finding import Finding
from chary.data.formats import hdf5

__all__ = ["Finding", "check", "examine"]

RULES = (*values.RULES, *rewards.RULES, *episodes.RULES)
GRAVEST_FIRST = ("error", "warning", "note")
INFOS = ("infos/qpos", "infos/goal")
"""Where D4RL's files tell more about resets than the flags do."""


def check(name_or_path: str | Path, *, data_file: str | Path | None = None) -> list[Finding]:
    """Examine a file as it stands on the disk, or a named dataset as learning sees it."""
    path = Path(os.path.expanduser(name_or_path))
    known = path.suffix.lower() in formats.FORMATS and os.path.exists(path)
    if known and sources.find(str(name_or_path)) is None:
        return examine(_columns_in(path))
    dataset = load(name_or_path, data_file=data_file)
    columns = {key: getattr(dataset, key) for key in (*COLUMNS, *formats.BOUNDS)}
    # What a name stands for comes with its own reward transform.
    return [finding for finding in examine(columns) if finding.rule != "reward-transform"]


def examine(columns: dict[str, np.ndarray]) -> list[Finding]:
    """Every finding about columns in D4RL's names, the gravest first.

    Beside the columns there may be `action_low`, `action_high`, `infos/qpos` and `infos/goal`.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # numbers near float32's end are numbers too
        table, findings = layout.arrange(columns)
        if table is not None:
            findings += [finding for rule in RULES for finding in rule(table)]
    return sorted(findings, key=lambda finding: GRAVEST_FIRST.index(finding.severity))


def _columns_in(path: Path) -> dict[str, np.ndarray]:
    read = formats.format_of(path).read
    return (hdf5.read(path, extra=INFOS) if read is hdf5.read else read(path))[0]
