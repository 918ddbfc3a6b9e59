"""The house: a room imports only from rooms before it, and the hall is small."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "chary"
ROOMS = (
    "", "host", "envs", "data", "networks", "ensembles", "execution", "algos", "runs", "track",
    "evaluation", "online", "training", "deploy", "tune", "report", "bench", "study", "theory",
    "testing", "cli",
)  # fmt: skip
"""From the bottom up; the first is the hall: errors, types, configs."""
DOORS = ("", "__main__", "moved")
"""Modules through which users come in, and which lead into every room."""


def modules(package: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in package.rglob("*.py"):
        name = ".".join(path.relative_to(package).with_suffix("").parts)
        found[name.removesuffix("__init__").rstrip(".")] = path
    return found


def imports(source: str) -> Iterator[str]:
    """Every name of chary's that a module imports, at the top or inside a function."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.module.split(".")[0] == "chary"
        ):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("chary."))


def upward(package: Path) -> list[str]:
    """Imports from a room that stands above."""
    found = modules(package)

    def room(module: str) -> int:
        first = module.split(".")[0]
        return ROOMS.index(first if (package / first).is_dir() and first else "")

    wrong: list[str] = []
    for module, path in found.items():
        for name in imports(path.read_text()):
            inside = name.removeprefix("chary").lstrip(".")
            target = inside if inside in found else inside.rpartition(".")[0]
            if module not in DOORS and room(module) < room(target):
                wrong.append(f"{module} imports {target}")
    return sorted(wrong)


def test_no_room_imports_from_above() -> None:
    assert upward(PACKAGE) == []


def test_every_room_is_known_and_says_what_it_is_for() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert rooms == set(ROOMS) - {""}
    for room in rooms:
        docstring = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text()))
        assert docstring, room


def test_the_hall_is_small() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 8


@pytest.mark.parametrize(
    "line",
    ["from chary.training import loop", "from chary.cli import main", "import chary.study.plan"],
)
def test_a_wrong_edge_is_seen(tmp_path: Path, line: str) -> None:
    for room in ("networks", "training", "cli", "study"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").touch()
    (tmp_path / "training" / "loop.py").touch()
    (tmp_path / "study" / "plan.py").touch()
    assert upward(tmp_path) == []
    (tmp_path / "networks" / "layers.py").write_text(f"def late():\n    {line}\n")
    assert len(upward(tmp_path)) == 1


def test_msg_names_nothing_of_how_it_is_executed() -> None:
    text = (PACKAGE / "algos" / "msg.py").read_text()
    assert len(text.splitlines()) <= 200
    for word in ("window", "shard", "device", "slope"):
        assert word not in text.lower()


def test_modules_are_still_found_under_their_old_names() -> None:
    with pytest.warns(DeprecationWarning, match=r"now chary\.networks\.layers"):
        nets = import_module("chary.nets")
    assert nets.glorot is import_module("chary.networks.layers").glorot
    with pytest.raises(ImportError):
        import_module("chary.nothing")
