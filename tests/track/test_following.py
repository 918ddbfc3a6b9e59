"""What trackers are told: every line of the logs once, by its name, and never at a run's cost."""

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from chary.cli import main
from chary.errors import CharyError
from chary.runs.folder import RunFolder
from chary.track import Point, RunInfo, Status, require
from chary.track.following import Following, status_of

EVALUATION = {
    "step": 10, "episodes": 2, "act": "mode", "return": 3.0, "score": 30.0, "success": None,
    "returns": [2.0, 4.0], "sampled": {"return": 1.0, "returns": [1.0, 1.0]},
}  # fmt: skip


class Notes:
    """A tracker that remembers what it is told."""

    look = "in memory"

    def __init__(self, info: RunInfo):
        self.info = info
        self.points: list[Point] = []
        self.ended: tuple[Status, dict[str, float]] | None = None
        self.fails = False

    def log(self, points: Sequence[Point]) -> None:
        if self.fails:
            raise OSError(28, "No space left on device")
        self.points += points

    def end(self, status: Status, summary: Point) -> None:
        self.ended = status, summary.numbers


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Notes]:
    """Stand-ins for W&B and MLflow, in the order in which they are begun."""
    made: list[Notes] = []

    def begin(info: RunInfo) -> Notes:
        made.append(Notes(info))
        return made[-1]

    for name in ("wandb", "mlflow"):
        monkeypatch.setitem(sys.modules, f"chary.track.{name}", SimpleNamespace(begin=begin))
    return made


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    path = tmp_path / "sweep one" / "x"
    path.mkdir(parents=True)
    config = {"algorithm": "bc", "settings": {"hidden": [8]}, "run": {"steps": 20}, "scaling": {}}
    folder = RunFolder.create(path, config)
    for step in (5, 10):
        folder.append("metrics", {"step": step, "critic/td": step / 10, "policy/q": None})
        folder.append("timing", {"step": step, "steps_per_s": 100.0, "time": 1e9 + step})
    folder.append("evals", EVALUATION)
    return folder


def test_every_line_is_told_once_in_order_under_its_name(
    folder: RunFolder, made: list[Notes]
) -> None:
    with Following(folder, ["wandb"]) as following:
        (notes,) = made
        assert [(p.step, p.time, p.numbers) for p in notes.points] == [
            (5, 1e9 + 5, {"speed/steps_per_s": 100.0}),
            (5, 1e9 + 5, {"critic/td": 0.5}),
            (10, 1e9 + 10, {"speed/steps_per_s": 100.0}),
            (10, 1e9 + 10, {"critic/td": 1.0}),
            (10, 1e9 + 10, {"eval/return": 3.0, "eval/score": 30.0, "eval/sampled/return": 1.0}),
        ]
        with open(folder.path / "metrics.jsonl", "a") as file:
            file.write('{"step": 15, "critic/td": 2.0}\n{"step": 20, "cri')  # not whole yet
            file.flush()
            following.catch_up()
            file.write('tic/td": 3.0}\n')
        following.catch_up()
        following.catch_up()
    assert [(p.step, p.numbers) for p in notes.points[5:]] == [
        (15, {"critic/td": 2.0}),
        (20, {"critic/td": 3.0}),
    ]
    best = {"score": 30.0, "return": 3.0, "step": 10.0}
    scores = {f"{which}/{k}": v for which in ("last", "best") for k, v in best.items()}
    assert notes.ended == ("unfinished", scores)


def test_a_run_is_found_again_by_its_own_id(folder: RunFolder, made: list[Notes]) -> None:
    for damaged in (None, "*", "../../etc", 7):
        folder.write_config({**folder.config, "tracked_as": damaged})
        for _ in range(2):
            with Following(RunFolder.open(folder.path), ["wandb"]):
                pass
    ids = [notes.info.id for notes in made]
    assert ids[::2] == ids[1::2] and len(set(ids)) == 4
    assert all(len(id) == 8 and set(id) <= set("0123456789abcdef") for id in ids)
    info = made[0].info
    assert (info.name, info.project, info.online) == ("x", "sweep-one", False)
    assert info.config == {k: folder.config[k] for k in ("algorithm", "settings", "run")}


def test_a_tracker_that_fails_is_left_out_with_one_warning(
    folder: RunFolder, made: list[Notes]
) -> None:
    with Following(folder, ["wandb", "mlflow"]) as following:
        made[0].fails = True
        folder.append("metrics", {"step": 15, "critic/td": 2.0})
        with pytest.warns(UserWarning, match="wandb failed .*No space left.*--to wandb") as caught:
            following.catch_up()
        folder.append("metrics", {"step": 20, "critic/td": 3.0})
        following.catch_up()
    assert len(caught) == 1
    assert made[0].ended is None and made[1].points[-1].step == 20 and made[1].ended is not None


def test_a_tracker_that_cannot_begin_is_left_out_or_refused(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "chary.track.wandb", SimpleNamespace(begin=Path.as_uri))
    with pytest.warns(UserWarning, match="wandb failed"), Following(folder, ["wandb"]) as following:
        following.catch_up()
    with pytest.raises(CharyError, match="wandb failed"):
        Following(folder, ["wandb"], strict=True).__enter__()


def test_how_far_a_run_has_got(folder: RunFolder) -> None:
    assert status_of(folder) == "unfinished"
    folder.config["run"]["steps"] = 0
    assert status_of(folder) == "finished"
    folder.mark_diverged(10, "critic/td is not a number")
    assert status_of(folder) == "diverged"


def test_packages_that_are_missing_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for name in [name for name in sys.modules if name.split(".")[0] in ("wandb", "mlflow")]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "wandb").mkdir()  # as W&B itself leaves behind
    for name in ("wandb", "mlflow"):
        with pytest.raises(CharyError, match=rf"--track {name} needs .*'chary\[{name}\]'"):
            require([name])


def test_trackio_stays_here_and_has_a_run_once(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a stand-in: trackio itself asks for an older pillow than the tests are pinned to."""
    import os

    runs: list[Any] = []

    class Run(SimpleNamespace):
        def log(self, numbers: dict[str, float], step: int) -> None:
            self.rows.append((step, numbers))

        def finish(self) -> None:
            print("* Run finished.")

        def delete(self) -> None:
            runs.remove(self)

    def init(project: str, name: str, config: dict[str, Any], **options: bool) -> Run:
        assert not any(options.values()) and "TRACKIO_SPACE_ID" not in os.environ
        print(f"* Trackio project initialized: {project}")
        runs.append(Run(name=name, config=config, rows=[]))
        return runs[-1]

    class Api:
        def runs(self, project: str) -> list[Any]:
            if not runs:
                raise ValueError(f"Project '{project}' does not exist")
            return [*runs]

    module: Any = ModuleType("trackio")
    module.init, module.Api = init, Api
    monkeypatch.setitem(sys.modules, "trackio", module)
    monkeypatch.setenv("TRACKIO_SPACE_ID", "me/there")
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    for _ in range(2):
        with Following(folder, ["trackio"], strict=True) as following:
            assert following.look == ["trackio: `trackio show --project sweep-one`"]
    (run,) = runs
    assert [step for step, _ in run.rows] == [5, 5, 10, 10, 10, 10]
    assert run.rows[-1][1]["best/score"] == 30.0
    assert os.environ["TRACKIO_SPACE_ID"] == "me/there"
    assert capsys.readouterr().out == ""


def test_chary_track_writes_event_files(folder: RunFolder, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    out = StringIO()
    for _ in range(2):
        command = ["track", str(folder.path.parent), "--to", "tensorboard"]
        with redirect_stdout(out):
            assert main([*command, "--where", str(tmp_path / "w")]) == 0
    assert "1 run passed on." in out.getvalue() and f"--logdir {tmp_path / 'w'}`" in out.getvalue()
    (there,) = (tmp_path / "w").iterdir()
    events = EventAccumulator(str(there))
    events.Reload()
    found = [(e.step, e.wall_time, e.value) for e in events.Scalars("critic/td")]
    assert found == [(5, 1e9 + 5, 0.5), (10, 1e9 + 10, 1.0)]
    assert [e.value for e in events.Scalars("best/score")] == [30.0]
    assert b'"hidden"' in events.Tensors("config")[0].tensor_proto.string_val[0]
    assert main(["track", str(tmp_path / "w"), "--to", "tensorboard"]) == 2
