"""A small share of the torture before every commit, and that it would see what it looks for.

`make fuzz` reads 2,000 datasets, `make torture` 5,000.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.torture import datasets, reading
from tests.torture.datasets import Torture
from tests.torture.hostile import KINDS, MAKERS
from tests.torture.parts import LOG, Budget, read, rows_of, work


@pytest.fixture(scope="module")
def torture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Torture]:
    with Torture(tmp_path_factory.mktemp("torture"), seed=0) as torture:
        yield torture


@pytest.mark.parametrize("name", KINDS)
def test_sound_datasets_are_read(torture: Torture, tmp_path: Path, name: str) -> None:
    kind = KINDS[name]
    kind.write(tmp_path / f"data{kind.ending}")
    assert torture.reader.outcome(tmp_path / f"data{kind.ending}", **kind.options) == "read"


def test_every_kind_of_case_is_read_or_refused(torture: Torture) -> None:
    done = [torture.case(number) for number in range(len(MAKERS))]
    assert [case for case in done if case["outcome"] not in datasets.FINE] == []
    counts = Counter(check.what for case in done for check in datasets.checks(case))
    assert counts["datasets"] == len(done) and counts["damaged datasets"] == len(KINDS)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("open({secret!r} + '.csv').read()", "secret.csv"),
        ("import h5py; h5py.File({secret!r} + '.hdf5').close()", "touches secret.hdf5"),
        ("import pyarrow.csv; pyarrow.csv.read_csv({secret!r} + '.csv')", "touches secret.csv"),
        ("open('/etc/hostname').read()", "opens /etc/hostname"),
        ("open('new', 'w')", "opens new to write"),
        ("import os; os.system('true')", "os.system"),
        ("import os; os.mkdir('new')", "os.mkdir"),
        ("import pickle; pickle.loads(b'cbuiltins\\nabs\\n.')", "pickle.find_class"),
        ("import socket; socket.create_connection(('127.0.0.1', 9))", "ConnectionRefusedError"),
        ("import os; os.abort()", "crashes with SIGABRT"),
        ("bytearray(2**31)", "MemoryError"),
        ("1 / 0", "ZeroDivisionError"),
        ("raise CharyError('a\\nb')", "several lines"),
        ("import warnings; warnings.warn('odd', RuntimeWarning)", "RuntimeWarning"),
    ],
)
def test_a_reader_that_does_more_is_seen(
    torture: Torture, tmp_path: Path, program: str, words: str
) -> None:
    (tmp_path / "data.csv").write_text("")
    program = program.format(secret=str(torture.canaries / "secret"))
    assert words in torture.reader.outcome(tmp_path / "data.csv", "leak", program=program)


@pytest.mark.long
def test_a_reader_that_hangs_is_seen(tmp_path: Path) -> None:
    """In a process of its own: it forks, which a process with threads must not."""
    request = {"path": str(tmp_path / "x"), "how": "leak", "program": "import time; time.sleep(9)"}
    program = (
        "from tests.torture import reading; reading.SECONDS = 1; "
        f"print(reading._in_a_child({request!r})[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "hangs for 1 s"


def test_the_canarys_number_is_seen(torture: Torture, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    layout = KINDS["csv"].options["layout"]
    path.write_text(f"observations_0,actions_0,rewards,timeouts\n1,0,{reading.CANARY},1\n")
    assert "the canary's number" in torture.reader.outcome(path, layout=layout)


@pytest.mark.long
def test_a_run_is_resumed_and_its_cases_are_the_same_again(
    tmp_path: Path, torture: Torture, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "datasets" / "0" / LOG
    for count in (3, 5):
        work("datasets", Budget(10.0, count * datasets.LANES / datasets.WANTED), 0, tmp_path, 0)
    numbers = [line.number for line in read(log) if line.number >= 0]
    assert numbers == [0, 2, 4, 6, 8]  # the other lane has those between
    main, *others = rows_of("datasets", tmp_path, 5)
    assert main.cases == 5 == sum(row.cases for row in others) and not main.failures
    assert [path.name for path in log.parent.iterdir()] == [LOG]
    torture.reader.answer = lambda *_, **__: {"outcome": "odd"}  # pyright: ignore
    torture.case(4)
    del torture.reader.answer
    assert "--seed 0 --case 4" in capsys.readouterr().err
