"""What every part of the torture has in common: its budget, the rows that it reports, and their table.

A part is a module with `run(budget, seed, folder) -> list[Row]`. It works in the folder alone.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

PARTS = {
    "kills": "Killed at chosen moments and resumed, against runs that were not",
    "folders": "Damaged run folders, and every command that reads one",
    "datasets": "Damaged and malicious datasets, each read in a process with limits",
    "soak": "Tiny runs for hours: memory, files and threads",
    "servers": "The live page and `chary serve` under many clients",
}
"""Modules of this package in the order in which they are run; one that is not there is left out."""


class Budget(NamedTuple):
    """What a part may cost."""

    minutes: float
    """After which it begins nothing new."""
    scale: float
    """Of its number of cases; 1 is all of `make torture`."""

    def cases(self, most: int) -> int:
        """So many of the most that there are, at least one."""
        return max(1, round(self.scale * most))


class Row(NamedTuple):
    """One line of the table."""

    what: str
    cases: int
    failures: int
    note: str


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    lines = ["| what | cases | failures | |", "|---|---:|---:|---|"]
    lines += [
        f"| {row.what} | {row.cases:,} | {row.failures:,} | {row.note.replace('|', '/')} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def there(name: str) -> bool:
    """Whether a part has been written."""
    return (Path(__file__).parent / f"{name}.py").exists()
