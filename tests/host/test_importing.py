"""Code that a run folder names: imported only for users who have named it themselves."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import chary
from chary.data import formats
from chary.data.dataset import Dataset
from chary.errors import CharyError
from chary.host import importing
from chary.runs.folder import RunFolder
from chary.tune import sweep
from tests.conftest import call_chary, make_columns
from tests.training.test_loop import MSG_QUICK

EVIL = "import pathlib; pathlib.Path('ran').touch()\n"


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of somebody else's with its data."""
    home = tmp_path_factory.mktemp("theirs")
    formats.write(Dataset.from_columns(make_columns(), name="tiny"), home / "d.npz")
    chary.train("msg", home / "d.npz", run=home / "run", steps=10, **MSG_QUICK)
    return home


@pytest.fixture
def stranger(tmp_path: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the user stands: a copy of that run, and a module of theirs."""
    shutil.copytree(theirs / "run", tmp_path / "run")
    monkeypatch.setenv("CHARY_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(importing, "_named_here", set())
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil_module.py").write_text(EVIL)
    return tmp_path


def set_in(run: Path, part: str, **changes: str) -> None:
    folder = RunFolder.open(run)
    folder.write_config({**folder.config, part: {**folder.config[part], **changes}})


COMMANDS = {
    "eval": ["eval", "run"],
    "resume": ["resume", "run", "--steps", "20"],
    "export": ["export", "run", "--out", "a.npz"],
    "serve": ["serve", "run", "--port", "0"],
    "select": ["select", "."],
}


def test_code_that_only_a_run_names_is_not_imported(stranger: Path) -> None:
    set_in(stranger / "run", "settings", ensemble="evil_module:Name")
    folder = RunFolder.open(stranger / "run")
    folder.write_config({**folder.config, "held_out": {"fingerprint": "x"}})
    for words in COMMANDS.values():
        done = call_chary(*words)
        assert done.returncode == 2 and "--trust-code evil_module:Name" in done.stderr, words
        assert str(stranger / "evil_module.py") in done.stderr
    assert "evil_module" not in sys.modules and not (stranger / "ran").exists()
    done = call_chary("eval", "run", "--trust-code", "evil_module:Name")
    assert (stranger / "ran").exists() and "unknown name 'Name'" in done.stderr
    del sys.modules["evil_module"]


def test_a_simulator_that_only_a_run_names_is_not_imported(stranger: Path) -> None:
    set_in(stranger / "run", "run", env="evil_module:make")
    for words in (COMMANDS["eval"], COMMANDS["resume"]):
        assert "--trust-code evil_module:make" in call_chary(*words).stderr
    assert chary.open_run("run").act(np.zeros((1, 3), np.float32)).shape == (1, 2)  # needs none
    assert "evil_module" not in sys.modules


def test_a_plan_that_names_code_is_refused_once(stranger: Path) -> None:
    cell = RunFolder.open(stranger / "run").config
    cell["settings"]["ensemble"] = "evil_module:Name"
    (stranger / "sweep").mkdir()
    plan = {"cells": {"a": {**cell, "command": "chary sweep"}}}
    (stranger / "sweep" / sweep.PLAN).write_text(json.dumps(plan))
    for words in ([], ["--cell", "0"], ["--on", "slurm", "--dry-run"]):
        assert "--trust-code evil_module:Name" in call_chary("sweep", "sweep", *words).stderr
    assert "waiting" in call_chary("sweep", "sweep", "--status").stdout
    script = call_chary(
        *("sweep", "sweep", "--trust-code", "evil_module:Name", "--on", "slurm", "--dry-run")
    )
    assert "--trust-code evil_module:Name --cell $cells" in script.stdout


def test_what_was_named_once_is_known_in_the_same_file_only(
    stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chary.trust_code("evil_module:Name")
    monkeypatch.setattr(importing, "_named_here", set())  # as in another process
    importing.require_trusted(["evil_module:Name"], stranger)
    with pytest.raises(CharyError, match="evil_module:Other"):
        importing.require_trusted(["evil_module:Other"], stranger)
    elsewhere = stranger / "download"
    elsewhere.mkdir()
    (elsewhere / "evil_module.py").write_text(EVIL)
    monkeypatch.chdir(elsewhere)
    with pytest.raises(CharyError, match=r"download/evil_module\.py"):
        importing.require_trusted(["evil_module:Name"], stranger)
    assert not (elsewhere / "ran").exists()


def test_packages_are_found_without_running_them(
    stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = stranger / "evil_package"
    package.mkdir()
    (package / "__init__.py").write_text(EVIL)
    (package / "part.py").write_text(EVIL)
    with pytest.raises(CharyError, match=r"evil_package/__init__\.py"):
        importing.require_trusted(["evil_package.part:Name"], stranger)
    assert not (stranger / "ran").exists()
    monkeypatch.setenv("CHARY_STATE", str(stranger / "evil_module.py" / "no folder"))
    chary.trust_code("evil_package.part:Name")  # cannot be written down, and holds in this process
    importing.require_trusted(["evil_package.part:Name"], stranger)
