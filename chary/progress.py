"""Progress on the terminal: always on standard error, so that standard output stays for results."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any


def say(message: str) -> None:
    """A line for the person who waits."""
    print(message, file=sys.stderr, flush=True)


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


def _score(evaluation: dict[str, Any]) -> str:
    if evaluation.get("success") is not None:
        return f"success {evaluation['success']:.2f}"
    if evaluation.get("score") is not None:
        return f"score {evaluation['score']:.1f}"
    if evaluation.get("return") is not None:
        return f"return {evaluation['return']:.1f}"
    return f"validation {evaluation.get('validation', float('nan')):.3f}"
