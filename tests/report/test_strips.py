"""Pictures of an episode, on the report's page."""

import base64
import os
from pathlib import Path

from chary.report.page_data import page_data
from chary.report.story import read_runs
from chary.report.strips import MOST_BYTES, PNG
from tests.synthetic import synthetic_run


def test_a_strip_in_the_run_folder_is_shown(tmp_path: Path) -> None:
    for name in ("a", "b"):
        synthetic_run(tmp_path / name, lines=2, evaluations=1, maze=False)
    (tmp_path / "b" / "strip.png").write_bytes(PNG + b"picture")
    (strip,) = page_data(*read_runs([tmp_path]))["strips"]
    assert strip["run"] == "b"
    assert base64.b64decode(strip["picture"]) == PNG + b"picture"


def test_what_is_no_picture_is_a_warning(tmp_path: Path) -> None:
    for name in ("html", "large", "pipe"):
        synthetic_run(tmp_path / name, lines=2, evaluations=1, maze=False)
    (tmp_path / "html" / "strip.png").write_text("<script>")
    (tmp_path / "large" / "strip.png").write_bytes(PNG + bytes(MOST_BYTES))
    os.mkfifo(tmp_path / "pipe" / "strip.png")
    data = page_data(*read_runs([tmp_path]))
    assert data["strips"] == []
    assert {warning["run"] for warning in data["warnings"]} == {"html", "large", "pipe"}
