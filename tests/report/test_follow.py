"""Runs while they train: they appear, go on, fall silent, are cut back and resumed, or are torn."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from chary.report import follow, page_data
from chary.report.follow import Follower
from chary.report.story import RunStory
from chary.runs.folder import RunFolder

STEPS, EVERY = 1_000, 100


@pytest.fixture(autouse=True)
def _looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request looks at the disk."""
    monkeypatch.setattr(follow, "OFTEN", 0.0)
    monkeypatch.setattr(follow, "SHARE", 1.0)


def new_run(path: Path) -> RunFolder:
    path.mkdir(parents=True)
    run = {"seed": 0, "steps": STEPS}
    return RunFolder.create(path, {"algorithm": "msg", "run": run, "dataset": {"name": "tiny"}})


def log(folder: RunFolder, *steps: int) -> None:
    """Log lines of ten seconds each."""
    for step in steps:
        folder.append("metrics", {"step": step, "critic/td": 1.0 / step})
        folder.append("timing", {"step": step, "steps_per_s": EVERY / 10.0, "time": 0.0})


def news(follower: Follower, since: int = 0) -> dict[str, Any]:
    found = follower.changes(since)
    assert found is not None
    json.dumps(found, allow_nan=False)
    return {**found, "changed": {run["name"]: run for run in found["changed"]}}


def state(follower: Follower, name: str) -> str:
    return news(follower)["changed"][name]["progress"]["state"]


def test_only_what_has_changed_is_told(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    empty = news(follower)
    assert empty["names"] == []
    assert follower.changes(empty["news"]) is None

    first, second = new_run(tmp_path / "a"), new_run(tmp_path / "deeper" / "b")
    both = news(follower, empty["news"])
    assert list(both["changed"]) == both["names"] == ["a", "deeper/b"]
    assert follower.changes(both["news"]) is None

    log(second, 100)
    one = news(follower, both["news"])
    assert list(one["changed"]) == ["deeper/b"] and one["names"] == ["a", "deeper/b"]
    assert one["changed"]["deeper/b"]["step"] == 100

    shutil.rmtree(first.path)
    gone = news(follower, one["news"])
    assert gone["names"] == ["deeper/b"] and gone["changed"] == {}
    assert list(news(follower, 10**9)["changed"]) == ["deeper/b"]  # a page of an earlier server


def test_nothing_is_read_again_that_has_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [new_run(tmp_path / str(i)) for i in range(5)]
    read: list[str] = []
    original = follow.read_run

    def counted(path: Path, *, name: str) -> Any:
        read.append(name)
        return original(path, name=name)

    monkeypatch.setattr(follow, "read_run", counted)
    follower = Follower(tmp_path)
    for _ in range(3):
        follower.changes(0)
    assert read == ["0", "1", "2", "3", "4"]
    log(runs[3], 100)
    for _ in range(3):
        follower.changes(0)
    assert read[5:] == ["3"]


def test_a_run_that_is_cut_back_and_resumed_is_read_anew(tmp_path: Path) -> None:
    run = new_run(tmp_path / "a")
    log(run, 100, 200, 300, 400)
    follower = Follower(tmp_path)
    assert news(follower)["changed"]["a"]["step"] == 400
    run.cut_back(200)
    assert news(follower)["changed"]["a"]["step"] == 200
    log(run, 300, 400, 500)
    assert news(follower)["changed"]["a"]["step"] == 500


def test_states(tmp_path: Path) -> None:
    now = 0.0
    run = new_run(tmp_path / "a")
    log(run, 100, 200)
    follower = Follower(tmp_path, clock=lambda: now)
    now = os.stat(run.path / "timing.jsonl").st_mtime + 59.0
    told = news(follower)
    progress = told["changed"]["a"]["progress"]
    assert progress["state"] == "training"
    assert progress["left"] == pytest.approx(80.0)  # 800 steps at ten a second
    now += 2.0  # nothing was written; only time has passed
    quiet = news(follower, told["news"])["changed"]["a"]["progress"]
    assert quiet["state"] == "silent" and quiet["left"] is None
    log(run, *range(300, STEPS, EVERY))
    now = os.stat(run.path / "timing.jsonl").st_mtime
    assert state(follower, "a") == "training"
    log(run, STEPS)
    assert state(follower, "a") == "done"
    run.mark_diverged(STEPS, "critic/td is not a number")
    assert state(follower, "a") == "diverged"


def test_a_run_with_slow_lines_is_given_more_time(tmp_path: Path) -> None:
    run = new_run(tmp_path / "a")
    run.append("timing", {"step": 100, "steps_per_s": 1.0})  # a line every hundred seconds
    written = os.stat(run.path / "timing.jsonl").st_mtime
    assert state(Follower(tmp_path, clock=lambda: written + 290.0), "a") == "training"
    assert state(Follower(tmp_path, clock=lambda: written + 310.0), "a") == "silent"


def test_a_run_that_would_take_for_ever_has_no_time_left_to_tell(tmp_path: Path) -> None:
    run = new_run(tmp_path / "a")
    run.append("timing", {"step": 100, "steps_per_s": 1e-320})
    assert news(Follower(tmp_path))["changed"]["a"]["progress"]["left"] is None


def test_a_look_that_fails_is_taken_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_run(tmp_path / "a")
    follower = Follower(tmp_path)

    def failing(*_: Any) -> Any:
        raise RuntimeError

    with monkeypatch.context() as broken:
        broken.setattr(follow, "overview", failing)
        with pytest.raises(RuntimeError):
            follower.changes(0)
    told = news(follower)
    assert told["names"] == list(told["changed"]) == ["a"]


def test_torn_and_foreign_files_cost_a_warning(tmp_path: Path) -> None:
    run = new_run(tmp_path / "a")
    log(run, 100)
    with open(run.path / "metrics.jsonl", "ab") as file:
        file.write(b'{"step": 200, "critic')
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "config.json").write_text("[]")
    follower = Follower(tmp_path)
    told = news(follower)
    assert told["names"] == ["a"]
    foreign, torn = told["warnings"]
    assert foreign["run"] == "" and "b/config.json" in foreign["message"]
    assert torn["run"] == "a" and "metrics.jsonl: a line is damaged" in torn["message"]
    with pytest.warns(UserWarning, match="kept in aside"):
        run.cut_back(100)  # what a resumed run does first
    assert news(follower)["warnings"] == [foreign]


def test_health_is_read_again_only_where_it_may_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run(tmp_path / "a")
    examined: list[str] = []
    original = follow.examine

    def counted(story: RunStory) -> Any:
        examined.append(story.name)
        return original(story)

    monkeypatch.setattr(follow, "examine", counted)
    follower = Follower(tmp_path)
    (run.path / "diagnostics").mkdir()
    (run.path / "diagnostics" / "100.npz").write_bytes(b"PK torn")
    warned = news(follower)["warnings"]
    assert len(warned) == 1 and "diagnostics/100.npz" in warned[0]["message"]
    log(run, 100)
    assert news(follower)["warnings"] == warned and examined == ["a"]
    os.remove(run.path / "diagnostics" / "100.npz")
    assert news(follower)["warnings"] == [] and examined == ["a", "a"]


def test_curves_are_thinned_anew_when_runs_appear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_data, "POINTS", 150)
    monkeypatch.setattr(page_data, "FEWEST_POINTS", 5)
    log(new_run(tmp_path / "a"), *range(10, STEPS, 10))
    follower = Follower(tmp_path)
    alone = news(follower)
    assert len(alone["changed"]["a"]["metrics"]["step"]) == alone["thinned"]["curves"] == 75
    log(new_run(tmp_path / "b"), 10)
    both = news(follower, alone["news"])
    assert list(both["changed"]) == ["a", "b"]
    assert len(both["changed"]["a"]["metrics"]["step"]) == both["thinned"]["curves"] == 37


def test_a_folder_that_is_itself_a_run(tmp_path: Path) -> None:
    new_run(tmp_path / "a")
    assert news(Follower(tmp_path / "a"))["names"] == ["a"]


def test_looking_takes_a_small_share_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "SHARE", 0.1)
    clock = [0.0]
    monkeypatch.setattr(follow.time, "monotonic", lambda: clock[0])
    looks: list[float] = []

    def slow(_: Path) -> list[Path]:
        looks.append(clock[0])
        clock[0] += 2.0  # hundreds of runs on a slow disk
        return []

    monkeypatch.setattr(follow, "find_runs", slow)
    follower = Follower(tmp_path)
    while clock[0] < 100.0:
        follower.changes(0)
        clock[0] += 1.0
    assert 4 <= len(looks) <= 6


def test_many_runs_are_shown_as_they_are_read_and_each_has_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "LOOK", 0.0)  # a folder a look
    runs = {name: new_run(tmp_path / name) for name in "abc"}
    follower = Follower(tmp_path)
    told = [news(follower) for _ in "abc"]
    assert [each["names"] for each in told] == [["a"], ["a", "b"], ["a", "b", "c"]]
    assert [each["unread"] for each in told] == [2, 1, 0]
    for run in runs.values():
        log(run, EVERY)
    assert [news(follower)["changed"]["c"]["step"] for _ in "abc"] == [0, 0, EVERY]
