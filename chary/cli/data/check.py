"""`chary data check`: the dataset doctor."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import tyro

from chary.cli.output import Flag, show, tell
from chary.data import doctor


def check(
    dataset: Annotated[str, tyro.conf.Positional],
    /,
    data_file: Path | None = None,
    json: Flag = False,
) -> int:
    """Look for problems in a dataset; each finding says why it matters and how to fix it.

    The exit code is 1 with errors, 0 without.

    Args:
        dataset: A file, or the name of a dataset.
        data_file: File to read the named dataset from.
        json: Print the findings as one JSON object.
    """
    findings = doctor.check(dataset, data_file=data_file)
    counts = Counter(finding.severity for finding in findings)
    rows = [finding._asdict() for finding in findings]
    if not json:
        found = [
            f"{counts[s]} {s}{'s' * (counts[s] > 1)}" for s in doctor.GRAVEST_FIRST if counts[s]
        ]
        tell(f"{dataset}: {', '.join(found) or 'nothing found'}.")
        if findings and findings[0].source:
            tell(f"Rows are those of {findings[0].source}, counted from 0 without the heading.")
        rows = [
            {**row, "rows": ", ".join(map(str, row["places"] or row["rows"])) or None}
            for row in rows
        ]
    if json or rows:
        columns = {"severity": "", "rule": "rule", "message": "what", "rows": "rows", "fix": "fix"}
        totals: dict[str, Any] = {f"{s}s": counts[s] for s in doctor.GRAVEST_FIRST}
        show(rows, columns, as_json=json, dataset=dataset, **totals)
    return 1 if counts["error"] else 0
