"""How many members at a time: measured once, remembered, and only where it can matter."""

from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chary import chunk as chunks
from chary import fastest
from chary.algos.msg import make_msg
from chary.algos.msg_config import MSGConfig
from chary.chunk import Carry
from chary.fastest import fastest_chunk, working_set
from chary.types import Algorithm, Batch

CONFIG = MSGConfig(members=12, hidden=(8,), batch_size=4, warmup_steps=0)
SMALL = MSGConfig(members=2, hidden=(4,), batch_size=4, warmup_steps=0, chunk=1)


@pytest.fixture
def timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Nothing fits into this machine's cache, and windows of 3 are fastest."""
    asked: list[int] = []

    def seconds(config: MSGConfig, chunks: list[int], *_: Any) -> dict[int, float]:
        del config
        asked.extend(chunks)
        return {chunk: abs(chunk - 3.0) for chunk in chunks}

    monkeypatch.setenv("CHARY_CACHE", str(tmp_path))
    monkeypatch.setattr(fastest, "FITS_IN_CACHE", 0)
    monkeypatch.setattr(fastest, "_seconds", seconds)
    return asked


def test_it_is_measured_once_for_a_shape(timed: list[int], tmp_path: Path) -> None:
    assert fastest_chunk(CONFIG, 3, 2) == 3
    assert timed == [1, 2, 3, 4, 6, 12]
    assert fastest_chunk(CONFIG, 3, 2) == 3 and len(timed) == 6
    assert fastest_chunk(CONFIG, 4, 2) == 3 and len(timed) == 12  # another shape
    (tmp_path / "chunks.json").write_text("{ torn")
    assert fastest_chunk(CONFIG, 3, 2) == 3 and len(timed) == 18


def test_a_window_is_believed_for_the_program_that_it_was_measured_with(
    timed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def otherwise(*settings: Any) -> Algorithm[Any]:
        """MSG whose update has come to do one thing more."""
        made = make_msg(*settings)

        def update(state: Any, batch: Batch, key: Any) -> Any:
            return made.update(state, batch._replace(rewards=batch.rewards + 1.0), key)

        return replace(made, update=update)

    fastest_chunk(CONFIG, 3, 2)
    fastest_chunk(replace(CONFIG, beta=-8.0, warmup_steps=9), 3, 2)  # numbers, and the same work
    assert len(timed) == 6
    fastest_chunk(replace(CONFIG, regulariser_samples="own"), 3, 2)
    assert len(timed) == 12
    monkeypatch.setattr(fastest, "make_msg", otherwise)
    fastest_chunk(CONFIG, 3, 2)
    assert len(timed) == 18


def test_where_there_is_nothing_to_choose_nothing_is_measured(
    timed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fastest_chunk(MSGConfig(members=12, ensemble="multihead"), 3, 2) == 12
    monkeypatch.setattr(fastest, "FITS_IN_CACHE", 2**30)
    assert fastest_chunk(CONFIG, 3, 2) == 12
    assert not timed


def test_updates_are_timed_in_windows_in_turn_and_the_best_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a clock on which first updates take 8 s, the second ones 0.25 s and 0.5 s, and then windows of
    two updates, and of one."""
    spent = [8.0, 8.0, 0.25, 0.5, 0.6, 0.4, 0.44, 0.36, 0.5, 0.6]
    clock = accumulate(seconds for window in spent for seconds in (0.0, window))
    windows: list[tuple[int, int]] = []
    programs: list[Any] = []

    def compile_chunk(*arguments: Any) -> Any:
        chunk, made = chunks.compile_chunk(*arguments), len(programs)
        programs.append(chunk)

        def counted(carry: Carry, data: Batch, start: int, stop: int, key: Any) -> Carry:
            windows.append((made, stop - start))
            return chunk(carry, data, start, stop, key)

        return counted

    monkeypatch.setattr(fastest, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr(fastest, "compile_chunk", compile_chunk)
    assert fastest._seconds(SMALL, [1, 2], 3, 2) == pytest.approx({1: 0.22, 2: 0.36})
    assert windows == [(0, 1), (1, 1)] * 2 + [(0, 2), (1, 1)] + [(0, 2), (1, 1)] * 2
    assert next(clock, None) is None


def test_what_goes_through_the_cache_is_counted() -> None:
    parameters, rows = 2 * (5 * 4 + 4 + 4 + 1), 2 * 4  # of two members, for each kind of actions
    assert working_set(SMALL, 3, 2) == 4 * (4 * parameters + 2 * (2 * rows) * 4)
    own = replace(SMALL, regulariser_samples="own")
    assert working_set(own, 3, 2) == 4 * (4 * parameters + 2 * (3 * rows) * 4)
    assert working_set(replace(own, alpha=0.0), 3, 2) == working_set(SMALL, 3, 2)
    pairs = replace(SMALL, targets="double-q")
    assert working_set(pairs, 3, 2) == 2 * working_set(SMALL, 3, 2)
