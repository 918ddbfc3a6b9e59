"""Runs that learn in their task: the sentence, the curves, the maps, and what damage costs."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chary.cli import main
from chary.report import markdown, online
from chary.report.compare import group_runs
from chary.report.follow import Follower
from chary.report.health import return_bounds
from chary.report.page_data import page_data
from chary.report.story import read_run, read_runs
from chary.runs.folder import RunFolder
from tests.synthetic import acting_run, synthetic_run


@pytest.fixture(scope="module")
def acting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return acting_run(tmp_path_factory.mktemp("acting") / "a").path


@pytest.fixture(scope="module")
def found(acting: Path) -> dict[str, Any]:
    return page_data([read_run(acting)])


def damaged(path: Path, **changes: Any) -> None:
    """Another run's config."""
    folder = RunFolder.open(path)
    folder.write_config({**folder.config, "online": {**folder.config["online"], **changes}})


def sentence(path: Path) -> str:
    (run,) = page_data([read_run(path)])["runs"]
    return run["online"]["sentence"]


def test_the_result_is_one_sentence(found: dict[str, Any]) -> None:
    result = found["runs"][0]["online"]
    assert result["sentence"] == (
        "Success went from 0% to 100% (regret 0.58, lowest evaluation 0% at step 0); 66.7% of 60 acted "
        "episodes succeeded; the guard brought pessimism back in 16.7% of them."
    )
    assert result["regret"] == pytest.approx(1 - np.mean([0, 0, 0.25, 0.5, 0.75, 1.0]), abs=1e-5)
    assert found["warnings"] == []


def test_a_task_without_success_is_told_by_its_return(tmp_path: Path) -> None:
    acting_run(tmp_path, success=False, guarded=(0, 0))
    assert sentence(tmp_path) == (
        "Return went from 0 to 1 (lowest evaluation 0 at step 0); 60 acted episodes; the guard never "
        "brought pessimism back."
    )


def test_what_is_not_known_is_not_said(tmp_path: Path) -> None:
    folder = acting_run(tmp_path, guarded=(0, 0), episodes=5)
    damaged(tmp_path, guard=False)
    assert sentence(tmp_path).endswith("; 80% of 5 acted episodes succeeded; the guard was off.")
    damaged(tmp_path, guard=True, parent=None)
    assert sentence(tmp_path).endswith("; 80% of 5 acted episodes succeeded.")
    lines = (tmp_path / "evals.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "evals.jsonl").write_text(lines[0])
    assert sentence(tmp_path).startswith("Success was 0% at step 0; 80% of")
    (tmp_path / "evals.jsonl").unlink()
    assert sentence(tmp_path) == "The policy was not evaluated; 80% of 5 acted episodes succeeded."
    folder.mark_diverged(250, "NaN")
    assert sentence(tmp_path).endswith("; then training diverged.")


def test_acted_episodes_are_a_mean_of_the_last_twenty(found: dict[str, Any], acting: Path) -> None:
    result = found["runs"][0]["online"]
    won = np.array([e["success"] for e in RunFolder.open(acting).read("episodes")], float)
    expected = [won[max(0, i - 19) : i + 1].mean() for i in range(60)]
    assert result["acted"]["value"] == pytest.approx(expected, abs=1e-6)
    assert result["acted"]["step"][:6] == [246, 247, 248, 249, 250, 496]
    assert result["evaluations"]["step"] == [0, 500, 1000, 1500, 2000, 2500, 3000]


def test_the_guard_is_up_from_one_episode_to_another(found: dict[str, Any], tmp_path: Path) -> None:
    # Up from the 21st episode to the 31st, which are the first of the 5th and 7th five.
    assert found["runs"][0]["online"]["guarded"] == [[1246, 1746]]
    acting_run(tmp_path / "to the end", guarded=(50, 60))
    assert page_data([read_run(tmp_path / "to the end")])["runs"][0]["online"]["guarded"] == [
        [2746, 3000]
    ]


def test_every_quarter_has_its_own_places(found: dict[str, Any]) -> None:
    maps = found["runs"][0]["online"]["maps"]
    assert [(m["from"], m["to"]) for m in maps] == [
        (1, 750), (751, 1500), (1501, 2250), (2251, 3000)
    ]  # fmt: skip
    for quarter, panel in enumerate(maps):  # the run goes along the diagonal
        assert len(panel["x"]) == 750 and panel["x"] == panel["y"]
        assert panel["x"][0] == pytest.approx(1.25 * quarter, abs=0.01)
        assert panel["x"][-1] == pytest.approx(1.25 * (quarter + 1), abs=0.01)


def test_a_run_on_its_way_has_quarters_without_places(tmp_path: Path) -> None:
    folder = acting_run(tmp_path)
    folder.cut_back(1000)
    maps = page_data([read_run(tmp_path)])["runs"][0]["online"]["maps"]
    assert [len(panel["x"]) for panel in maps] == [750, 250, 0, 0]
    assert "0% of 20 acted episodes" in sentence(tmp_path)


def test_without_a_maze_there_is_no_map(tmp_path: Path) -> None:
    folder = acting_run(tmp_path)
    folder.write_data({**folder.data(), "maze": None})
    assert page_data([read_run(tmp_path)])["runs"][0]["online"]["maps"] is None


def test_long_runs_are_thinned_over_all_environments(tmp_path: Path) -> None:
    acting_run(tmp_path, episodes=1000, length=20, files=4, environments=4)
    result = online.online_data(read_run(tmp_path), 40)
    assert result is not None
    places = [x for panel in result["maps"] for x in panel["x"]]
    assert 200 < len(places) <= 400
    assert len(result["acted"]["step"]) == 200 and result["acted"]["step"][-1] == 20_000
    flutter = read_run(tmp_path)
    files = online._files(flutter, online._stride(flutter, 400))
    steps = np.concatenate([rows.steps for rows in files])
    assert len(steps) == len(places) and set((steps % 4).tolist()) == {0, 1, 2, 3}
    assert len(set(np.diff(steps).tolist())) == 1  # evenly, also from one file to the next
    for number, episode in enumerate(flutter.episodes):
        episode["guard"] = number % 2 == 0
    spans = online.online_data(flutter, 10)
    assert spans and 1 <= len(spans["guarded"]) <= 50


def test_offline_runs_are_told_apart_and_have_no_such_part(tmp_path: Path) -> None:
    synthetic_run(tmp_path / "offline", lines=30, evaluations=2)
    for seed, name in enumerate(("a", "b")):
        acting_run(tmp_path / name, seed=seed)
        damaged(tmp_path / name, parent=f"runs/parent-{seed}")
    acting_run(tmp_path / "mean", seed=2)
    damaged(tmp_path / "mean", explore="mean")
    groups = group_runs(read_runs([tmp_path])[0])
    assert {group.method: len(group.runs) for group in groups} == {
        "msg (explore ucb, training fine-tuned)": 2,
        "msg (explore mean, training fine-tuned)": 1,
        "msg (training offline)": 1,
    }
    page = page_data(*read_runs([tmp_path]))
    assert [run["name"] for run in page["runs"] if run["online"]] == ["a", "b", "mean"]
    assert [group["online"] for group in page["groups"]] == [True, True, False]


def test_the_warm_up_has_no_metrics_of_critics(found: dict[str, Any]) -> None:
    (run,) = found["runs"]
    assert run["metrics"]["critic/td"][:2] == [None, 0.5] and run["metrics"]["online/std"][0] > 0
    assert run["health"]["step"] == [500, 1000, 1500, 2000, 2500, 3000]


def test_rewards_of_the_task_widen_what_is_possible(tmp_path: Path) -> None:
    folder = acting_run(tmp_path, success=False)
    data = folder.data()
    folder.write_data({**data, "rewards": {**data["rewards"], "going_on": [0.0, 0.0]}})
    # The task pays 1, which the data never saw.
    assert return_bounds(read_run(tmp_path)) == pytest.approx((0.0, 100.0))
    folder.write_config({key: v for key, v in folder.config.items() if key != "online"})
    assert return_bounds(read_run(tmp_path)) == (0.0, 0.0)


def _rows(**changes: Any) -> Any:
    def change(path: Path) -> None:
        file = path / "online" / "1500.npz"
        with np.load(file) as arrays:
            kept = dict(arrays)
        np.savez(file, **{name: changes.get(name, lambda v: v)(v) for name, v in kept.items()})

    return change


def nine_times(array: np.ndarray) -> np.ndarray:
    return np.repeat(array, 9, axis=0)


ROWS = ("observations", "rewards", "terminals", "timeouts")
DAMAGE: dict[str, tuple[str, Any]] = {
    "torn": ("online/1500.npz", lambda p: (p / "online" / "1500.npz").write_bytes(b"PK\x03\x04")),
    "missing": (
        "online: the rows of steps 1,001 to 1,500",
        lambda p: (p / "online" / "1500.npz").unlink(),
    ),
    "other lengths": ("online/1500.npz", _rows(rewards=lambda v: v[1:])),
    "one column": ("online/1500.npz", _rows(observations=lambda v: v[:, :1])),
    "places that are no numbers": ("online/1500.npz", _rows(observations=lambda v: v * np.nan)),
    "infinite rewards": ("online/1500.npz", _rows(rewards=lambda v: v / 0.0)),
    "ends in words": ("online/1500.npz", _rows(terminals=lambda v: v.astype(str))),
    "more rows than steps": ("online/1500.npz", _rows(**dict.fromkeys(ROWS, nine_times))),
    "a foreign file": ("not from a run", lambda p: (p / "online" / "mine.txt").write_text("")),
    "no episodes": ("episodes.jsonl", lambda p: (p / "episodes.jsonl").unlink()),
    "a torn episode": (
        "episodes.jsonl",
        lambda p: (p / "episodes.jsonl").write_text(
            (p / "episodes.jsonl").read_text() + '{"step": 3000, "return": "much"}\n'
        ),
    ),
    "settings that are a list": ("config.json", lambda p: _with_config(p, online=[1])),
}  # fmt: skip


def _with_config(path: Path, **changes: Any) -> None:
    folder = RunFolder.open(path)
    folder.write_config({**folder.config, **changes})


@pytest.mark.parametrize("case", DAMAGE)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_damage_costs_one_warning_in_report_and_watch(tmp_path: Path, case: str) -> None:
    begins, damage = DAMAGE[case]
    acting_run(tmp_path / "a")
    damage(tmp_path / "a")
    page = page_data(*read_runs([tmp_path]))
    json.dumps(page, allow_nan=False)
    (warning,) = page["warnings"]
    assert warning["message"].startswith(begins)
    live = Follower(tmp_path).changes(0)
    json.dumps(live, allow_nan=False)
    assert live and live["warnings"] == page["warnings"]
    if begins.startswith("online"):
        maps = page["runs"][0]["online"]["maps"]
        assert [len(panel["x"]) for panel in maps] == [750, 250, 750, 750]


def test_rows_that_a_checkpoint_needs_are_missed(tmp_path: Path) -> None:
    acting_run(tmp_path)
    (tmp_path / "checkpoints" / "3000").mkdir(parents=True)
    assert page_data([read_run(tmp_path)])["warnings"] == []
    (tmp_path / "online" / "3000.npz").unlink()
    (warning,) = page_data([read_run(tmp_path)])["warnings"]
    assert warning["message"] == "online: the rows of steps 2,501 to 3,000 are missing."


def test_a_live_page_reads_each_file_of_rows_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = acting_run(tmp_path / "a")
    monkeypatch.setattr("chary.report.follow.OFTEN", 0.0)
    monkeypatch.setattr("chary.report.follow.SHARE", 1.0)
    follower = Follower(tmp_path)
    first = follower.changes(0)
    assert first and len(first["datasets"]) == 1 and first["changed"][0]["online"]["maps"]
    before = online._rows.cache_info().misses
    folder.append("metrics", {"step": 3100, "online/std": 1.0})
    second = follower.changes(first["news"])
    assert second and second["changed"][0]["metrics"]["online/std"][-1] == 1.0
    assert online._rows.cache_info().misses == before
    folder.cut_back(2500)
    third = follower.changes(second["news"])
    assert third and len(third["changed"][0]["online"]["maps"][3]["x"]) == 250


def test_markdown_and_tables_tell_it_too(acting: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.md"
    assert main(["report", str(acting), "--format", "md", "--out", str(out)]) == 0
    text = out.read_text()
    assert "- `a`: Success went from 0% to 100%" in text and "| steps/s |" in text
    assert "report-online.png" in re.findall(r"!\[.*\]\((.*)\)", text)
    assert main(["report", str(acting), "--format", "csv", "--out", str(tmp_path / "r.csv")]) == 0
    line = (tmp_path / "r-online.csv").read_text().splitlines()[1]
    assert line == "a,success,0.0,1.0,0.583333,0.0,60,0.666667,0.166667"
    assert "environment steps" in (tmp_path / "r-summary.csv").read_text()


def test_figures_name_the_steps_of_their_runs(acting: Path, tmp_path: Path) -> None:
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    synthetic_run(tmp_path / "offline", lines=3, evaluations=2)
    offline = read_run(tmp_path / "offline")
    for stories, expected in (
        ([read_run(acting)], "environment steps"),
        ([offline], "gradient steps"),
        ([read_run(acting), offline], "gradient or environment steps"),
    ):
        data = page_data(stories)
        for draw in (markdown._curves, markdown._health):
            labels = {axis.get_xlabel() for axis in draw(data).axes}
            assert labels == {expected}
        plt.close("all")
    assert markdown._online(page_data([offline])) is None
