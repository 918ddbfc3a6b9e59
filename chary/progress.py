"""Progress on the terminal: always on standard error, so that standard output stays for results."""

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any


def say(message: str) -> None:
    """A line for the person who waits."""
    print(message, file=sys.stderr, flush=True)


def show_warnings_plainly() -> None:
    """Warnings as one line each, without the place in the code."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        print(f"chary: warning: {message}", file=sys.stderr)

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
        TextColumn("{task.description}"),
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

    def __init__(self, total: int, step: int):
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
            TextColumn("training"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[scores]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._bar = self._progress.add_task("", total=total, completed=step, speed="", scores="")
        self._began, self._first = time.monotonic(), step
        self._total = total

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
        """The run has got this far."""
        self._progress.update(self._bar, completed=step, speed=f"{self._speed(step):.0f}/s")

    def scores(self, last: dict[str, Any] | None, best: dict[str, Any] | None) -> None:
        """The newest and the best evaluation."""
        if last is None or best is None:
            return
        text = f"{_score(last)}, best {_score(best)}"
        self._progress.update(self._bar, scores=text)
        if not self._console.is_terminal:
            say(f"step {last['step']}/{self._total}: {text}")

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
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def _score(evaluation: dict[str, Any]) -> str:
    if evaluation.get("success") is not None:
        return f"success {evaluation['success']:.2f}"
    if evaluation.get("score") is not None:
        return f"score {evaluation['score']:.1f}"
    if evaluation.get("return") is not None:
        return f"return {evaluation['return']:.1f}"
    return f"validation {evaluation.get('validation', float('nan')):.3f}"
