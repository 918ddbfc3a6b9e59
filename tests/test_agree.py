"""The comparison with d3rlpy's baselines, as far as it goes without d3rlpy."""

import json
from pathlib import Path

import pytest

from benchmarks import agree_report


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([40.0, 50.0, 60.0], [45.0, 55.0, 65.0], "within the spread"),
        ([40.0, 41.0, 42.0], [50.0, 51.0, 52.0], "worse"),
        ([50.0, 51.0, 52.0], [40.0, 41.0, 42.0], "better"),
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], "within the spread"),
    ],
)
def test_means_are_judged_by_the_seeds_spread(
    ours: list[float], theirs: list[float], expected: str
) -> None:
    assert agree_report.verdict(ours, theirs) == expected


def test_only_what_both_have_finished_is_in_the_table(tmp_path: Path) -> None:
    for seed, success in enumerate((0.0, 1.0)):
        for library in ("ours", "d3rlpy"):
            file = tmp_path / f"{library}-iql-maze-seed{seed}.json"
            file.write_text(json.dumps({"success": success, "score": 3.0, "steps": 8_000}))
    (tmp_path / "ours-cql-maze-seed0.json").write_text("{}")
    speed = {"ours_updates_per_s": 100.0, "d3rlpy_updates_per_s": 50.0, "ratio": 2.0}
    (tmp_path / "speed.json").write_text(json.dumps({"iql": speed}))
    rows = agree_report.read(tmp_path, [("maze", "iql"), ("maze", "cql")], [0, 1])
    assert [row["algorithm"] for row in rows] == ["iql"]
    agree_report.write(rows, tmp_path / "out", notes=["As measured."])
    page = (tmp_path / "out" / "agree.md").read_text()
    assert "| maze | iql | 8,000 | 0.00, 1.00 | 0.00, 1.00 | 0.50 ± 0.71 | 0.50 ± 0.71 |" in page
    assert "| within the spread | 100.00 | 50.00 | 2.00 |" in page and "As measured." in page
    assert (tmp_path / "out" / "agree.png").stat().st_size > 1_000
