"""A log of a run: lines of JSON that are appended whole, read as far as they are valid, and cut back."""

import json
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from chary.errors import CharyError
from chary.host.files import jsonable, open_plain, parse_json, whole
from chary.runs.schema import Record, is_number, is_valid

LONGEST = 16 * 2**20
"""Bytes of a line."""
TAIL = 64 * 2**10
"""Bytes at a log's end that hold its last line."""


class Log:
    """A file `metrics.jsonl`, `evals.jsonl` and so on, in a run's folder."""

    def __init__(self, path: Path, name: str):
        self.path, self.name = path, name
        self._seen = Seen()

    def append(self, record: Record) -> None:
        """Add one line, in a single write."""
        line = (json.dumps(jsonable(record)) + "\n").encode()
        try:
            with open(self.path, "ab", buffering=0) as file:
                start = file.seek(0, os.SEEK_END)
                if file.write(line) != len(line):
                    file.truncate(start)
                    raise OSError("the disk is full")
        except OSError as error:
            raise CharyError(
                f"{self.path}: cannot be written ({error.strerror or error}). Make room, then `chary "
                f"resume {self.path.parent}`."
            ) from error

    def lines(self, start: int = 0) -> Iterator[tuple[bytes, Record | None]]:
        """Each line from a byte on, as it is written and what it says, if that is valid."""
        if not self.path.is_file():
            return
        with open_plain(self.path) as file:
            file.seek(start)
            while line := file.readline(LONGEST):
                yield line, _record_in(self.name, line)

    def read_and_count(self) -> tuple[list[Record], int]:
        """All valid lines, and how many others were skipped."""
        records = [record for _, record in self.lines()]
        valid = [record for record in records if record is not None]
        return valid, len(records) - len(valid)

    def lines_from(self, start: int) -> tuple[list[Record], int]:
        """The valid lines from a byte on, and the byte where the last whole one ends."""
        records: list[Record] = []
        for line, record in self.lines(start):
            if not line.endswith(b"\n"):  # still being written, or torn
                break
            start += len(line)
            records += [record] if record is not None else []
        return records, start

    def last_line(self) -> Record | None:
        """The newest valid line, without reading all of them."""
        size = self.path.stat().st_size if self.path.is_file() else 0
        for start in {max(0, size - TAIL): None, 0: None}:
            for record in reversed([record for _, record in self.lines(start)]):
                if record is not None:
                    return record
        return None

    def cut_back(self, step: int, aside: Path) -> None:
        """Forget the lines after a step; those that cannot be read are kept in a folder aside."""
        lines = list(self.lines())
        kept = [line for line, record in lines if record and record["step"] <= step]
        odd = [line for line, record in lines if record is None]
        if odd:
            _write_lines(aside / self.path.name, odd)
            warnings.warn(
                f"{self.path}: {len(odd)} line(s) cannot be read and are kept in "
                f"{(aside / self.path.name).relative_to(self.path.parent)}.",
                stacklevel=5,
            )
        if len(kept) < len(lines) or (kept and not kept[-1].endswith(b"\n")):
            _write_lines(self.path, kept)

    def seen(self) -> "Seen":
        """What is needed of a log again and again; only lines that are new since the last call are read.

        A log that was cut back or replaced is read anew.
        """
        try:
            found = os.stat(self.path)
        except OSError:
            return Seen()
        if self._seen.file != (found.st_dev, found.st_ino) or found.st_size < self._seen.end:
            self._seen = Seen((found.st_dev, found.st_ino))
        seen = self._seen
        for line, record in self.lines(seen.end):
            if not line.endswith(b"\n") and len(line) < LONGEST:
                if record is not None:  # nothing but the end of the line is missing
                    apart = replace(seen, steps=set(seen.steps), scores=[*seen.scores])
                    return apart.add(self.name, record)
                break
            seen.end += len(line)
            if record is not None:
                seen.add(self.name, record)
        return seen


@dataclass
class Seen:
    """What is remembered of a log."""

    file: tuple[int, int] = (-1, -1)
    end: int = 0
    """Bytes that were read."""
    steps: set[int] = field(default_factory=set[int])
    scores: list[float] = field(default_factory=list[float])
    last: Record | None = None
    best: Record | None = None

    def add(self, log: str, record: Record) -> "Seen":
        """Remember an evaluation, or the held-out score of a line of metrics."""
        if log == "evals":
            self.steps.add(record["step"])
            self.last = record
            if self.best is None or _rank(record) >= _rank(self.best):
                self.best = record
        elif is_number(score := record.get("validation")):
            self.scores.append(score)
            if self.best is None or score > self.best["validation"]:
                self.best = record
        return self


def _rank(evaluation: Record) -> tuple[float, int]:
    """Of equals the later."""
    return headline(evaluation), evaluation["step"]


def _record_in(log: str, line: bytes) -> Record | None:
    """What a line says; None where it is damaged or not from a run."""
    if not line.startswith(b"{"):
        return None
    try:
        record = parse_json(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and is_valid(log, record) else None


def _write_lines(path: Path, lines: Sequence[bytes]) -> None:
    with whole(path) as temporary:
        temporary.write_bytes(b"".join(line.removesuffix(b"\n") + b"\n" for line in lines))


def seconds_in(timing: Sequence[Record]) -> float:
    """Time that a run took, evaluations on the way included, from its log of speed."""
    seconds, before = 0.0, 0
    for line in timing:
        seconds += (line["step"] - before) / line["steps_per_s"]
        before = line["step"]
    return seconds


def speed_in(timing: Sequence[Record]) -> float | None:
    """Updates a second over a whole run, evaluations on the way included."""
    return timing[-1]["step"] / seconds_in(timing) if timing else None


def headline(evaluation: Record) -> float:
    """The number that ranks an evaluation: normalised score, or the plain return."""
    numbers = (evaluation.get("score"), evaluation.get("return"))
    return float(next((number for number in numbers if number is not None), -math.inf))
