"""Numbers in the docs that commands print are what the commands print."""

import json
import re
import textwrap
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import chary
from chary.algos import msg_presets
from chary.cli import main

DOCS = Path(__file__).parents[1] / "docs"
PACKAGE = DOCS.parent / "chary"


def test_every_logged_metric_is_explained() -> None:
    page = (DOCS / "metrics.md").read_text()
    sources = [p for room in ("algos", "networks", "online") for p in (PACKAGE / room).glob("*.py")]
    kinds = "critic|policy|value|flow|behaviour|online"
    logged = {
        name for path in sources for name in re.findall(rf'"((?:{kinds})/\w+)"', path.read_text())
    }
    assert len(logged) > 20 and "online/beta" in logged
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


def test_the_tank_as_a_task_writes_the_same_log(
    tank: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(DOCS.parent / "examples")
    import tank as example

    example.write_csv(tmp_path / "tank.csv")
    assert (tmp_path / "tank.csv").read_text() == (tank[0] / "tank.csv").read_text()
    task = example.Tank()
    task.reset(seed=0)
    tripped = [task.step(np.array([5.0])) for _ in range(60)][-1]
    assert task.tripped and tripped[3] and not tripped[2]


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


@pytest.mark.long
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


def columns_of(block: str) -> list[dict[str, str]]:
    """A printed table whose cells go over several lines, row by row."""
    lines = textwrap.dedent(block).splitlines()
    head = next(i for i, line in enumerate(lines) if {"rule", "fix"} <= set(line.split()))
    names = lines[head].split()
    places = [0, *(lines[head].index(name) for name in names), None]
    rows: list[dict[str, str]] = []
    for line in lines[head + 2 :]:
        cells = [line[first:last].strip() for first, last in pairwise(places)]
        if cells[0]:
            rows.append(dict.fromkeys(["severity", *names], ""))
        for name, cell in zip(rows[-1], cells, strict=True):
            rows[-1][name] = f"{rows[-1][name]} {cell}".strip()
    return rows


def test_the_doctors_example(
    real_data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(real_data / "d4rl")
    page = (DOCS / "doctor.md").read_text()
    said = re.search(r"    \$ chary (data check \S+)\n    (.*)\n((?:    .*\n|\n)+)", page)
    assert said is not None
    assert main([*said[1].split(), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    counts = f"{found['errors']} error, {found['warnings']} warning."
    assert said[2] == f"{found['dataset']}: {counts}"
    assert columns_of(said[3]) == [
        {
            "severity": row["severity"],
            "rule": row["rule"],
            "what": row["message"],
            "rows": ", ".join(map(str, row["rows"])) or "-",
            "fix": row["fix"],
        }
        for row in found["rows"]
    ]


def quoted(page: str, start: str) -> list[str]:
    """The lines of the block that begins so."""
    block = re.search(rf"^    {re.escape(start)}.*\n(?:    .*\n)*", page, re.MULTILINE)
    assert block is not None
    return textwrap.dedent(block[0]).splitlines()


def heating_log(path: Path, **changes: dict[int, str]) -> None:
    """A row every ten minutes, with a week after row 1999 and some cells replaced."""
    columns = {
        "time": [np.datetime64("2024-01-01") + np.timedelta64(10, "m") * i for i in range(4_992)],
        **{name: [str(i % 7) for i in range(4_992)] for name in ("indoor", "outdoor")},
        "power": [str(i % 5 / 10) for i in range(4_992)],
        "comfort": [str(i % 3) for i in range(4_992)],
    }
    week = np.timedelta64(7, "D") - np.timedelta64(10, "m")
    columns["time"][2_000:] = [when + week for when in columns["time"][2_000:]]
    for name, cells in changes.items():
        for row, cell in cells.items():
            columns[name][row] = cell
    rows = zip(*columns.values(), strict=True)
    path.write_text(
        "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n"
    )


UNKNOWN: dict[int, str] = dict.fromkeys((1_366, 2_500, 3_000, 3_500, 4_000), "")
IMPORT = ["--out", "log.npz", "--actions", "power", "--reward", "comfort"]


def test_what_an_import_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = {row + i: "" for row in range(100, 2_000, 95) for i in range(2)}
    heating_log(Path("heating.csv"), indoor=pairs, comfort=UNKNOWN)
    options = ["--observations", "indoor", "outdoor", "--time", "time", "--one-episode"]
    filled = ["--fill", "previous", "--drop-missing"]
    assert main(["data", "import", "heating.csv", *IMPORT, *options, *filled]) == 0
    told = capsys.readouterr().err.splitlines()
    for line in quoted((DOCS / "own-data.md").read_text(), "chary: heating.csv: a row every"):
        assert line in told


def test_the_problems_that_an_import_lists(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    heating_log(Path("log.csv"), indoor={7: "broken"}, comfort=UNKNOWN)
    options = ["--observations", "indoor", "outdor", "--one-episode"]
    assert main(["data", "import", "log.csv", *IMPORT, *options]) == 2
    said = quoted((DOCS / "own-data.md").read_text(), "chary: error: log.csv: 3 problems")
    assert capsys.readouterr().err.strip().splitlines()[-len(said) :] == said
    assert not Path("log.npz").exists()


def test_the_preset_for_own_data_is_as_the_pages_say() -> None:
    settings = msg_presets.PRESETS["own-data"]
    hidden = "x".join(map(str, settings["hidden"]))
    said = (
        f"Preset own-data: {settings['members']} members of {hidden}, batches of "
        f"{settings['batch_size']}, {settings['steps']:,} steps."
    )
    for page in ("own-data.md", "heating.md"):
        assert said in " ".join((DOCS / page).read_text().split())


def test_the_cold_tank_is_compared_as_the_page_says(
    tank: tuple[Path, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, page = tank
    monkeypatch.chdir(folder)
    block = re.search(r"    from pathlib import Path\n.*?rng.*?tank\.csv.*?\n\n", page, re.DOTALL)
    assert block is not None
    program = textwrap.dedent(block[0])
    drift_page = (DOCS / "drift.md").read_text()
    changes = re.search(r"program with `(.*?)`\.", " ".join(drift_page.split()))
    assert changes is not None
    for change in changes[1].split("`, `"):
        old, new = change.split(" -> ")
        assert old in program
        program = program.replace(old, new)
    exec(program, {})
    command = import_command(page)
    main(command)
    main([word.replace("tank.", "cold.") for word in command])
    capsys.readouterr()
    assert main(["data", "drift", "tank.npz", "cold.npz"]) == 0
    printed = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    shown = drift_page.split("$ chary data drift tank.npz cold.npz\n")[1].split("\n\n- **")[0]
    assert [line.split() for line in shown.splitlines() if line.strip()] == printed
