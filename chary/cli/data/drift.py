"""`chary data drift RUN NEW`: whether new logs are still like the data that a run learned from."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import tyro

from chary.cli.output import Flag, show, tell
from chary.data import formats, load, sources
from chary.data.dataset import Dataset
from chary.data.drift import Drift, compare, percent
from chary.data.drift.columns import Column
from chary.data.drift.states import EXPECTED
from chary.data.formats import arrow
from chary.errors import CharyError

COLUMNS = {
    "name": "column", "moved": "moved", "distance": "KS", "limit": "limit", "shift": "shift",
    "before": "training 1%, 50%, 99%", "after": "new 1%, 50%, 99%", "outside": "outside",
}  # fmt: skip


def drift(
    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    new: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NEW")],
    /,
    data_file: Path | None = None,
    fail_on_drift: Flag = False,
    json: Flag = False,
) -> int:
    """Compare new logs with the data that a run learned from, and say whether to retrain.

    Only what is larger than the differences within the training data counts. The exit code is 0, or
    with --fail-on-drift 1 if the verdict is to retrain.

    Args:
        run: A run folder. Or the training data itself: a name or a file.
        new: The new data: a name or a file (.hdf5, .npz, .columns). Tables come from `data import`.
        data_file: Where the run's data is now, if it has moved.
        fail_on_drift: Exit with code 1 if the verdict is to retrain, for scheduled jobs.
        json: Print everything as one JSON object.
    """
    training = _training(run, data_file)
    found = compare(training, _new(new, training))
    if json:
        facts = {k: v for k, v in found._asdict().items() if k not in ("columns", "states")}
        rows = [column._asdict() for column in found.columns]
        show(rows, {}, as_json=True, **facts, states=found.states._asdict())
    else:
        _print(found)
    return 1 if fail_on_drift and found.outcome == "retrain" else 0


def _training(run: str, data_file: Path | None) -> Dataset:
    """What the run learned from, or the dataset that is given in its place."""
    path = Path(run).expanduser()
    if path.suffix.lower() in formats.FORMATS and data_file is None:
        return load(run)
    if path.is_dir() and sources.find(run) is None:
        from chary.training.learned_from import learned_from  # imports JAX

        return learned_from(path, data_file)
    if path.suffix.lower() not in arrow.ENDINGS and not path.exists() and not sources.find(run):
        raise CharyError(
            f"{run}: no run folder, and no dataset of this name. `chary runs` lists runs, `chary data "
            "list` datasets."
        )
    return load(run, data_file=data_file)


def _new(new: str, training: Dataset) -> Dataset:
    """The new data; of a table, the command that makes it a dataset."""
    path = Path(new).expanduser()
    if path.suffix.lower() not in arrow.ENDINGS or not path.exists():
        return load(new)
    words = ["chary", "data", "import", new, "--out", f"{path.stem}.npz"]
    for option, names in (
        ("--observations", training.observation_names),
        ("--actions", training.action_names),
    ):
        words += [option, *(map(shlex.quote, names) if names else ["..."])]
    words += [
        "--reward",
        "...",
        "--episode",
        "...",
        "--action-low",
        "data",
        "--action-high",
        "data",
    ]
    raise CharyError(
        f"{new}: is a table. Make it a dataset first, as the training data was made: "
        f"`{' '.join(words)}`."
    )


def _print(found: Drift) -> None:
    """The verdict first, then what it rests on."""
    tell(found.sentence)
    for reason in found.reasons:
        tell(f"  - {reason}")
    states, before, after = found.states, found.training, found.new
    print(
        f"\nNew states outside the training data: {percent(states.outside)} "
        f"({percent(states.outside_low)} to {percent(states.outside_high)}, by episodes); "
        f"{percent(EXPECTED)} is expected.\n"
        f"Training states that the new data visits: {percent(states.visited)}; as much training data "
        f"visits {percent(states.visited_usual)}."
    )
    rows: list[dict[str, Any]] = [
        {
            "what": key.replace("_", " "),
            "training": _number(before[key]),
            "new": _number(after[key]),
        }
        for key in ("transitions", "episodes", "reward_mean", "return_mean")
    ]
    names = {"training": f"training: {before['name']}", "new": f"new: {after['name']}"}
    show(rows, {"what": "", **names}, as_json=False)
    ordered = sorted(found.columns, key=lambda column: not column.moved)  # in place but for these
    show([_row(column) for column in ordered], COLUMNS, as_json=False)


def _row(column: Column) -> dict[str, Any]:
    return {
        **column._asdict(),
        "before": ", ".join(map(_number, column.training_quantiles)),
        "after": ", ".join(map(_number, column.new_quantiles)),
        "outside": f"{column.outside:.1%}",
    }


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
