"""Commands and programs on the pages: every command is understood, every program compiles."""

import functools
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import tyro

from chary.cli import main
from tests.pages import ROOT, blocks

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


def commands(page: str) -> list[list[str]]:
    """The words of every `chary` command in the page's code."""
    found = []
    for block in blocks(page):
        if block.language in ("python", "json", "toml", "yaml"):
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            if (start := line.removeprefix("$ ")).startswith("chary "):
                found.append(shlex.split(start, comments=True)[1:])
    return found


class Understood(BaseException):
    """Raised in place of what a command would do."""


def idle(command: Any) -> Any:
    """A function with the options of a command that only says that they were understood."""

    @functools.wraps(command)
    def nothing(*_: Any, **__: Any) -> None:
        raise Understood

    return nothing


@pytest.fixture
def only_parse(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands read their options and do nothing; what the pages assume to be there is there."""
    parse, parse_one_of = tyro.cli, tyro.extras.subcommand_cli_from_dict

    def understand(command: Any, **options: Any) -> None:
        parse(command if isinstance(command, type) else idle(command), **options)
        raise Understood

    def understand_one_of(commands: dict[str, Any], **options: Any) -> None:
        parse_one_of({name: idle(command) for name, command in commands.items()}, **options)

    monkeypatch.setattr(tyro, "cli", understand)
    monkeypatch.setattr(tyro.extras, "subcommand_cli_from_dict", understand_one_of)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name, example in {"awac": "awac", "mine": "custom_ensemble"}.items():
        monkeypatch.delitem(sys.modules, name, raising=False)
        shutil.copy(ROOT / "examples" / f"{example}.py", f"{name}.py")
    (tmp_path / "sweeps" / "a").mkdir(parents=True)
    (tmp_path / "sweeps" / "a" / "sweep.json").write_text("{}")


understood: set[tuple[str, ...]] = set()
"""Commands that stand on several pages are read once."""


@pytest.mark.usefixtures("only_parse")
@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_on_the_pages_are_understood(page: Path) -> None:
    for words in commands(page.read_text()):
        if tuple(words) in understood:
            continue
        understood.add(tuple(words))
        code: Any = 0
        try:
            code = main(words)  # help and lists
        except Understood:
            pass
        except SystemExit as end:
            code = end.code
        assert code == 0, words


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_programs_on_the_pages_compile(page: Path) -> None:
    for block in blocks(page.read_text()):
        if block.language == "python":
            compile(block.text, str(page), "exec")


def test_the_tutorials_algorithm_is_the_example() -> None:
    page = (ROOT / "docs" / "tutorials" / "algorithm.md").read_text()
    pasted = "".join(block.text for block in blocks(page) if block.title == "awac.py")
    lines = (ROOT / "examples" / "awac.py").read_text().splitlines()
    assert [line for line in pasted.splitlines() if line] == [line for line in lines if line]
