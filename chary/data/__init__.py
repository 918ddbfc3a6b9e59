"""From a name or a file to a checked, immutable dataset."""

from dataclasses import replace
from pathlib import Path

from chary.data import formats
from chary.data.dataset import Dataset
from chary.data.formats import FORMATS
from chary.data.named import NAMED, load_named
from chary.errors import CharyError, unknown_name


def load(name_or_path: str | Path) -> Dataset:
    """The dataset of that name (collected on first use, then cached), or in that file."""
    text = str(name_or_path)
    if text in NAMED:
        return replace(load_named(text), origin=text)
    try:
        path = Path(text).expanduser()
        exists = path.exists()
    except (OSError, RuntimeError) as error:  # no such home folder, or a name too long
        raise CharyError(f"{text}: no such file ({error}).") from error
    if path.suffix.lower() in FORMATS or exists or "/" in text:
        return replace(formats.read(path), origin=str(path.absolute()))
    raise unknown_name("dataset", text, NAMED, f"Or give a file that ends in {', '.join(FORMATS)}.")
