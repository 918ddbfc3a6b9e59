"""What a run asks for, counted and timed."""

import sys

import pytest

from chary.algos.bc import BCConfig, make_bc
from chary.execution.cost import cost_of
from chary.execution.program import trace_update
from chary.host.terminal import TrainingDisplay, _summary, duration
from chary.training import time_left as forecast
from chary.training.time_left import Forecast

BATCH, OBSERVATION, ACTION = 16, 3, 2


def test_arithmetic_is_counted_in_the_program() -> None:
    """Forward, the weights' gradient, and the inputs' gradient in all layers but the first."""
    algorithm = make_bc(BCConfig(hidden=(8, 4)), OBSERVATION, ACTION)
    layers = [(OBSERVATION, 8), (8, 4), (4, 2 * ACTION)]
    forward = [2 * BATCH * a * b for a, b in layers]
    cost = cost_of(trace_update(algorithm, BATCH, OBSERVATION, ACTION))
    assert cost.flops == 3 * sum(forward) - forward[0]
    parameters = sum((a + 1) * b for a, b in layers)
    # Parameters and two moments, before and after; values and gradients of every layer.
    assert 4 * 6 * parameters < cost.memory < 4 * (8 * parameters + 4 * BATCH * (3 + 8 + 4 + 4))


class Terminal(TrainingDisplay):
    """A person who answers, and what was said to them."""

    def __init__(self, answer: bool):
        super().__init__(1, 0, ["run"])
        self.answer, self.heard, self.asked = answer, [], 0

    def say(self, message: str) -> None:
        self.heard.append(message)

    def confirm(self, question: str) -> bool:
        self.asked += bool(question)
        return self.answer


def train(steps: int, terminal: Terminal, *, ask: bool = True) -> bool:
    """A second a step, after a first chunk that compiles for a minute."""
    ahead = Forecast("msg, 64 members", steps, lambda: 32e9, ask=ask)
    willing = [ahead.consents(1, 60.0, 1, terminal)]
    willing += [ahead.consents(1, 1.0, step, terminal) for step in range(2, 6)]
    return all(willing)


def test_only_a_long_training_is_announced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "memory_in_use", lambda: 1.25e9)
    terminal = Terminal(answer=False)
    assert train(30, terminal) and terminal.heard == []
    assert train(2_000_000, terminal)  # not interactive here: nobody is asked
    assert terminal.heard == [
        "msg, 64 members, 1,999,997 steps: about 23.1 days on this machine, 64 PFLOP in all (its "
        "matrix products), 1.25 GB of memory."
    ]
    assert terminal.asked == 0


def test_a_person_is_asked_before_days_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    no = Terminal(answer=False)
    assert not train(100_000, no) and no.asked == 1
    assert train(100_000, Terminal(answer=True))
    assert train(50_000, no) and no.asked == 1  # half a day: said, not asked
    assert train(100_000, no, ask=False) and no.asked == 1


def test_scores_of_several_runs_fit_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    few = [{"success": 0.5}, {"success": 1.0}]
    assert _summary(few) == "success 0.50 1.00"
    assert _summary([{"score": float(k)} for k in range(9)]) == "score 0.0 to 8.0"
    with TrainingDisplay(100, 0, ["seed0", "seed1"]) as display:
        display.scores(1, {"step": 10, "success": 0.25}, {"step": 10, "success": 0.25})
    assert capsys.readouterr().err == "step 10/100: seed1: success 0.25, best success 0.25\n"


def test_times_as_people_say_them() -> None:
    seconds = (20.0, 100.0, 3 * 3600.0, 7 * 86400.0)
    assert [duration(s) for s in seconds] == ["20 s", "2 min", "3 h 00 min", "7.0 days"]
