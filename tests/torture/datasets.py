"""Thousands of damaged and malicious datasets of every format, each read in a process with limits.

A dataset is read or refused with one clear message. Anything else is a failure: a traceback, a crash, a
hang, memory beyond the limit, a file outside the dataset that is opened, a word that a terminal obeys.

    python -m tests.torture.datasets --seed 1 --cases 5000    # and again, to resume
    python -m tests.torture.datasets --seed 1 --case 4711     # that one once more, and it stays there
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Process
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow

from tests.torture import parts
from tests.torture.hostile import MAKERS, Case, plant
from tests.torture.parts import Budget, Check, rows_of, table, work
from tests.torture.reading import Reader

MAIN, WANTED, LANES = "datasets", 5_000, 2
FINE = ("read", "refused")


def make(seed: int, number: int, folder: Path, canaries: Path) -> tuple[str, Case]:
    """The case of that number, in a new folder: each kind in turn, and everything else by chance."""
    name = list(MAKERS)[number % len(MAKERS)]
    for attempt in range(100):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            return name, MAKERS[name](
                np.random.default_rng([seed, number, attempt]), folder, canaries
            )
        except (ValueError, OSError, RuntimeError, OverflowError, pyarrow.ArrowException):
            continue  # what a library itself refuses to write
    raise RuntimeError(f"case {number} of seed {seed} ({name}) cannot be made")


@contextmanager
def torture(budget: Budget, seed: int, folder: Path) -> Iterator[parts.Case]:
    """Make datasets and read them, one by one."""
    del budget
    with Torture(folder, seed) as datasets:
        yield lambda number: checks(datasets.case(number))


def checks(answer: dict[str, Any]) -> list[Check]:
    """One in the row of all datasets, and one in that of damaged files or of everything else."""
    outcome = answer["outcome"]
    fine = outcome in FINE
    measured = {name: answer[name] for name in ("megabytes", "seconds")}
    problem = "" if fine else f"case {answer['number']} ({answer['what']}): {outcome}"
    kind = "damaged" if answer["what"].startswith("damaged") else "malicious"
    told = outcome if fine else "failed"
    return [Check(what, told, problem, measured=measured) for what in (MAIN, f"{kind} {MAIN}")]


class Torture:
    """Cases of a seed, made and read one by one."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder.absolute(), seed
        self.canaries = self.folder / "canaries"
        shutil.rmtree(self.canaries, ignore_errors=True)
        plant(self.canaries)
        self.reader = Reader(self.canaries)

    def __enter__(self) -> "Torture":
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.close()
        shutil.rmtree(self.canaries)

    def case(self, number: int, *, keep: bool = False) -> dict[str, Any]:
        """Make a case and read it; a failure says how to make it again."""
        where = self.folder / f"case-{number}"
        shutil.rmtree(where, ignore_errors=True)
        name, made = make(self.seed, number, where, self.canaries)
        before = _planted(where)
        answer = self.reader.answer(made.path, **made.options)
        if new := _planted(where) - before:
            answer["outcome"] = f"makes {', '.join(sorted(new))}"
        if answer["outcome"] not in FINE:
            print(
                f"datasets: seed {self.seed}, case {number} ({name}): {answer['outcome']}\n"
                f"  again: python -m tests.torture.datasets --seed {self.seed} --case {number}",
                file=sys.stderr,
            )
        if not keep:
            shutil.rmtree(where)
        return {"number": number, "what": name, **answer}


def _planted(where: Path) -> set[str]:
    """What is in the folder, to see whether reading put something there."""
    return {str(path.relative_to(where)) for path in where.rglob("*")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=WANTED)
    parser.add_argument(
        "--case", type=int, nargs="*", default=[], help="only these, which are kept"
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    default = Path(tempfile.gettempdir()) / "chary-torture"
    parser.add_argument("--folder", type=Path, default=default)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.case:
        with Torture(given.folder, given.seed) as torture:
            for number in given.case:
                print(json.dumps(torture.case(number, keep=True)))
        return 0
    budget = Budget(given.minutes, given.cases / WANTED)
    lanes = [
        Process(target=work, args=("datasets", budget, given.seed, given.folder, lane))
        for lane in range(LANES)
    ]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    rows = rows_of("datasets", given.folder, budget.cases(WANTED))
    print(table(rows))
    return 1 if any(row.failures for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
