"""What `chary select` found, on the report's page."""

import json
from pathlib import Path
from typing import Any

import pytest

from chary.cli import main
from chary.report.export import selected
from chary.report.page_data import page_data
from chary.report.selection import read_selections
from chary.report.story import read_runs
from tests.synthetic import synthetic_run

FOUND: dict[str, Any] = {
    "outcome": "tied",
    "sentence": "These 2 cannot be told apart; try them: a, <b>.",
    "reasons": [],
    "left_out": ["c diverged"],
    "episodes": 12,
    "rows": [
        {
            "name": name, "place": place, "best": 0.5, "value": value, "value_low": -1.0,
            "value_high": 2.0, "bound": 0.1, "outside": 0.25, "action_error": 0.5, "td_error": None,
        }
        for name, place, value in (("a", 1.0, 1.5), ("<b>", 2.0, None))
    ],
}  # fmt: skip


def written(folder: Path, record: Any = FOUND) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "select.json").write_text(json.dumps(record))
    return folder


def test_the_page_has_the_verdict_and_its_table(tmp_path: Path) -> None:
    synthetic_run(written(tmp_path / "runs") / "a", lines=2, evaluations=1, maze=False)
    page = tmp_path / "page.html"
    assert main(["report", str(tmp_path / "runs"), "--out", str(page)]) == 0
    assert "These 2 cannot be told apart" in page.read_text()
    (found,), problems = read_selections([tmp_path / "runs", tmp_path])
    assert not problems
    data = page_data(*read_runs([tmp_path / "runs"]), [found])
    table = selected(data)
    assert [row["name"] for row in table.rows] == ["a", "<b>"]
    assert table.rows[0]["value"] == {"mean": 1.5, "low": -1.0, "high": 2.0}
    assert table.rows[1]["value"] is None
    assert table.note == FOUND["sentence"]
    assert main(["report", str(tmp_path / "runs"), "--format", "md", "--out", str(page)]) == 0
    assert "## Ranked without a simulator\n\nThese 2 cannot be told apart" in page.read_text()


def test_without_a_selection_there_is_none(tmp_path: Path) -> None:
    assert read_selections([tmp_path]) == ([], [])


@pytest.mark.parametrize("damaged", [[], {"rows": 3}, {**FOUND, "rows": [{"name": "a"}]}, "x"])
def test_a_damaged_file_is_a_warning(tmp_path: Path, damaged: Any) -> None:
    found, (problem,) = read_selections([written(tmp_path, damaged)])
    assert not found
    assert "is not what `chary select` writes" in problem
