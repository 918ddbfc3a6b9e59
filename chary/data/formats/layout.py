"""What a user says of a table: which columns mean what, how files are read, how far actions reach."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from chary.data.formats.dialect import UNKNOWN, Dialect
from chary.data.formats.timeline import Fill
from chary.errors import CharyError

VECTORS = {
    "observations": "--observations",
    "actions": "--actions",
    "next_observations": "--next-observations",
}
SINGLES = {"rewards": "--reward", "terminals": "--terminal", "timeouts": "--timeout"}


DIGITS = re.compile("[0-9]+")


@dataclass(frozen=True)
class Layout:
    """Which columns of a table mean what; vectors by patterns, single columns by name."""

    observations: tuple[str, ...]
    actions: tuple[str, ...]
    reward: str
    next_observations: tuple[str, ...] = ()
    episode: str | None = None
    time: str | None = None
    terminal: str | None = None
    timeout: str | None = None

    def options(self) -> dict[str, tuple[str, ...]]:
        """The patterns that are given, by the option that gives them."""
        given = {key: getattr(self, key) for key in self.__dataclass_fields__}
        return {
            f"--{key.replace('_', '-')}": (patterns,) if isinstance(patterns, str) else patterns
            for key, patterns in given.items()
            if patterns
        }


@dataclass(frozen=True)
class Reading:
    """How the files are to be read."""

    one_episode: bool = False
    """Each file is one unbroken log."""
    max_gap: str | None = None
    """Longest time between two rows that follow each other; by default 1.5 times the usual one."""
    missing: tuple[str, ...] = ()
    """Values that mean that there is none."""
    drop_missing: bool = False
    fill: Fill | None = None
    time_format: str | None = None
    dialect: Dialect = UNKNOWN


AS_IT_IS = Reading()


def check(layout: Layout, reading: Reading) -> None:
    """Refuse what cannot be read, whatever is in the files."""
    ends = layout.episode or layout.terminal or layout.timeout
    if not (ends or reading.one_episode):
        raise CharyError(
            "where episodes end must be known: name the column of episode ids with --episode, or "
            "columns of flags: --terminal where the task itself ended, --timeout where it was cut; or "
            "say --one-episode if each file is one unbroken log."
        )
    if reading.one_episode and ends:
        raise CharyError(
            "--one-episode says that nothing ends within a file: leave out --episode, --terminal and "
            "--timeout."
        )
    if not (layout.observations and layout.actions and layout.reward):
        raise CharyError("--observations, --actions and --reward must each name a column.")
    for given, option in ((reading.max_gap, "--max-gap"), (reading.time_format, "--time-format")):
        if given is not None and layout.time is None:
            raise CharyError(f"{option} is about a column of times: name it with --time.")


def action_bounds(
    actions: np.ndarray, low: Sequence[str], high: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """The bounds as given (numbers, or the word `data`), or [-1, 1] where all actions are in it."""
    seen = {"low": actions.min(axis=0), "high": actions.max(axis=0)}
    if low and high:
        return _bound("low", low, seen["low"]), _bound("high", high, seen["high"])
    if not low and not high and np.abs(actions).max() <= 1.0:
        size = actions.shape[1]
        return np.full(size, -1.0), np.full(size, 1.0)
    lows, highs = (" ".join(f"{value:g}" for value in seen[end]) for end in ("low", "high"))
    raise CharyError(
        "the bounds of the actions must be known: give --action-low and --action-high, each one number "
        f"or one for every dimension. The data lies between {lows} and {highs}; `--action-low data "
        "--action-high data` takes just that."
    )


def choose(
    table: object, names: list[str], layout: Layout, problems: list[str]
) -> dict[str, list[str]]:
    """The columns that each option takes; none may be taken twice. `table` is what messages call it."""
    chosen: dict[str, list[str]] = {}
    taken: dict[str, str] = {}
    there = set(names)
    for option, patterns in layout.options().items():
        chosen[option] = []
        for pattern in patterns:
            # A name is itself, even one with brackets in it.
            matches = [pattern] if pattern in there else _matching(pattern, names)
            if not matches:
                close = difflib.get_close_matches(pattern[:100], _few(names), n=3, cutoff=0.3)
                there = f"The nearest are {', '.join(close)}"
                if not close:
                    there = f"It has {listed(names) or 'no columns'}"
                problems.append(f"{table}: no column matches {option} '{pattern}'. {there}.")
            for name in matches:
                if name in taken:
                    problems.append(
                        f"{table}: column '{name}' is taken twice: by {taken[name]} and by {option} "
                        f"'{pattern}'."
                    )
                taken[name] = f"{option} '{pattern}'"
            chosen[option] += matches
        if option not in VECTORS.values() and len(chosen[option]) > 1:
            problems.append(
                f"{table}: {option} is one column, but '{patterns[0]}' matches {listed(chosen[option])}."
            )
    return chosen


def _matching(pattern: str, names: list[str]) -> list[str]:
    """Matches in the file's order, but those that differ in their numbers only in counting order."""
    matches = [name for name in names if fnmatchcase(name, pattern)]
    kinds: dict[str, int] = {}
    for name in matches:
        kinds.setdefault(DIGITS.sub("#", name), len(kinds))

    def place(name: str) -> tuple[int, list[tuple[int, str]]]:
        # Longer is larger; Python itself turns no more than 4,300 digits into a number.
        numbers = [number.lstrip("0") for number in DIGITS.findall(name)]
        return kinds[DIGITS.sub("#", name)], [(len(number), number) for number in numbers]

    return sorted(matches, key=place)


def _few(names: list[str]) -> list[str]:
    """Names to look for near ones among: all of some length, up to a thousand."""
    return [name for name in names[:1000] if len(name) <= 100]


def _bound(end: str, words: Sequence[str], seen: np.ndarray) -> np.ndarray:
    if list(words) == ["data"]:
        return seen
    try:
        numbers = np.array([float(word) for word in words])
    except ValueError as error:
        raise CharyError(f"--action-{end} is {' '.join(words)}: numbers, or `data`.") from error
    if len(numbers) not in (1, len(seen)):
        raise CharyError(
            f"--action-{end} has {len(numbers)} numbers for {len(seen)} action dimension(s)."
        )
    return np.broadcast_to(numbers, seen.shape)


def listed(names: Sequence[str]) -> str:
    """A few names in words."""
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
