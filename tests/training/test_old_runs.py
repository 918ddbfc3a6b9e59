"""Runs made by chary 0.1 open, say what they said, and resume with the settings they had.

Each archive in `tests/old_runs` is a run folder at step 6 as that version left it, with its data and the
metrics that it went on to log up to step 12.
"""

import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest

import chary
from chary import data
from chary.runs.folder import RunFolder

ARCHIVES = Path(__file__).parent / "old_runs"
SETTINGS = {
    "double-q": {"double_q": "sum", "target_entropy": 0.0},
    "double-q-multihead": {"double_q": "sum", "ddof": 0},
    "shared-lcb": {"next_actions": "shared", "member_rows": "whole"},
}


@pytest.fixture(params=SETTINGS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def run(name: str, tmp_path: Path) -> Path:
    with zipfile.ZipFile(ARCHIVES / f"{name}.zip") as archive:
        archive.extractall(tmp_path / name)
    (tmp_path / name / "data.npz").rename(tmp_path / "data.npz")
    (tmp_path / name / "expected.jsonl").rename(tmp_path / "expected.jsonl")
    return tmp_path / name


@pytest.fixture(autouse=True)
def elsewhere() -> Any:
    """The machine and its versions may be other ones by now, which is worth a warning and no failure."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*resumed with another")
        yield


def test_an_old_run_opens_and_says_how_sure_it_is(run: Path) -> None:
    agent, dataset = chary.open_run(run), data.load(run.parent / "data.npz")
    rows = dataset.observations[:4], dataset.actions[:4]
    assert agent.uncertainty(*rows).members.shape == (2, 4)
    assert agent.act(rows[0]).shape == (4, 2)


@pytest.mark.parametrize(
    "name",
    ["double-q", *(pytest.param(name, marks=pytest.mark.long) for name in [*SETTINGS][1:])],
    indirect=True,
)
def test_an_old_run_resumes_with_the_settings_it_had(run: Path, name: str) -> None:
    chary.resume(run, dataset=data.load(run.parent / "data.npz"), steps=12)
    folder = RunFolder.open(run)
    for setting, value in SETTINGS[name].items():
        assert folder.config["settings"][setting] == value
    expected = [json.loads(x) for x in (run.parent / "expected.jsonl").read_text().splitlines()]
    found = folder.read("metrics")
    assert [line["step"] for line in found] == [2, 4, 6, 8, 10, 12]
    for mine, theirs in zip(found, expected, strict=True):
        known = {name: mine[name] for name in theirs}  # there may be more by now
        assert known == pytest.approx(theirs, rel=1e-4, abs=1e-5)
