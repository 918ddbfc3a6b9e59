"""What is recorded of the machine and the command."""

import sys
from pathlib import Path

import pytest

from chary.host import machine
from chary.host.machine import command_line
from chary.version import __version__


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("/somewhere/.venv/bin/chary", "chary"),
        ("/somewhere/chary/__main__.py", "chary"),
        ("benchmarks/compare.py", "python benchmarks/compare.py"),
        ("{here}/benchmarks/compare.py", "python benchmarks/compare.py"),
        ("/somewhere/benchmarks/compare.py", "python compare.py"),
    ],
)
def test_a_command_is_told_without_where_its_program_lies(
    program: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [program.format(here=tmp_path), "--out", "my results"])
    assert command_line() == f"{expected} --out 'my results'"


def test_a_module_is_named_as_it_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m tests.host.test_machine`, as far as the interpreter leaves a trace of it."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules[__name__])
    monkeypatch.setattr(sys, "argv", [__file__, "--quick"])
    assert command_line() == f"python -m {__name__} --quick"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, ""),
        ({"commit": "0123456789", "clean": True}, ", commit 0123456"),
        ({"commit": "0123456789", "clean": False}, ", commit 0123456, with changes"),
    ],
)
def test_the_program_is_named_by_its_commit(
    found: dict[str, object] | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "source", lambda: found)
    assert machine.program() == f"chary {__version__}{expected}"
