"""The watch over workers: what is begun again, what has failed, and how a sweep is stopped."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from chary.errors import CharyError
from chary.runs.folder import RunFolder
from chary.tune import sweep, workers
from chary.tune.process import End, how, log_of
from chary.tune.sweep import Group
from chary.tune.where import Where
from tests.tune.test_sweep import data, specs_of

__all__ = ["data"]


class Pretended:
    """An executor whose workers end at once, in a way that is told."""

    def __init__(self, outcome: Callable[[Group], int]):
        self.outcome = outcome
        self.begun: list[int] = []
        self.waiting: list[Group] = []
        self.calls: list[str] = []

    def begin(self, group: Group) -> bool:
        if self.waiting:
            return False
        self.begun += [cell.number for cell in group]
        self.waiting.append(group)
        return True

    def ended(self) -> list[End]:
        groups, self.waiting = self.waiting, []
        codes = [self.outcome(group) for group in groups]
        return [End(group, code, how(code)) for group, code in zip(groups, codes, strict=True)]

    def stop(self) -> None:
        self.calls.append("stop")

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def planned(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> sweep.Sweep:
    monkeypatch.setattr(workers, "LOOK_SECONDS", 0.0)
    return sweep.create(tmp_path, specs_of(data, tmp_path))


def watch(
    planned: sweep.Sweep, outcome: Callable[[Group], int], monkeypatch: pytest.MonkeyPatch
) -> tuple[Pretended, BaseException | None]:
    """What was begun, and how it ended."""
    executor, problem = Pretended(outcome), None
    monkeypatch.setattr(workers, "_executor", lambda *_: executor)
    try:
        workers.train_all(planned, planned.cells, Where())
    except (CharyError, KeyboardInterrupt) as error:
        problem = error
    assert executor.calls[-1] == "close"
    return executor, problem


def advance(group: Group) -> None:
    """Its run gets on by a log line, and diverges after some of them."""
    (cell,) = group
    cell.folder.mkdir(exist_ok=True)
    folder = RunFolder.create(cell.folder, {"algorithm": "msg"})
    step = cell.step + 10
    folder.append("timing", {"step": step, "steps_per_s": 1.0, "time": 0.0})
    if step >= 10 * (workers.KILLS + 2):
        folder.mark_diverged(step, "it is done")


def test_a_killed_worker_is_begun_again_while_its_run_advances(
    planned: sweep.Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcome(group: Group) -> int:
        advance(group)
        return -9

    executor, problem = watch(planned, outcome, monkeypatch)
    assert problem is None
    assert executor.begun == [0] * (workers.KILLS + 2) + [1] * (workers.KILLS + 2)


def test_a_worker_that_is_killed_again_and_again_has_failed(
    planned: sweep.Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor, problem = watch(planned, lambda _: -9, monkeypatch)
    assert executor.begun == [0] * workers.KILLS + [1] * workers.KILLS
    log = log_of(planned.cells[:1])
    assert "2 of 2 runs failed" in str(problem)
    assert f"alpha0-seed0: the process was killed by signal 9; see {log}." in str(problem)


def test_a_failure_is_told_once_and_the_others_continue(
    planned: sweep.Sweep, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def outcome(group: Group) -> int:
        log_of(group).write_text("chary: warning: odd data\nchary: error: no data here\n")
        return 2

    executor, problem = watch(planned, outcome, monkeypatch)
    assert executor.begun == [0, 1]
    assert str(problem).startswith("2 of 2 runs failed") and "no data here" in str(problem)
    told = capsys.readouterr().err
    assert told.count("failed: no data here") == 2 and told.count("odd data") == 1


def test_a_request_to_stop_is_passed_on(
    planned: sweep.Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcome(group: Group) -> int:
        advance(group)
        signal.raise_signal(signal.SIGTERM)
        return -15

    executor, problem = watch(planned, outcome, monkeypatch)
    assert executor.calls == ["stop", "close"]
    assert isinstance(problem, KeyboardInterrupt) and "the same command resumes" in str(problem)
