"""Named datasets: one module a source, one registry.

A source knows the names of its datasets, where their files are kept, what is odd about them, and how
they are best learned from. How a file is laid out is the business of `formats`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chary.algorithms import installed
from chary.data.dataset import Dataset
from chary.data.scaling import RewardTransform
from chary.errors import CharyError
from chary.host.importing import find_named

GROUP = "chary.datasets"
"""Entry points of this group are datasets: a name, and the module:Name of a `NamedDataset`."""
UNCHANGED = RewardTransform()
SPARSE = RewardTransform(scale=4.0, shift=-0.5)
"""4 (r - 0.5), which turns a reward of 0 or 1 into -2 or 2."""


@dataclass(frozen=True)
class NamedDataset:
    """A dataset that chary knows by name."""

    name: str
    """Also the name of the task that policies are evaluated in."""
    source: str
    description: str
    fetch: Callable[[], Dataset]
    """The dataset from where its source keeps it; where it is not there, an error says how to get it."""
    read: Callable[[Path], Dataset]
    """The dataset in a file that the user gives."""
    present: Callable[[], bool]
    """Whether it can be fetched without collecting or downloading."""
    transitions: int | None = None
    """How many there are, where that is known without the file."""
    reward: RewardTransform = UNCHANGED
    """Rewards as learning should see them."""
    preset: str = "none"
    """Settings used when none are asked for."""
    domain: Literal["antmaze", "maze2d", "gym", "rlu"] | None = None
    """Domain of the MSG paper's experiments, whose settings the preset `paper` starts from."""
    download: Callable[[Path | None], Path] | None = None
    """Get it from its publisher, into that folder or to where `fetch` looks, and say where it is."""


from chary.data.sources import collected, d4rl, minari, ogbench, rlu

NAMED: dict[str, NamedDataset] = {
    entry.name: entry for entry in (*collected.entries(), *d4rl.entries(), *rlu.entries())
}


def find(name: str) -> NamedDataset | None:
    """The dataset of that name."""
    return NAMED.get(name) or minari.find(name) or ogbench.find(name) or _find_installed(name)


def names() -> list[str]:
    """Names of the datasets that can be listed: chary's, and those of installed packages."""
    return [*NAMED, *(name for name in installed(GROUP) if name not in NAMED)]


def _find_installed(name: str) -> NamedDataset | None:
    """The dataset of an installed package, which is imported for it."""
    if name not in installed(GROUP):
        return None
    found = find_named("dataset", installed(GROUP)[name], "mine:DATASET", installed=True)
    if not isinstance(found, NamedDataset) or found.name != name:
        raise CharyError(
            f"dataset {name}: its entry point is of type {type(found).__name__}, but must be a "
            "chary.data.sources.NamedDataset of the same name."
        )
    return found


def find_by_file(path: Path) -> NamedDataset | None:
    """The dataset that is published under that file's name."""
    return NAMED.get(d4rl.NAMES.get(path.name, ""))


def recognise(name_or_path: str) -> NamedDataset | None:
    """The dataset of that name, or that is published as a file of that name."""
    return find(name_or_path) or find_by_file(Path(name_or_path))
