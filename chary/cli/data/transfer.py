"""`chary data import | export`: between chary's datasets and the files of others."""

import shlex
import sys
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Literal

import tyro

from chary.cli.data.catalogue import describe
from chary.cli.output import Flag, show
from chary.data import formats, load, sources
from chary.data.dataset import Dataset
from chary.data.formats import arrow, dialect
from chary.data.formats.layout import Layout, Reading, action_bounds
from chary.data.formats.tables import read_tables
from chary.data.formats.timeline import Fill
from chary.data.names import FILES, files_text
from chary.data.sources import minari
from chary.errors import CharyError

COLUMNS = {"file": "file", "transitions": "transitions", "episodes": "episodes"}
IMPORTED = {"file": "file", "rows": "rows read", **COLUMNS}


def import_(
    files: Annotated[tuple[Path, ...], tyro.conf.Positional],
    /,
    out: Path,
    observations: tuple[str, ...],
    actions: tuple[str, ...],
    reward: str,
    next_observations: tuple[str, ...] = (),
    episode: str | None = None,
    one_episode: Flag = False,
    time: str | None = None,
    time_format: str | None = None,
    max_gap: str | None = None,
    terminal: str | None = None,
    timeout: str | None = None,
    missing: tuple[str, ...] = (),
    drop_missing: Flag = False,
    fill: Fill | None = None,
    action_low: tuple[str, ...] = (),
    action_high: tuple[str, ...] = (),
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    name: str | None = None,
    json: Flag = False,
) -> None:
    """Make a dataset from your own tables (.csv, .parquet, .npz, .hdf5). You name the columns.

    The written file keeps the column names and each transition's row number. If anything is wrong
    with the tables, all problems are listed and nothing is written.

    Args:
        files: One or more tables with the same columns. No episode continues from one to the next.
        out: File to write (.npz or .hdf5).
        observations: Column names or patterns ('s_*'), or a matrix.
        actions: Column names or patterns.
        reward: Column of rewards.
        next_observations: Column names or patterns. If omitted: the next row's observation.
        episode: Column of episode ids. A last row counts as cut off, unless --terminal is true there.
        one_episode: Each file is one unbroken log. It is still cut at gaps in --time.
        time: Column of times or numbers. It sorts the rows of an episode and shows gaps.
        time_format: Format of times that are text, such as '%d.%m.%Y %H:%M'.
        max_gap: Longest time between two consecutive rows: 900, 15min, 2h, or inf. Plain numbers are
            seconds if --time has dates, otherwise in its own unit. An episode is cut at a longer gap.
            If omitted: 1.5 times the usual interval.
        terminal: Column that is true where the task itself ended.
        timeout: Column that is true where an episode was only cut off.
        missing: Values that mean "no value", such as -999 or n/a. Empty cells always do.
        drop_missing: Drop rows that lack a value. Episodes are cut there.
        fill: Fill in missing observations inside an episode. previous: repeat the previous value.
            linear: interpolate between the values before and after, which uses the future.
        action_low: Smallest possible action: one number, one per column, or `data` (as logged).
        action_high: Largest possible action.
        separator: Separator of a CSV file: one character or `tab`. If omitted: detected.
        decimal: Decimal sign of a CSV file: '.' or ','. If omitted: detected.
        encoding: Encoding of a CSV file, such as latin-1. If omitted: UTF-8, else Windows' cp1252.
        name: Name of the dataset. If omitted: that of the written file.
        json: Print what was written as one JSON object.
    """
    if not files:
        raise CharyError("no table is given: name at least one file.")
    if out.absolute() in {file.absolute() for file in files}:
        raise CharyError(f"{out}: is one of the tables; write the dataset to another file.")
    formats.format_of(out)  # a wrong ending is noticed before the work
    layout = Layout(
        observations, actions, reward, next_observations, episode, time, terminal, timeout
    )
    written = dialect.checked(separator, decimal, encoding)
    reading = Reading(one_episode, max_gap, missing, drop_missing, fill, time_format, written)
    imported = read_tables(files, layout, reading, tell=_tell)
    columns = imported.columns
    low, high = action_bounds(columns["actions"], action_low, action_high)
    counts = imported.counts
    starts = accumulate((count.rows for count in counts[:-1]), initial=0)
    sources = [(file.name, start) for file, start in zip(files, starts, strict=True)]
    dataset = Dataset.from_columns(
        columns,
        name=name or out.stem,
        source=", ".join(map(str, files)),
        action_low=low,
        action_high=high,
        metadata={
            "imported_from": ", ".join(file.name for file in files),
            FILES: files_text(sources),
        },
        observation_names=imported.names["observations"],
        action_names=imported.names["actions"],
    )
    formats.write(dataset, out)
    facts = {
        "rows": sum(count.rows for count in counts),
        "gaps": sum(count.gaps for count in counts),
        "dropped": sum(count.dropped for count in counts),
        "filled": sum(count.filled for count in counts),
        "intervals": [count.interval for count in counts],
    }
    show([{"file": str(out), **describe(dataset), **facts}], IMPORTED, as_json=json)


def export(
    dataset: Annotated[str, tyro.conf.Positional],
    /,
    data_file: Path | None = None,
    out: Path | None = None,
    to: Literal["file", "minari"] = "file",
    id: str | None = None,
    json: Flag = False,
) -> None:
    """Write a dataset to a file, or to Minari's local datasets.

    Args:
        dataset: A name (`chary data list`) or a file.
        data_file: File to read the named dataset from.
        out: File to write (.hdf5, .npz, .parquet or .csv), or a folder (.columns) for data larger than
            memory.
        to: Destination: a file, or Minari.
        id: With --to minari, the dataset's id there, such as mine/valve-v0.
        json: Print what was written as one JSON object.
    """
    if to == "minari":
        if id is None or out is not None:
            raise CharyError("--to minari needs --id, such as mine/valve-v0, and no --out.")
        loaded = load(dataset, data_file=data_file)
        where = minari.write(loaded, id)
    else:
        if out is None or id is not None:
            raise CharyError("say where the dataset should go: --out FILE, or --to minari --id ID.")
        formats.writer_of(out)  # a wrong ending is noticed before the work
        loaded, where = _spread_out(dataset, out), out
        if loaded is None:
            loaded = load(dataset, data_file=data_file)
            formats.write(loaded, out)
        if out.suffix.lower() in arrow.ENDINGS:
            _tell(
                f"a table has no roles of columns; to read it again: {_import_command(loaded, out)}"
            )
    show([{"file": str(where), **describe(loaded)}], COLUMNS, as_json=json)


def _spread_out(dataset: str, out: Path) -> Dataset | None:
    """A file of any size into a folder of columns, if that is what is asked for."""
    source = Path(dataset).expanduser()
    plain = sources.recognise(dataset) is None and source.suffix.lower() in (".hdf5", ".h5")
    if plain and source.is_file() and out.suffix.lower() == ".columns":
        return formats.spread_out(source, out)
    return None


def _import_command(dataset: Dataset, path: Path) -> str:
    """The command that reads an exported table back, to the same numbers."""
    size, action_size = dataset.observation_size, dataset.action_size
    widths = {"observations": size, "actions": action_size, "next_observations": size}
    headings = arrow.headings_of(widths, dataset.observation_names, dataset.action_names)
    words = ["chary", "data", "import", str(path), "--out", f"{path.stem}.npz"]
    words += ["--name", dataset.name]
    for key, names in headings.items():
        plain = names == [f"{key}_{i}" for i in range(len(names))]
        words += [f"--{key.replace('_', '-')}", *([f"{key}_*"] if plain else names)]
    words += ["--reward", "rewards", "--terminal", "terminals", "--timeout", "timeouts"]
    words += ["--action-low", *map(repr, dataset.action_low.tolist())]
    words += ["--action-high", *map(repr, dataset.action_high.tolist())]
    return shlex.join(words)


def _tell(line: str) -> None:
    print(f"chary: {line}", file=sys.stderr)
