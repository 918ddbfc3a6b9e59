"""The page: what is on it, that it needs nothing else, and that names stay names."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chary.cli import main
from chary.report import markdown
from chary.report import page_data as module
from chary.report.compare import group_runs
from chary.report.page import page
from chary.report.page_data import page_data
from chary.report.story import read_run, read_runs
from tests.synthetic import synthetic_run

EVIL = '<script>alert("x")</script><img src=x onerror=alert(1)>'


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two settings of MSG in two seeds on two datasets, and cloning on one."""
    home = tmp_path_factory.mktemp("runs")
    for dataset in ("left", "right"):
        for members in (4, 8):
            for seed in (0, 1):
                path = home / f"{dataset}-{members}-{seed}"
                changes = {"members": members, "alpha": {"left": 0.1, "right": 0.5}[dataset]}
                synthetic_run(
                    path, seed=seed, lines=20, evaluations=3, dataset=dataset, settings=changes
                )
    synthetic_run(
        home / "bc", lines=20, evaluations=3, dataset="left", algorithm="bc", ensemble=None
    )
    return home


@pytest.fixture(scope="module")
def data(runs: Path) -> dict[str, Any]:
    return page_data(*read_runs([runs]))


def test_seeds_are_grouped_and_differences_named(data: dict[str, Any]) -> None:
    lines = {(g["method"], g["dataset"]): g for g in data["groups"]}
    # What differs only between datasets (alpha) makes no other method.
    assert set(lines) == {
        ("bc", "left"),
        ("msg (members 4)", "left"),
        ("msg (members 8)", "left"),
        ("msg (members 4)", "right"),
        ("msg (members 8)", "right"),
    }
    line = lines["msg (members 4)", "left"]
    assert line["changes"] == {"members": "4"} and line["seeds"] == [0, 1]
    assert line["last"]["low"] < line["last"]["mean"] < line["last"]["high"]
    assert line["speed"] == 100.0 and line["seconds"] == 20.0
    assert line["verdict"]["level"] == "good"
    assert lines["bc", "left"]["verdict"]["rule"] == "nothing"


def test_curves_have_bands_over_seeds(data: dict[str, Any]) -> None:
    index = next(i for i, g in enumerate(data["groups"]) if g["method"] == "msg (members 4)")
    curve = data["learning"][index]["score"]
    assert curve["step"] == [666, 1333, 2000] and curve["seeds"] == [2, 2, 2]
    assert all(
        a <= b <= c for a, b, c in zip(curve["low"], curve["mean"], curve["high"], strict=True)
    )
    assert "success" not in data["learning"][index]  # this task knows none


def test_methods_are_compared_on_tasks_that_all_have(data: dict[str, Any], runs: Path) -> None:
    assert data["statistics"]["tasks"] == ["left"]  # cloning was never on the right
    stories, _ = read_runs([path for path in sorted(runs.iterdir()) if path.name != "bc"])
    found = page_data(stories)["statistics"]
    assert found["tasks"] == ["left", "right"] and len(found["methods"]) == 2
    assert found["improvement"][0][0] is None and 0.0 <= found["improvement"][0][1][0] <= 1.0
    assert page_data(stories[:1])["statistics"] is None  # one run is no sample


def test_maps_come_back_from_bytes(data: dict[str, Any], runs: Path) -> None:
    found = next(m for m in data["mazes"] if m["run"] == "left-4-0")
    assert [frame["step"] for frame in found["frames"]] == [666, 1333, 2000]
    low, high = found["limits"]["std"]
    levels = np.frombuffer(base64.b64decode(found["frames"][-1]["std"]), np.uint8)
    with np.load(runs / "left-4-0" / "diagnostics" / "2000.npz") as arrays:
        assert np.allclose(low + levels / 254 * (high - low), arrays["map_std"].ravel(), atol=0.01)
        assert len(found["frames"][-1]["paths"]) == len(arrays["path_lengths"])


def test_long_curves_are_thinned_and_said_to_be(tmp_path: Path, monkeypatch: Any) -> None:
    synthetic_run(tmp_path, lines=900, evaluations=1, maze=False)
    found = page_data([read_run(tmp_path)])
    steps = found["runs"][0]["metrics"]["step"]
    assert len(steps) == found["thinned"]["curves"] == module.MOST_POINTS
    assert (steps[0], steps[-1]) == (100, 90_000)
    monkeypatch.setattr(module, "POINTS", 11 * 50)
    assert len(page_data([read_run(tmp_path)])["runs"][0]["metrics"]["step"]) == 50


def test_the_page_needs_nothing_else(data: dict[str, Any]) -> None:
    text = page(data)
    assert json.loads(_inlined(text)) == data
    # Nothing is fetched: no address in an attribute, a style or an import.
    ours = text.replace(_script_with(text, "plotly.js"), "")
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:|//)|@import|url\(""", ours)
    assert "{{" not in ours.replace(_inlined(text), "")


def test_names_with_html_stay_in_the_data(tmp_path: Path) -> None:
    path = tmp_path / EVIL.replace("/", "|")
    synthetic_run(path, lines=2, evaluations=1, dataset=EVIL, settings={EVIL: EVIL})
    (path / "<b>.txt").write_text("")
    found = page_data([read_run(path)])
    text = page(found)
    assert json.loads(_inlined(text)) == found and found["runs"][0]["dataset"] == EVIL
    assert "<" not in _inlined(text)
    assert text.count("</script>") == page(None).count("</script>")
    assert text.count("<img") == page(None).count("<img")


def test_settings_of_unequal_kinds_can_be_told_apart(tmp_path: Path) -> None:
    values = {"a": [64, 64], "b": None, "c": True, "d": "<i>", "e": 1, "f": 0.5}
    for name, value in values.items():
        synthetic_run(tmp_path / name, lines=1, evaluations=1, settings={"hidden": value})
    methods = [group.method for group in group_runs(read_runs([tmp_path])[0])]
    assert methods == [f"msg (hidden {value})" for value in ("64x64", "unset", "on", "<i>", 1, 0.5)]


def test_a_number_is_the_same_setting_however_it_is_written(tmp_path: Path) -> None:
    values = {"a": (-4, [1, 2]), "b": (-4.0, [1.0, 2.0])}
    for seed, (name, (beta, scales)) in enumerate(values.items()):
        settings = {"beta": beta, "scales": scales, "devices": seed + 1}
        synthetic_run(tmp_path / name, seed=seed, lines=1, evaluations=1, settings=settings)
    (group,) = group_runs(read_runs([tmp_path])[0])
    assert group.method == "msg" and len(group.runs) == 2


def test_the_command_writes_a_page(runs: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "new" / "report.html"
    assert main(["report", str(runs), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"report: {out}\n"
    assert len(json.loads(_inlined(out.read_text()))["runs"]) == 9
    assert main(["report", str(runs), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 9


def test_the_command_writes_markdown_with_figures(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.md"
    assert main(["report", str(runs), "--format", "md", "--out", str(out)]) == 0
    text = out.read_text()
    assert "| msg | members 4 | left | 0 1 |" in text and "Members know where the data ends" in text
    figures = re.findall(r"!\[.*\]\((.*)\)", text)
    names = ("curves", "statistics", "budget", "health")
    assert figures == [f"report-{name}.png" for name in names]
    assert all((tmp_path / name).stat().st_size > 10_000 for name in figures)


def test_a_method_has_one_colour_in_all_figures(data: dict[str, Any]) -> None:
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    colours: dict[str, set[Any]] = {method: set() for method in data["methods"]}
    for draw in (markdown._curves, markdown._statistics, markdown._budget, markdown._health):
        drawn = [line for axis in draw(data).axes for line in axis.get_lines()]
        plt.close("all")
        for line in drawn:
            if line.get_label() in colours:
                colours[line.get_label()].add(line.get_color())
    assert len(colours) == 3 and all(len(found) == 1 for found in colours.values())
    assert len(set.union(*colours.values())) == 3


def test_a_dataset_that_is_called_like_a_broken_formula(tmp_path: Path) -> None:
    synthetic_run(tmp_path / "run", lines=2, evaluations=2, dataset=r"$\frac$")
    out = tmp_path / "report.md"
    assert main(["report", str(tmp_path / "run"), "--format", "md", "--out", str(out)]) == 0


def test_what_cannot_be_reported_is_one_message(tmp_path: Path, capsys: Any) -> None:
    assert main(["report", str(tmp_path / "none")]) == 2
    assert "no such folder" in capsys.readouterr().err
    assert main(["report", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    synthetic_run(tmp_path / "run", lines=1, evaluations=1)
    (tmp_path / "file").write_text("")
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "file" / "x.html")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def _inlined(text: str) -> str:
    return re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[0]


def _script_with(text: str, words: str) -> str:
    return next(s for s in re.findall(r"<script>.*?</script>", text, re.S) if words in s)
