"""`chary runs`: what there is, and how well it did."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from chary.cli.output import Flag, show
from chary.errors import CharyError
from chary.runs.folder import RunFolder, find_runs
from chary.runs.logs import headline, speed_in
from chary.runs.schema import is_count, is_text, way_of

COLUMNS = {
    "run": "run", "algorithm": "algo", "dataset": "dataset", "seed": "seed", "step": "step",
    "act": "act", "last": "last", "last_sampled": "sampled", "best": "best", "steps_per_s": "steps/s",
    "diverged": "diverged",
}  # fmt: skip
USUAL = {"act": (None, "mode"), "last_sampled": (None,), "diverged": (False,)}
"""Columns that are shown only where a run has something else in them."""
SCORES = "last and best: normalised score, or return if the task has no reference scores"


def main(arguments: list[str]) -> int:
    def runs(
        folder: Annotated[Path, tyro.conf.Positional] = Path("runs"), /, json: Flag = False
    ) -> None:
        """Table of the run folders below a folder, with their last and best scores.

        Args:
            folder: Folder with run folders.
            json: Print the table as one JSON object.
        """
        if not folder.is_dir():
            raise CharyError(f"{folder}: no such folder. Name the one that holds your runs.")
        rows: list[dict[str, Any]] = []
        for path in find_runs(folder):
            try:
                rows.append(describe(RunFolder.open(path)))
            # Other programs have files of that name too, and not every folder can be read.
            except (CharyError, OSError) as error:
                warnings.warn(f"{str(error).rstrip('.')}; skipped.", stacklevel=1)
        _show(rows, as_json=json)

    tyro.cli(runs, args=arguments, prog="chary runs")
    return 0


def show_runs(folders: Sequence[Path], *, as_json: bool) -> None:
    """A row for each run."""
    rows = [describe(RunFolder.open(folder)) for folder in folders]
    _show(rows, as_json=as_json)


def _show(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    columns = {
        key: heading
        for key, heading in COLUMNS.items()
        if key not in USUAL or any(row[key] not in USUAL[key] for row in rows)
    }
    show(rows, columns, as_json=as_json, title=SCORES)


def describe(folder: RunFolder) -> dict[str, Any]:
    """A run in one row: where it stands, how it did last and at its best, how fast it went."""
    config = folder.config
    try:
        name, seed, goal = config["dataset"]["name"], config["run"]["seed"], config["run"]["steps"]
        if not (is_text(name) and is_count(seed) and is_count(goal)):
            raise TypeError("no name, seed or number of steps")
    except (KeyError, TypeError, IndexError) as error:
        raise CharyError(
            f"{folder.path}/config.json: damaged or of another version ({error})."
        ) from error
    steps, timing = folder.checkpoint_steps(), folder.read("timing")
    last, best = folder.last(), folder.best()
    sampled = last.get("sampled") if last else None
    return {
        "run": str(folder.path),
        "algorithm": config["algorithm"],
        "dataset": name,
        "seed": seed,
        "step": steps[-1] if steps else 0,
        "steps": goal,
        "last": headline(last) if last else None,
        "last_success": last.get("success") if last else None,
        "last_sampled": headline(sampled) if sampled else None,
        "act": way_of(last) if last else None,
        "best": headline(best) if last and best else None,
        "best_step": best["step"] if best else None,
        "validation": best.get("validation") if best else None,
        "steps_per_s": speed_in(timing),
        "diverged": folder.diverged(),
    }
