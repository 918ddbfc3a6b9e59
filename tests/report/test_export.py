"""Tables as LaTeX and CSV: the page's numbers, and text that stays text."""

import csv
import re
from pathlib import Path
from typing import Any

import pytest

from chary.cli import main
from chary.report.export import Table, as_csv, as_tex, escaped, report_tables
from chary.report.page_data import page_data
from chary.report.story import read_runs
from tests.synthetic import synthetic_run

NASTY = "\\end{tabular} 100% of $x_1^2$ & {#~} <a|b> -- ---\n[*] \x07"
NAMES = ["summary", "iqm", "improvement", "episodes", "policies", "critics", "reproduction"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two settings in two seeds each, one run of another algorithm, and names that mean something."""
    home = tmp_path_factory.mktemp("runs")
    for members in (4, 8):
        for seed in (0, 1):
            settings, name = {"members": members}, f"[{members}]_{seed}"
            synthetic_run(
                home / name, seed=seed, lines=3, evaluations=2, maze=False,
                dataset=NASTY, settings=settings,
            )  # fmt: skip
    synthetic_run(home / "bc", lines=3, evaluations=1, dataset=NASTY, algorithm="bc", ensemble=None)
    return home


@pytest.fixture(scope="module")
def data(runs: Path) -> dict[str, Any]:
    return page_data(*read_runs([runs]))


def written(runs: Path, out: Path, kind: str) -> dict[str, str]:
    """What the command writes, by the tables' names."""
    assert main(["report", str(runs), "--format", kind, "--out", str(out / f"report.{kind}")]) == 0
    return {
        path.stem.removeprefix("report-"): path.read_text() for path in out.glob(f"report-*.{kind}")
    }


def flat(table: Table) -> list[list[Any]]:
    """Rows as CSV has them: three numbers for an estimate."""
    return [
        [
            part
            for key in table.columns
            for part in (
                [row[key][p] for p in ("mean", "low", "high")]
                if isinstance(row.get(key), dict)
                else [row.get(key)]
            )
        ]
        for row in table.rows
    ]


def test_csv_has_the_numbers_of_the_page(
    runs: Path, data: dict[str, Any], tmp_path: Path, capsys: Any
) -> None:
    texts = written(runs, tmp_path, "csv")
    assert sorted(texts) == sorted(NAMES)
    assert capsys.readouterr().out.splitlines() == [
        f"report: {tmp_path}/report-{name}.csv" for name in NAMES
    ]
    rows = list(csv.DictReader(texts["summary"].splitlines()[:1] + _records(texts["summary"])))
    for row, group in zip(rows, data["groups"], strict=True):
        assert row["dataset"] == NASTY and row["algorithm"] == group["algorithm"]
        assert row["seeds"] == " ".join(map(str, group["seeds"]))
        assert float(row["last"]) == group["last"]["mean"]
        assert _number(row["best high"]) == group["best"]["high"]
        assert float(row["time a run (s)"]) == group["seconds"]
    for pool, row in zip(
        data["budget"]["pools"], list(csv.reader(_records(texts["episodes"]))), strict=True
    ):
        assert row[0] == pool["method"] + ("" if "method" in pool["views"] else ", all settings")
        at = [pool["bandit"][key][50] for key in ("mean", "low", "high")]
        assert list(map(float, row[-6:-3])) == at
    ours, theirs, *chance = next(csv.reader(_records(texts["improvement"])))
    compared = data["statistics"]["compared"]
    assert [ours, theirs] == compared[:2]
    assert list(map(float, chance)) == data["statistics"]["improvement"][0][1]


def _records(text: str) -> list[str]:
    """Lines without the heading, with their ends, as a CSV reader needs for text of several lines."""
    return text.splitlines(keepends=True)[1:]


def _number(text: str) -> float | None:
    return float(text) if text else None


def test_every_cell_of_csv_comes_back(data: dict[str, Any]) -> None:
    for table in report_tables(data):
        head, *rows = csv.reader(as_csv(table).splitlines(keepends=True))
        assert len(set(head)) == len(head)
        found = [[cell or None for cell in row] for row in rows]
        if table.name not in ("summary", "iqm", "policies"):  # where an estimate may be missing
            assert found == [[_as_text(cell) for cell in row] for row in flat(table)]
        assert all(len(row) == len(head) for row in rows)


def _as_text(value: Any) -> str | None:
    return None if value in (None, "") else str(value)


def test_an_estimate_that_is_missing_leaves_three_cells() -> None:
    rows = [{"a": {"mean": 1.5, "low": None, "high": None}, "b": 2}, {"a": None, "b": 3}]
    text = as_csv(Table("x", "X", {"a": "score", "b": "n"}, rows))
    assert text == "score,score low,score high,n\n1.5,,,2\n,,,3\n"


def cells(line: str) -> list[str]:
    """Of a row; ampersands in text are escaped."""
    return re.split(r"(?<!\\) & ", line.removesuffix(" \\\\"))


def test_tex_is_balanced_and_has_the_numbers_of_the_page(
    runs: Path, data: dict[str, Any], tmp_path: Path
) -> None:
    texts = written(runs, tmp_path, "tex")
    assert sorted(texts) == sorted(NAMES)
    for table in report_tables(data):
        lines = texts[table.name].splitlines()
        body = [line for line in lines if not line.startswith("%")]
        align = re.fullmatch(r"\\begin\{tabular\}\{((?:[lr]|p\{0\.4\\linewidth\})+)\}", body[0])
        assert align is not None
        columns = re.sub(r"p\{.*?\}", "l", align[1])
        assert len(columns) == len(table.columns)
        assert [body[1], body[3], *body[-2:]] == [
            "\\toprule", "\\midrule", "\\bottomrule", "\\end{tabular}",
        ]  # fmt: skip
        bare = "\n".join(body).replace("\\\\", "").replace("\\{", "").replace("\\}", "")
        assert bare.count("{") == bare.count("}") and bare.count("tabular") == 2 + bare.count(
            "textbackslash{}end"
        )
        assert all(ord(letter) >= 32 for line in body for letter in line)
        assert len(body) == 6 + len(table.rows)
        for line, row in zip(body[4:-2], table.rows, strict=True):
            assert len(cells(line)) == len(table.columns) and line.endswith(" \\\\")
            assert line[0] not in "[*"
            for cell, (key, kind) in zip(
                cells(line), zip(table.columns, columns, strict=True), strict=True
            ):
                value = row.get(key)
                if kind == "r" and value is not None:
                    expected = list(value.values()) if isinstance(value, dict) else [value]
                    known = [each for each in expected if isinstance(each, int | float)]
                    shown = list(map(float, re.findall(r"\$([-.\d]+)\$", cell)))
                    assert shown == pytest.approx(known, rel=1e-3)


def test_text_stays_text_in_tex() -> None:
    shown = escaped(NASTY)
    assert shown == (
        r"\textbackslash{}end\{tabular\} 100\% of \$x\_1\textasciicircum{}2\$ \& "
        r"\{\#\textasciitilde{}\} \textless{}a\textbar{}b\textgreater{} -{}- -{}-{}- {[}{*}] "
    )
    assert escaped("antmaze-medium-play") == "antmaze-medium-play"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "$0$"), (-3.14159, "$-3.142$"), (12345.678, "$12346$"), (1_000_000, "$1000000$"),
        (1.5e-7, r"$1.5 \times 10^{-7}$"), (-2e12, r"$-2 \times 10^{12}$"), (None, "--"), ("", "--"),
        ({"mean": 1.0, "low": 0.5, "high": 2.0}, "$1$ [$0.5$, $2$]"),
        ({"mean": 1.0, "low": None, "high": None}, "$1$"),
        ({"mean": None, "low": None, "high": None}, "--"),
    ],
)  # fmt: skip
def test_numbers_are_as_papers_write_them(value: Any, shown: str) -> None:
    table = Table("x", "X", {"name": "name", "a": "a"}, [{"name": "_", "a": value}])
    assert f"\n\\_ & {shown} \\\\\n" in as_tex(table)


def test_runs_without_a_simulator_have_the_other_tables(tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "runs" / "a", lines=2, evaluations=0)
    run.write_config({**run.config, "command": {"a": 1}, "layout": {"cpu": [{}]}, "chary": None})
    assert sorted(written(tmp_path / "runs", tmp_path, "csv")) == [
        "critics", "reproduction", "summary",
    ]  # fmt: skip
    assert sorted(written(tmp_path / "runs", tmp_path, "tex")) == [
        "critics", "reproduction", "summary",
    ]  # fmt: skip


def test_a_name_without_an_ending_gets_one(tmp_path: Path) -> None:
    synthetic_run(tmp_path / "run", lines=2, evaluations=0)
    out = tmp_path / "new" / "v1.2"
    assert main(["report", str(tmp_path / "run"), "--format", "csv", "--out", str(out)]) == 0
    assert (tmp_path / "new" / "v1.2-summary.csv").is_file()


def test_a_note_stays_a_comment() -> None:
    table = Table("a", "A", {"x": "x"}, [{"x": 1}], note="first\n\\input{second}")
    before, _, _ = as_tex(table).partition("\\begin{tabular}")
    assert all(line.startswith("%") for line in before.splitlines())
