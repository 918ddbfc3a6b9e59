"""Progress on the terminal: always on standard error, so that standard output stays for results."""

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from chary.errors import printable


def say(message: str) -> None:
    """A line for the person who waits."""
    print(printable(message), file=sys.stderr, flush=True)


def show_warnings_plainly() -> None:
    """Warnings as one line each, without the place in the code."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        say(f"chary: warning: {message}")

    warnings.showwarning = show
    warnings.simplefilter("always", UserWarning)


@contextmanager
def progress_bar(title: str, *, total: int) -> Iterator[Callable[[int], None]]:
    """A bar that the yielded function advances; two plain lines where there is no terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    began = time.monotonic()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task(title, total=total)
        yield lambda amount: progress.advance(bar, amount)
    if not console.is_terminal:
        say(f"{title}: done in {time.monotonic() - began:.1f} s")


class TrainingDisplay:
    """Step, speed, time left and last scores: a live bar, or a line an evaluation without terminal."""

    def __init__(self, total: int, step: int, runs: Sequence[str]):
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("training" if len(runs) == 1 else f"training {len(runs)} runs"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[scores]}", markup=False),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._bar = self._progress.add_task("", total=total, completed=step, speed="", scores="")
        self._began, self._first = time.monotonic(), step
        self._total = total
        self._runs = runs
        self._last: dict[int, dict[str, Any]] = {}
        """Each run's newest evaluation."""

    def __enter__(self) -> "TrainingDisplay":
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def step(self, step: int) -> None:
        """The runs have got this far."""
        self._progress.update(self._bar, completed=step, speed=f"{self._speed(step):.0f}/s")

    def scores(self, run: int, last: dict[str, Any] | None, best: dict[str, Any] | None) -> None:
        """The newest and the best evaluation of one run."""
        if last is None or best is None:
            return
        self._last[run] = last
        text = f"{_score(last)}, best {_score(best)}"
        several = len(self._runs) > 1
        self._progress.update(
            self._bar, scores=_summary([*self._last.values()]) if several else text
        )
        if not self._console.is_terminal:
            whose = f"{self._runs[run]}: " if several else ""
            say(f"step {last['step']}/{self._total}: {whose}{text}")

    def say(self, message: str) -> None:
        """A line above the bar."""
        self._progress.stop()
        say(message)
        self._progress.start()

    def confirm(self, question: str) -> bool:
        """Ask a person, who agrees unless they say no."""
        self._progress.stop()
        print(question, end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
        self._progress.start()
        return not answer.strip().lower().startswith("n")

    def _speed(self, step: int) -> float:
        return (step - self._first) / max(time.monotonic() - self._began, 1e-9)


class StudyDisplay:
    """Runs done and time left of many: a live bar, and a line for every run that is done."""

    def __init__(self, runs: int, done: int, total: int, completed: int):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.fields[runs]}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:.0f}%  {task.fields[left]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._runs, self._done, self._total = runs, done, total
        self._began, self._first, self._completed = time.monotonic(), completed, completed
        self._bar = self._progress.add_task(
            "", total=total, completed=completed, runs=self._counted(), left=""
        )

    def __enter__(self) -> "StudyDisplay":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def step(self, completed: int) -> None:
        """All runs together have got this far."""
        self._completed = completed
        self._progress.update(self._bar, completed=completed, left=self._left())

    def finished(self, line: str) -> None:
        """A run is done; the line says how it went."""
        self._done += 1
        self._progress.update(self._bar, runs=self._counted())
        say(", ".join(part for part in (f"{line}; {self._counted()}", self._left()) if part))

    def _counted(self) -> str:
        return f"{self._done} of {self._runs} runs done"

    def _left(self) -> str:
        new = self._completed - self._first
        if new <= 0 or self._completed >= self._total:
            return ""
        seconds = (time.monotonic() - self._began) * (self._total - self._completed) / new
        return f"about {duration(seconds)} left"


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    days = seconds / 86400
    return f"{days:.1f} days" if days > 2 else f"{minutes // 60} h {minutes % 60:02d} min"


_DIGITS = {"success": 2, "score": 1, "return": 1, "validation": 3}


def _measured(evaluation: dict[str, Any]) -> tuple[str, float]:
    """The number that says most, and its name."""
    for name in ("success", "score", "return"):
        if evaluation.get(name) is not None:
            return name, evaluation[name]
    return "validation", evaluation.get("validation", float("nan"))


def _score(evaluation: dict[str, Any]) -> str:
    """The number with its name, and how the policy acted where that is not by its mode."""
    name, number = _measured(evaluation)
    text = f"{name} {number:.{_DIGITS[name]}f}"
    if (sampled := evaluation.get("sampled")) is not None:
        return f"{text} (sampled {_measured(sampled)[1]:.{_DIGITS[name]}f})"
    way = printable(evaluation.get("act", "mode"))  # older lines do not say
    return text if way == "mode" else f"{text} ({way})"


def _summary(evaluations: Sequence[dict[str, Any]]) -> str:
    """The last scores of several runs: each of a few, or the range of many."""
    name, numbers = _measured(evaluations[0])[0], [_measured(e)[1] for e in evaluations]
    few = numbers if len(numbers) <= 6 else [min(numbers), max(numbers)]
    between = " " if few is numbers else " to "
    return f"{name} " + between.join(f"{number:.{_DIGITS[name]}f}" for number in few)
