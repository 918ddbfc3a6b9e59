"""The demonstration, shortened."""

from pathlib import Path

import pytest

from chary.algos import ALGORITHMS
from chary.cli import demo_run as demo
from chary.data.sources import collected
from chary.report.health import examine
from chary.report.story import read_run


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CHARY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(collected.TRANSITIONS, "pointmaze-umaze", 3_000)
    monkeypatch.setattr(demo, "MSG_STEPS", 10)  # just past the warm-up
    monkeypatch.setattr(demo, "EPISODES", 3)
    monkeypatch.setattr(demo, "SHORT", {"eval_episodes": 1, "final_episodes": 2})
    monkeypatch.setattr(demo, "BC_SETTINGS", {**demo.BC_SETTINGS, "steps": 20, "log_every": 5})
    small = ALGORITHMS["msg"].presets["small"] | {"members": 2, "hidden": (8,), "warmup_steps": 5}
    monkeypatch.setitem(ALGORITHMS["msg"].presets, "small", small)


@pytest.mark.usefixtures("short", "jobs_here")
@pytest.mark.long
def test_the_demo_compares_data_cloning_and_msg_and_draws_them(tmp_path: Path) -> None:
    rows, figure, report = demo.run_demo(tmp_path / "out", seed=0)
    assert [row["name"] for row in rows] == ["data", "bc", "msg"]
    for row in rows:
        assert 0.0 <= row["success"] <= 1.0
    assert figure.stat().st_size > 20_000
    # The report has what training kept for it: the data, and what the critics thought.
    story = read_run(tmp_path / "out" / "msg-seed0")
    health = examine(story)
    assert story.data["maze"] and story.data["transitions"] == 3_000 and story.warnings == []
    assert health and health.bounds == pytest.approx((-400.0, 2.0)) and health.beta == -4.0
    page = report.read_text()
    assert "bc-seed0" in page and "msg-seed0" in page and "Plotly" in page
    again, _, _ = demo.run_demo(tmp_path / "out", seed=0)  # complete runs are used again
    assert again[2]["return"] == rows[2]["return"]
