"""What every part of the torture has in common: how it is asked, its log, and its rows of the table.

A part is a module with

    MAIN, WANTED    the row of the table that counts, and its number of cases in all of `make torture`
    LANES           processes that share its cases
    torture(budget, seed, folder)    a context that gives `case(number) -> list[Check]`

Cases are numbered, and each depends on the seed and its number alone. Every case is a line of the lane's
log, so a part that was stopped resumes after its last whole case.
"""

import json
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol, cast

LOG = "cases.jsonl"
PARTS = {
    "soak": (60.0, "Tiny runs for an hour: memory, files and threads"),
    "kills": (36.0, "Killed at chosen moments and resumed, against runs that were not"),
    "folders": (100.0, "Damaged run folders, and every command that reads one"),
    "datasets": (20.0, "Damaged and malicious datasets, each read in a process with limits"),
    "servers": (4.0, "The live page and `chary serve` under many clients"),
}
"""Modules of this package in the order in which they are run, with the minutes that each may take of the
220 that two cores have in 110."""
WHOLE = sum(minutes for minutes, _ in PARTS.values()) / 2.0


class Budget(NamedTuple):
    """What a lane of a part may cost."""

    minutes: float
    """After which it begins nothing new."""
    scale: float
    """Of its number of cases; 1 is all of `make torture`."""

    def cases(self, most: int) -> int:
        """So many of the most that there are, at least one."""
        return max(1, round(self.scale * most))


class Check(NamedTuple):
    """Something that was tried."""

    what: str
    """The row of the table in which it counts."""
    outcome: str
    """In a word or two; the row says how often there was each."""
    problem: str = ""
    """What is wrong; nothing where all is well."""
    counts: bool = True
    """Whether it came to what was to be tried: what did not is an attempt, and no case."""
    measured: Mapping[str, float] = {}
    """The row says the largest of each."""


Case = Callable[[int], list[Check]]


class Part(Protocol):
    """A module of this package."""

    MAIN: str
    WANTED: int
    LANES: int

    def torture(self, budget: Budget, seed: int, folder: Path) -> AbstractContextManager[Case]: ...


class Line(NamedTuple):
    """A case in a log; number -1 is what was made before the first."""

    number: int
    checks: list[Check]
    cpu: float
    """Seconds of processors, of all processes."""


class Row(NamedTuple):
    """One line of the table."""

    what: str
    attempts: int
    cases: int
    failures: int
    note: str


def part_of(name: str) -> Part:
    return cast(Part, import_module(f"tests.torture.{name}"))


def work(name: str, budget: Budget, seed: int, folder: Path, lane: int) -> None:
    """Try cases of a lane until there are as many as wanted, or no time is left."""
    part, own = part_of(name), folder / name / str(lane)
    own.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60.0 * budget.minutes
    lines = read(own / LOG)
    number = lane + part.LANES * sum(line.number >= 0 for line in lines)
    left = math.ceil(budget.cases(part.WANTED) / part.LANES) - counted(part, lines)
    if left <= 0:
        return
    before = _cpu()
    with part.torture(budget, seed, own) as case, open(own / LOG, "a") as log:

        def note(number: int, checks: list[Check]) -> None:
            nonlocal before
            line = {"number": number, "checks": checks, "cpu": round(_cpu() - before, 3)}
            before = _cpu()
            log.write(json.dumps(line) + "\n")
            log.flush()

        note(-1, [])
        while left > 0 and time.monotonic() < until:
            checks = case(number)
            for check in checks:
                if check.problem:
                    print(f"{name} {number}: {check.what}: {check.problem}", file=sys.stderr)
            note(number, checks)
            left -= sum(check.what == part.MAIN and check.counts for check in checks)
            number += part.LANES


def _cpu() -> float:
    """Processor seconds of this process, of those that it has waited for and of those that still run."""
    own = os.times()
    total = own.user + own.system + own.children_user + own.children_system
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text().split():
            try:
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return total


def read(log: Path) -> list[Line]:
    """The whole lines of a log; one that a kill has torn is tried again."""
    if not log.exists():
        return []
    text = log.read_text()
    end = text.rfind("\n") + 1
    if text[end:]:
        os.truncate(log, len(text[:end].encode()))
    found = [json.loads(line) for line in text[:end].splitlines()]
    return [
        Line(line["number"], [Check(*check) for check in line["checks"]], line["cpu"])
        for line in found
    ]


def lines_of(name: str, folder: Path) -> Iterator[Line]:
    """What all lanes of a part have in their logs."""
    for log in sorted((folder / name).glob(f"*/{LOG}")):
        yield from read(log)


def counted(part: Part, lines: Sequence[Line]) -> int:
    """Cases of the row that counts."""
    return sum(c.what == part.MAIN and c.counts for line in lines for c in line.checks)


def rows_of(name: str, folder: Path, wanted: int) -> list[Row]:
    """A part's rows; the first says what is left to do."""
    part, groups = part_of(name), dict[str, list[Check]]()
    for line in lines_of(name, folder):
        for check in line.checks:
            groups.setdefault(check.what, []).append(check)
    found = [_row(what, groups[what]) for what in sorted(groups, key=lambda w: w != part.MAIN)]
    if not found or found[0].what != part.MAIN:
        found.insert(0, Row(part.MAIN, 0, 0, 0, ""))
    if found[0].cases < wanted:
        note = f"**{wanted - found[0].cases:,} are left: the same command resumes**; "
        found[0] = found[0]._replace(note=note + found[0].note)
    return found


def _row(what: str, checks: Sequence[Check]) -> Row:
    tried = [check for check in checks if check.counts]
    problems = [check.problem for check in checks if check.problem]
    outcomes = Counter(check.outcome for check in tried if check.outcome)
    told = [", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common(8))]
    names = dict.fromkeys(name for check in checks for name in check.measured)
    told += [f"at most {max(c.measured.get(n, 0.0) for c in checks):,.4g} {n}" for n in names]
    told += [problem[:250] for problem in problems[:3]]
    return Row(what, len(checks), len(tried), len(problems), "; ".join(filter(None, told)))


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    lines = ["| what | attempts | cases | failures | |", "|---|---:|---:|---:|---|"]
    for row in rows:
        note = " ".join(row.note.replace("|", "/").split())
        lines.append(
            f"| {row.what} | {row.attempts:,} | {row.cases:,} | {row.failures:,} | {note} |"
        )
    return "\n".join(lines) + "\n"


def estimate(folder: Path, names: Sequence[str]) -> str:
    """What all of `make torture` would take, by the processor seconds of the cases in the logs."""
    lines = [
        "| part | cases | s of a processor each | s before the first | minutes |",
        "|---|---:|---:|---:|---:|",
    ]
    total = 0.0
    for name in names:
        part, done = part_of(name), list(lines_of(name, folder))
        first = [line.cpu for line in done if line.number < 0]
        before = sum(first) / max(1, len(first))
        if name == "soak":  # as long as it may
            each, minutes = 0.0, PARTS[name][0]
        else:
            each = sum(x.cpu for x in done if x.number >= 0) / max(1, counted(part, done))
            minutes = (part.LANES * before + part.WANTED * each) / 60.0
        total += minutes
        lines.append(f"| {name} | {part.WANTED:,} | {each:.2f} | {before:.1f} | {minutes:.0f} |")
    lines.append(f"| all, on two quiet cores | | | | {total / 2.0:.0f} of 120 |")
    return "\n".join(lines) + "\n"
