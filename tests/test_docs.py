"""Numbers in the docs that commands print are what the commands print."""

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

import chary
from chary.cli import main

DOCS = Path(__file__).parents[1] / "docs"
PACKAGE = DOCS.parent / "chary"


def test_every_logged_metric_is_explained() -> None:
    page = (DOCS / "metrics.md").read_text()
    sources = [*(PACKAGE / "algos").glob("*.py"), *(PACKAGE / "networks").glob("*.py")]
    logged = {
        name
        for path in sources
        for name in re.findall(r'"((?:critic|policy|value|flow|behaviour)/\w+)"', path.read_text())
    }
    assert len(logged) > 20
    assert {name for name in logged if f"`{name}`" not in page} == set()


@pytest.fixture(scope="module")
def tank(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with the log that the page's own program writes, and the page."""
    folder = tmp_path_factory.mktemp("tank")
    page = (DOCS / "own-data.md").read_text()
    block = re.search(r"    from pathlib import Path\n.*?rng.*?tank\.csv.*?\n\n", page, re.DOTALL)
    assert block is not None
    program = textwrap.dedent(block[0]).replace('"tank.csv"', repr(str(folder / "tank.csv")))
    exec(program, {})
    return folder, page


def import_command(page: str) -> list[str]:
    """The words of the first import on the page."""
    command = re.search(r"chary (data import tank\.csv .*?)\n    chary data check", page, re.DOTALL)
    assert command is not None
    return [word.strip("'") for word in command[1].replace("\\\n", " ").split()]


def test_the_tank_log_is_imported_as_the_page_says(
    tank: tuple[Path, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, page = tank
    monkeypatch.chdir(folder)
    first, second = (folder / "tank.csv").read_text().splitlines()[1:3]
    assert first in page and second in page
    assert main(import_command(page)) == 0
    shown = capsys.readouterr()
    for line in ("--observations takes temp_1, temp_2", "--actions takes power"):
        assert line in page and line in shown.err
    counts = re.search(r"tank\.npz +[\d,]+ +[\d,]+ +[\d,]+", page)
    assert counts is not None and counts[0].split() in [
        line.split() for line in shown.out.splitlines()
    ]


def test_the_tanks_doubt_is_what_the_page_says(
    tank: tuple[Path, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, page = tank
    monkeypatch.chdir(folder)
    if not Path("tank.npz").exists():
        main(import_command(page))
    agent = chary.train("msg", "tank.npz", steps=1500, warmup_steps=200, final_episodes=0)
    said = re.search(r"learning sees ([\d.]+ \* \(reward [+-][\d.]+\))", page)
    assert said is not None and said[1] in capsys.readouterr().err
    asked = np.array([[40.0, 35.0], [40.0, 90.0]], np.float32)
    common, impossible = agent.uncertainty(asked, agent.act(asked)).std
    logged = chary.data.load("tank.npz").observations
    most = np.quantile(agent.uncertainty(logged, agent.act(logged)).std, 0.99)
    numbers = re.search(
        r"deviation of about ([\d.]+), of the second of about ([\d.]+); 99 of 100 logged states stay "
        r"below ([\d.]+)",
        " ".join(page.split()),
    )
    assert numbers is not None
    # Another machine rounds otherwise, and 1,500 steps amplify that.
    for measured, written in zip((common, impossible, most), numbers.groups(), strict=True):
        assert measured == pytest.approx(float(written.rstrip(".")), rel=0.3)
