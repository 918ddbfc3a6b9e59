"""The comparison with d3rlpy's baselines, as far as it goes without d3rlpy."""

import argparse
import json
import sys
from pathlib import Path

import pytest

from benchmarks import agree_report
from chary.errors import CharyError


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


def leave_results(work: Path, dataset: str) -> None:
    """Two seeds of IQL by both libraries."""
    for seed, success in enumerate((0.0, 1.0)):
        for library in ("ours", "d3rlpy"):
            file = work / f"{library}-iql-{dataset}-seed{seed}.json"
            file.write_text(json.dumps({"success": success, "score": 3.0, "steps": 8_000}))


def test_only_what_both_have_finished_is_in_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for dataset in ("maze", "hopper"):
        leave_results(tmp_path, dataset)
    (tmp_path / "ours-cql-maze-seed0.json").write_text("{}")
    speed = {"ours_updates_per_s": 100.0, "d3rlpy_updates_per_s": 50.0, "ratio": 2.0}
    (tmp_path / "speed.json").write_text(json.dumps({"iql": speed}))
    names = [("maze", "iql"), ("maze", "cql"), ("hopper", "iql")]
    rows = agree_report.read(tmp_path, names, [0, 1], timed="hopper")
    assert [(row["dataset"], row["algorithm"]) for row in rows] == [names[0], names[2]]
    monkeypatch.setattr(sys, "argv", ["benchmarks/agree.py", "write"])
    agree_report.write(rows, tmp_path / "out", notes=["As measured."])
    page = (tmp_path / "out" / "agree.md").read_text()
    scores = (
        "| iql | 8,000 | 0.00, 1.00 | 0.00, 1.00 | 0.50 ± 0.71 | 0.50 ± 0.71 | within the spread |"
    )
    assert f"| maze {scores} - | - | - |" in page  # its networks were not timed
    assert f"| hopper {scores} 100.00 | 50.00 | 2.00 |" in page
    assert "\n    python benchmarks/agree.py write\n" in page and "As measured." in page
    pinned = (Path(agree_report.__file__).parent / "d3rlpy.txt").read_text()
    assert f"d3rlpy {pinned.split('d3rlpy==')[1].strip()}." in page
    numbers = json.loads((tmp_path / "out" / "agree.json").read_text())
    assert numbers == {"command": "python benchmarks/agree.py write", "rows": rows}
    assert (tmp_path / "out" / "agree.png").stat().st_size > 1_000


def test_before_anything_is_trained_there_is_no_page(tmp_path: Path) -> None:
    rows = agree_report.read(tmp_path, [("maze", "iql")], [0, 1], timed="hopper")
    with pytest.raises(CharyError, match=r"Run `python benchmarks/agree.py train` first"):
        agree_report.write(rows, tmp_path / "out", notes=[])
    assert not (tmp_path / "out").exists()


def test_some_algorithms_may_be_chosen_and_learn_what_d3rlpys_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(Path(agree_report.__file__).parent)
    import agree

    options = argparse.Namespace(
        datasets=[agree.MAZE, agree.HOPPER], algorithms=["cql", "bc"], seeds=[0, 1]
    )
    names = [(agree.MAZE, "bc"), (agree.MAZE, "cql"), (agree.HOPPER, "bc"), (agree.HOPPER, "cql")]
    assert agree.chosen(options) == names
    assert len(agree.cases(options)) == len(names) * 2 * 2  # seeds, libraries
    for dataset in options.datasets:
        config, run = agree.configure("bc", dataset)
        assert (config.loss, run.steps) == ("squared", agree.STEPS[dataset]["bc"])
        assert agree.configure("cql", dataset)[0].warmup_steps == 0
