"""`chary data import | export`: between chary's datasets and the files of others."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from chary.cli.data.catalogue import describe
from chary.cli.output import Flag, show
from chary.data import formats, load, sources
from chary.data.dataset import Dataset
from chary.data.formats import arrow
from chary.data.formats.tables import Layout, action_bounds, read_tables
from chary.data.sources import minari
from chary.errors import CharyError

COLUMNS = {"file": "file", "transitions": "transitions", "episodes": "episodes"}


def import_(
    files: Annotated[tuple[Path, ...], tyro.conf.Positional],
    /,
    out: Path,
    observations: tuple[str, ...],
    actions: tuple[str, ...],
    reward: str,
    next_observations: tuple[str, ...] = (),
    episode: str | None = None,
    time: str | None = None,
    terminal: str | None = None,
    timeout: str | None = None,
    action_low: tuple[str, ...] = (),
    action_high: tuple[str, ...] = (),
    name: str | None = None,
    json: Flag = False,
) -> None:
    """Make a dataset of your own tables (.csv, .parquet, .npz, .hdf5), whose columns you name.

    Args:
        files: One or more tables with the same columns; no episode goes on from one to the next.
        out: File to write (.npz or .hdf5).
        observations: Columns, by name or pattern ('s_*'), or a whole matrix.
        actions: Columns, by name or pattern.
        reward: The column of rewards.
        next_observations: Columns; without them the next row's observation is taken.
        episode: Column of episode ids; the last row of each was cut, unless --terminal says otherwise.
        time: Column that puts the rows of an episode in order; by default as in the file.
        terminal: Column that is true where the task itself ended.
        timeout: Column that is true where an episode was only cut.
        action_low: Smallest possible action: one number, one a dimension, or `data` for what is seen.
        action_high: Largest possible action.
        name: Name of the dataset; by default that of the file written.
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
    columns = read_tables(files, layout, tell=_tell)
    low, high = action_bounds(columns["actions"], action_low, action_high)
    dataset = Dataset.from_columns(
        columns,
        name=name or out.stem,
        source=", ".join(map(str, files)),
        action_low=low,
        action_high=high,
        metadata={"imported_from": ", ".join(file.name for file in files)},
    )
    formats.write(dataset, out)
    show([{"file": str(out), **describe(dataset)}], COLUMNS, as_json=json)


def export(
    dataset: Annotated[str, tyro.conf.Positional],
    /,
    data_file: Path | None = None,
    out: Path | None = None,
    to: Literal["file", "minari"] = "file",
    id: str | None = None,
    json: Flag = False,
) -> None:
    """Write a dataset for other programs: to a file, or among Minari's local datasets.

    Args:
        dataset: A name (`chary data list`) or a file.
        data_file: File to read the named dataset from.
        out: File to write (.hdf5, .npz, .parquet or .csv), or folder (.columns) to train from without
            reading it into memory.
        to: A file, or Minari.
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
            _tell(f"a table knows no meaning; to read it again: {_import_command(loaded, out)}")
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
    words = ["chary", "data", "import", str(path), "--out", f"{path.stem}.npz"]
    words += ["--name", dataset.name, "--observations", "observations_*", "--actions", "actions_*"]
    words += ["--next-observations", "next_observations_*", "--reward", "rewards"]
    words += ["--terminal", "terminals", "--timeout", "timeouts"]
    words += ["--action-low", *map(repr, dataset.action_low.tolist())]
    words += ["--action-high", *map(repr, dataset.action_high.tolist())]
    return shlex.join(words)


def _tell(line: str) -> None:
    print(f"chary: {line}", file=sys.stderr)
