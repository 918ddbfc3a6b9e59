"""`chary data download`: a dataset from its publisher; nothing else uses the network."""

from pathlib import Path
from typing import Annotated

import tyro

from chary.cli.output import Flag, show
from chary.data import sources
from chary.errors import CharyError, unknown_name


def download(
    name: Annotated[str, tyro.conf.Positional],
    /,
    to: Path | None = None,
    json: Flag = False,
) -> None:
    """Download a named dataset; an interrupted download resumes.

    Args:
        name: Name of a dataset from `chary data list` whose source offers downloads, such as D4RL.
        to: Folder for the file. If omitted: where chary looks for the dataset.
        json: Print the file's path as one JSON object.
    """
    named = sources.find(name)
    if named is None:
        raise unknown_name("dataset", name, sources.names())
    if named.download is None:
        raise CharyError(f"{name}: comes from '{named.source}', which chary cannot download from.")
    path = named.download(None if to is None else to.expanduser())
    show([{"name": name, "path": str(path)}], {"name": "name", "path": "path"}, as_json=json)
