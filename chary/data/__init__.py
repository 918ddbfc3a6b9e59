"""From a name or a file to a checked, immutable dataset."""

from dataclasses import replace
from glob import has_magic
from pathlib import Path

from chary.data import formats, sources
from chary.data.dataset import Dataset
from chary.data.formats import FORMATS
from chary.data.formats.guard import fits
from chary.errors import CharyError, unknown_name


def load(name_or_path: str | Path, *, data_file: str | Path | None = None) -> Dataset:
    """Load a dataset by its name or from a file.

    `data_file` is a file with the named dataset's data, instead of the one in the cache.
    """
    with fits(name_or_path):
        return _load(name_or_path, data_file)


def _load(name_or_path: str | Path, data_file: str | Path | None) -> Dataset:
    text = str(name_or_path)
    named = sources.find(text)
    if data_file is not None:
        if named is None:
            raise unknown_name(
                "dataset", text, sources.names(), "A data file needs the name of a known one."
            )
        path = _existing(data_file)
        return replace(named.read(path), origin=text, data_file=str(path.absolute()))
    if named is not None:
        return replace(named.fetch(), origin=text)
    try:
        path = Path(text).expanduser()
        exists = path.exists()
    except (OSError, RuntimeError) as error:  # no such home folder, or a name too long
        raise CharyError(f"{text}: no such file ({error}).") from error
    published = sources.find_by_file(path)
    if published is not None and exists:
        return replace(published.read(path), origin=str(path.absolute()))
    if path.suffix.lower() in FORMATS or exists or "/" in text:
        return replace(formats.read(path), origin=str(path.absolute()))
    advice = f"Or give a file that ends in {', '.join(FORMATS)}."
    raise unknown_name("dataset", text, sources.names(), advice)


def _existing(path: str | Path) -> Path:
    path = Path(path).expanduser()
    if not path.exists() and not has_magic(str(path)):  # a pattern is its source's to look up
        raise CharyError(f"{path}: no such file. --data-file is the file to read the dataset from.")
    return path
