"""A little of the torture, of fixed size; `make torture` is all of it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import chary
from chary.data.dataset import Dataset
from tests.torture import folders, kills, parts, servers, soak
from tests.torture.forks import Ended
from tests.torture.moments import IN_RESUME, MOMENTS, Moment
from tests.torture.parts import LOG, Budget, Check, Row, part_of, read, rows_of, table, work
from tests.training.test_loop import QUICK

LITTLE = {**QUICK, "steps": 40, "checkpoint_minutes": 0.0}


ROOT = Path(__file__).parents[2]


def failed(rows: list[Row]) -> str:
    return table([row for row in rows if row.failures]) if any(r.failures for r in rows) else ""


def lane(name: str, count: int, folder: Path, *, seed: int = 0, minutes: float = 9.0) -> list[Row]:
    """The rows of so many cases of a part, tried by its first lane."""
    part = part_of(name)
    work(name, Budget(minutes, count * part.LANES / part.WANTED), seed, folder, 0)
    return rows_of(name, folder, count)


class Counting:
    """A part whose even cases count and whose case 4 fails."""

    MAIN, WANTED, LANES = "even numbers", 10, 1

    @staticmethod
    @contextmanager
    def torture(*_: object) -> Iterator[Any]:
        def case(number: int) -> list[Check]:
            bad = "is four" if number == 4 else ""
            even = Check("even numbers", "even", bad, number % 2 == 0, {"large": float(number)})
            return [even, Check("all numbers", "")]

        yield case


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "part_of", lambda _: Counting)


@pytest.mark.usefixtures("counting")
def test_a_part_counts_what_came_to_be_tried_and_resumes(tmp_path: Path) -> None:
    work("any", Budget(1.0, 0.2), 0, tmp_path, 0)
    log = tmp_path / "any" / "0" / LOG
    assert [line.number for line in read(log)] == [-1, 0, 1, 2]
    with open(log, "a") as file:
        file.write('{"number": 3, "che')  # killed as it wrote
    work("any", Budget(1.0, 0.3), 0, tmp_path, 0)
    assert [line.number for line in read(log)] == [-1, 0, 1, 2, -1, 3, 4]
    main, others = rows_of("any", tmp_path, 3)
    assert main == ("even numbers", 5, 3, 1, "3 even; at most 4 large; is four")
    assert others == ("all numbers", 5, 5, 0, "")
    assert rows_of("any", tmp_path, 9)[0].note.startswith("**6 are left")


@pytest.mark.usefixtures("counting")
def test_the_estimate_is_of_all_cases(tmp_path: Path) -> None:
    log = tmp_path / "any" / "0" / LOG
    log.parent.mkdir(parents=True)
    checks = Counting.torture().__enter__()(0)
    lines = [
        {"number": -1, "checks": [], "cpu": 60.0},
        {"number": 0, "checks": checks, "cpu": 54.0},
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "| any | 10 | 54.00 | 60.0 | 10 |" in parts.estimate(tmp_path, ["any"])
    assert "| 5 of 120 |" in parts.estimate(tmp_path, ["any"])


@pytest.mark.parametrize(
    ("signal", "ended", "came", "fine"),
    [
        ("KILL", Ended(-9, "", True, False), True, True),
        ("KILL", Ended(0, "", False, False), False, True),
        ("TERM", Ended(130, "", True, False), True, True),
        ("TERM", Ended(0, "", True, False), False, True),
        ("HUP", Ended(2, "refused", True, False), False, False),
        ("STOP", Ended(0, "", True, True), True, True),
        ("STOP", Ended(0, "", True, False), False, True),
        ("FULL", Ended(2, "no room", True, False), True, True),
        ("FULL", Ended(0, "", True, False), False, True),
        ("FULL", Ended(2, "Traceback", True, False), True, False),
        ("KILL", Ended(99, "", True, False), False, False),
    ],
)
def test_a_kill_counts_only_if_it_came(signal: str, ended: Ended, came: bool, fine: bool) -> None:
    found = kills._kill(signal, "at once", ended)
    assert (found.counts, not found.problem) == (came, fine)


@pytest.mark.long
def test_damaged_folders_cost_no_command_its_composure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "HEAVY", 0.0)
    rows = lane("folders", 12, tmp_path)
    assert rows[0].cases == 12 and not failed(rows)


@pytest.mark.long
def test_the_fuzzer_notices_a_command_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(case: folders.Case, _: object) -> int:
        raise RecursionError(case.what)

    def leak(*_: object) -> int:
        print("\x1b[2J")
        return 0

    monkeypatch.setattr(folders, "COMMANDS", {"fails": fail, "leaks": leak})
    monkeypatch.setattr(folders, "HEAVY", 0.0)
    found = {row.what: row for row in lane("folders", 2, tmp_path)}
    assert found[folders.MAIN].failures == found["fails"].failures == found["leaks"].failures == 2
    assert "RecursionError" in found["fails"].note and "control" in found["leaks"].note


class Killed(BaseException):
    """As near to a kill as one process can come."""


def kill() -> None:
    raise Killed


@pytest.mark.parametrize(
    "moment",
    ["logs cut back", "after a log line", "manifest written", "checkpoint saved", "within pruning"],
)
def test_a_run_that_ends_at_a_moment_resumes_to_the_same_bits(
    moment: str, dataset: Dataset, tmp_path: Path, whole: tuple[list[bytes], bytes]
) -> None:
    run = tmp_path / "run"
    if moment in IN_RESUME:  # which needs something to resume
        with ended(MOMENTS["pruned"], 2):
            chary.train("bc", dataset, run=run, **LITTLE)
    with ended(MOMENTS[moment], 1 if moment in IN_RESUME else 2):
        chary.train("bc", dataset, run=run, resume=True, **LITTLE)
    agent = chary.train("bc", dataset, run=run, resume=True, **LITTLE)
    bits = [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(agent.state)]
    assert (bits, (run / "metrics.jsonl").read_bytes()) == whole


@contextmanager
def ended(moment: Moment, number: int) -> Iterator[None]:
    """Whatever is done within is killed at a moment, if it comes so often."""
    undo = moment.reach(kill, number)
    try:
        with suppress(Killed):
            yield
    finally:
        undo()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[bytes], bytes]:
    """The parameters and logs of a run that nothing happened to."""
    from tests.conftest import make_columns

    run = tmp_path_factory.mktemp("whole") / "run"
    agent = chary.train("bc", Dataset.from_columns(make_columns(), name="tiny"), run=run, **LITTLE)
    bits = [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(agent.state)]
    return bits, (run / "metrics.jsonl").read_bytes()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::UserWarning")  # a damaged checkpoint is worth one
def test_commands_that_take_longer_keep_it_too(tmp_path: Path) -> None:
    assert not failed(lane("folders", 60, tmp_path, seed=1))


@pytest.mark.long
def test_a_few_real_kills(tmp_path: Path) -> None:
    """In a process of its own: it forks, which a process with threads must not."""
    words = [
        "--parts",
        "kills",
        "--scale",
        "0.05",
        "--folder",
        tmp_path,
        "--out",
        tmp_path / "x.md",
    ]
    program = [sys.executable, "-m", "tests.torture", *map(str, words)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert rows_of("kills", tmp_path, 11)[0].cases >= 11


@pytest.mark.long
def test_servers_under_a_few_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "CLIENTS", 20)
    rows = lane("servers", 2, tmp_path)
    assert len(rows) >= 10 and not failed(rows)


def test_what_threads_hold_for_a_moment_is_no_growth() -> None:
    held = [{"seconds": i, "memory": 300.0 + 10.0 * (i % 3 > 0)} for i in range(400)]
    assert {sample["memory"] for sample in soak.lows(held)} == {300.0}
    grown = [{"seconds": i, "memory": 300.0 + i} for i in range(400)]
    assert [sample["memory"] for sample in soak.lows(grown)] == [300.0 + 20 * i for i in range(20)]


@pytest.mark.long
def test_a_short_soak(tmp_path: Path) -> None:
    assert not failed(lane("soak", 1, tmp_path, minutes=0.3))
