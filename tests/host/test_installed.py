"""Entry points: what installed packages bring goes by its name, wherever one stands."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chary import algorithms, data
from chary.data import sources
from chary.ensembles import EnsembleShape, check_name, make_ensemble
from chary.errors import CharyError
from chary.host.importing import find_named

MODULE = """
from chary.data.sources import NamedDataset
from chary.ensembles.deep import make_deep
import chary, numpy as np

def fetch():
    return chary.dataset(
        observations=np.random.default_rng(0).normal(size=(20, 2)),
        actions=np.tile([[0.5], [-0.5]], (10, 1)),
        rewards=np.arange(20.0),
        terminals=np.zeros(20, bool),
        timeouts=np.arange(20) % 10 == 9,
    )

PUMPS = NamedDataset("pumps", "brought", "a pump's log", fetch, lambda path: fetch(), lambda: True)
NUMBER = 5
"""
POINTS = """
[chary.ensembles]
their-ensemble = brought_along:make_deep
[chary.datasets]
pumps = brought_along:PUMPS
odd = brought_along:NUMBER
"""


@pytest.fixture(autouse=True)
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    site = tmp_path / "site"
    info = site / "brought_along-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "brought_along.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brought-along\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(site)
    algorithms.installed.cache_clear()
    yield
    algorithms.installed.cache_clear()
    sys.modules.pop("brought_along", None)


def test_an_installed_ensemble_goes_by_its_name() -> None:
    check_name("their-ensemble")
    shape = EnsembleShape(2, 1, 3, 1, (4,), False)
    assert make_ensemble("their-ensemble", shape).heads is not None
    with pytest.raises(CharyError, match="Did you mean their-ensemble"):
        check_name("their-ensembel")


def test_an_installed_dataset_goes_by_its_name() -> None:
    loaded = data.load("pumps")
    assert loaded.size == 18 and loaded.origin == "pumps"
    assert sources.names()[-2:] == ["pumps", "odd"]
    with pytest.raises(CharyError, match="Did you mean pumps"):
        data.load("pupms")
    with pytest.raises(CharyError, match="of type int, but must be a"):
        data.load("odd")


def test_what_is_installed_is_not_taken_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lying_here.py").write_text("NAME = 1")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CharyError, match="no module 'lying_here'"):
        find_named("algorithm", "lying_here:NAME", "mine:AWAC", installed=True)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert find_named("algorithm", "lying_here:NAME", "mine:AWAC") == 1
    del sys.modules["lying_here"]
