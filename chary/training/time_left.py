"""What is still ahead of a long training, said once a few updates have been timed."""

import sys
from collections.abc import Callable

from chary.host.machine import memory_in_use
from chary.host.terminal import TrainingDisplay, duration

TIMED_SECONDS = 2.0
"""Updates are timed for this long, after those that compile."""
LONG = 30.0
"""Seconds of training that are worth a line."""
VERY_LONG = 24 * 3600.0
"""Seconds of training that are worth a question."""


class Forecast:
    """Times the first updates; where the rest will take long it says so, and where very long it asks."""

    def __init__(self, title: str, steps: int, flops: Callable[[], float], *, ask: bool):
        self._title = title
        self._steps = steps
        self._flops = flops
        """Of all runs' updates of one step; counted only where it is said."""
        self._ask = ask
        self._open = True
        self._updates, self._seconds = 0, -1.0

    def consents(self, updates: int, seconds: float, step: int, display: TrainingDisplay) -> bool:
        """Hear of some updates; False only where a person has been asked and declines."""
        if not self._open:
            return True
        if self._seconds < 0.0:  # the first chunk compiles
            self._seconds = 0.0
            return True
        self._updates, self._seconds = self._updates + updates, self._seconds + seconds
        if self._seconds < TIMED_SECONDS:
            return True
        self._open = False
        left = self._steps - step
        ahead = left * self._seconds / self._updates
        if ahead < LONG:
            return True
        memory = memory_in_use()
        display.say(
            f"{self._title}, {left:,} steps: about {duration(ahead)} on this machine, "
            f"{_in_units(left * self._flops(), 'FLOP')} in all (its matrix products)"
            + (f", {_in_units(memory, 'B')} of memory." if memory else ".")
        )
        asked = self._ask and ahead > VERY_LONG and sys.stdin.isatty() and sys.stderr.isatty()
        return not asked or display.confirm("Continue? [Y/n] ")


def _in_units(number: float, unit: str) -> str:
    """A number with two digits or three and the prefix that suits it."""
    for prefix in ("", "k", "M", "G", "T", "P"):
        if number < 1000.0:
            return f"{number:.3g} {prefix}{unit}"
        number /= 1000.0
    return f"{number:.3g} E{unit}"
