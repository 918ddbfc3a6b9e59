"""A little of the torture, of fixed size; `make torture` is all of it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import jax
import numpy as np
import pytest

import chary
from chary.data.dataset import Dataset
from tests.torture import folders, kills, servers, soak
from tests.torture.moments import IN_RESUME, MOMENTS, Moment
from tests.torture.parts import Budget, Row, table
from tests.training.test_loop import QUICK

LITTLE = {**QUICK, "steps": 40, "checkpoint_minutes": 0.0}


def failed(rows: list[Row]) -> str:
    return table([row for row in rows if row.failures]) if any(r.failures for r in rows) else ""


@pytest.mark.long
def test_damaged_folders_cost_no_command_its_composure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "HEAVY", 0.0)
    rows = folders.run(Budget(9.0, 12 / folders.CASES), 0, tmp_path)
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
    found = {row.what: row for row in folders.run(Budget(1.0, 2 / folders.CASES), 0, tmp_path)}
    assert found["fails"].failures == found["leaks"].failures == 2
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
    rows = folders.run(Budget(9.0, 60 / folders.CASES), 1, tmp_path)
    assert not failed(rows)


@pytest.mark.long
def test_a_few_real_kills(tmp_path: Path) -> None:
    rows = kills.run(Budget(4.0, 6 / kills.KILLS), 0, tmp_path)
    assert rows[0].cases >= 6 and not failed(rows)


@pytest.mark.long
def test_servers_under_a_few_clients(tmp_path: Path) -> None:
    rows = servers.run(Budget(2.0, 20 / servers.CLIENTS), 0, tmp_path)
    assert len(rows) >= 10 and not failed(rows)


@pytest.mark.long
def test_a_short_soak(tmp_path: Path) -> None:
    assert not failed(soak.run(Budget(0.3, 0.01), 0, tmp_path))
