"""What `chary select` found among runs: the verdict and its table, for the page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chary.host.files import read_json
from chary.runs.folder import SELECTED
from chary.runs.schema import Record

TEXTS = ("outcome", "sentence")
NUMBERS = (
    "place", "best", "value", "value_low", "value_high", "bound", "outside", "action_error", "td_error",
)  # fmt: skip


def read_selections(folders: Sequence[Path]) -> tuple[list[Record], list[str]]:
    """The verdicts in these folders, and what could not be read."""
    found: list[Record] = []
    problems: list[str] = []
    for folder in folders:
        path = folder / SELECTED
        if not path.is_file():
            continue
        try:
            found.append({"folder": str(folder), **_checked(read_json(path))})
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            problems.append(f"{path}: is not what `chary select` writes ({error}); left out.")
    return found, problems


def _checked(record: Record) -> Record:
    """What the page shows of a verdict; anything else is an error."""
    rows = [
        {"name": str(row["name"]), **{key: _number(row[key]) for key in NUMBERS}}
        for row in record["rows"]
    ]
    tried = record.get("tried")
    return {
        **{key: str(record[key]) for key in TEXTS},
        "reasons": [str(reason) for reason in record["reasons"]],
        "left_out": [str(run) for run in record["left_out"]],
        "episodes": int(record["episodes"]),
        "rows": rows,
        "tried": tried
        and {
            "episodes": int(tried["episodes"]),
            "best": str(tried["best"]),
            "probability": _number(tried["probability"]),
        },
    }


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
