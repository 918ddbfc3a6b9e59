"""How many members at a time: measured once, remembered, and only where it can matter."""

from pathlib import Path
from typing import Any

import pytest

from chary import fastest
from chary.algos.msg_config import MSGConfig
from chary.fastest import fastest_chunk, working_set

CONFIG = MSGConfig(members=12, hidden=(8,), batch_size=4, warmup_steps=0)


@pytest.fixture
def timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Nothing fits into this machine's cache, and windows of 3 are fastest."""
    asked: list[int | None] = []

    def seconds(config: MSGConfig, *_: Any) -> float:
        asked.append(config.chunk)
        return abs((config.chunk or 0) - 3.0)

    monkeypatch.setenv("CHARY_CACHE", str(tmp_path))
    monkeypatch.setattr(fastest, "FITS_IN_CACHE", 0)
    monkeypatch.setattr(fastest, "_seconds", seconds)
    return asked


def test_it_is_measured_once_for_a_shape(timed: list[int | None], tmp_path: Path) -> None:
    assert fastest_chunk(CONFIG, 3, 2) == 3
    assert timed == [1, 2, 3, 4, 6, 12]
    assert fastest_chunk(CONFIG, 3, 2) == 3 and len(timed) == 6
    assert fastest_chunk(CONFIG, 4, 2) == 3 and len(timed) == 12  # another shape
    (tmp_path / "chunks.json").write_text("{ torn")
    assert fastest_chunk(CONFIG, 3, 2) == 3 and len(timed) == 18


def test_where_there_is_nothing_to_choose_nothing_is_measured(
    timed: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fastest_chunk(MSGConfig(members=12, ensemble="multihead"), 3, 2) == 12
    monkeypatch.setattr(fastest, "FITS_IN_CACHE", 2**30)
    assert fastest_chunk(CONFIG, 3, 2) == 12
    assert not timed


def test_a_window_is_really_timed_and_what_goes_through_the_cache_is_counted() -> None:
    small = MSGConfig(members=2, hidden=(4,), batch_size=4, warmup_steps=0, chunk=1)
    assert 0.0 < fastest._seconds(small, 3, 2) < 10.0
    parameters = 2 * (5 * 4 + 4 + 4 + 1)
    assert working_set(small, 3, 2) == 4 * (4 * parameters + 2 * (2 * 4 * 2) * 4)
