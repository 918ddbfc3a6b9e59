from dataclasses import replace
from pathlib import Path

import pytest

from chary.online.config import OnlineConfig
from chary.online.schedule import EPISODES, Guard, falling, weight

CONFIG = OnlineConfig(parent=Path("p"), warmup=100, loosen_steps=200, optimism=2.0)


def test_pessimism_falls_evenly_after_the_warm_up() -> None:
    shares = [falling(CONFIG, step) for step in (0, 100, 200, 300, 1000)]
    assert shares == [1.0, 1.0, 0.5, 0.0, 0.0]
    assert falling(replace(CONFIG, parent=None), 0) == 0.0
    assert falling(replace(CONFIG, loosen_steps=0), 0) == 0.0
    kept = replace(CONFIG, keep_pessimism=0.7)
    assert [falling(kept, step) for step in (100, 150, 200, 1000)] == [1.0, 0.75, 0.7, 0.7]


@pytest.mark.parametrize(
    ("explore", "begin", "end"),
    [("ucb", -4.0, 2.0), ("mean", 0.0, 0.0), ("lcb", -4.0, -4.0), ("policy", 0.0, 0.0)],
)
def test_only_optimism_moves(explore: str, begin: float, end: float) -> None:
    config = replace(CONFIG, explore=explore)  # pyright: ignore[reportArgumentType]
    assert (weight(config, 1.0, -4.0), weight(config, 0.0, -4.0)) == (begin, end)


def test_the_guard_goes_up_when_clearly_worse_and_down_when_as_good() -> None:
    guard = Guard(before=10.0)
    for i in range(EPISODES - 1):
        guard.add(0.0 + i % 2)
        assert not guard.up  # too few to say
    guard.add(0.0)
    assert guard.up
    for _ in range(EPISODES - 1):
        guard.add(10.5)
        assert guard.up  # one bad episode is still among the last twenty
    guard.add(10.5)
    assert not guard.up


def test_the_guard_allows_two_standard_errors() -> None:
    # Ten at 0 and ten at 2 have a mean of 1 and a standard error of 1.026 / sqrt(20) = 0.229.
    for before, up in ((1.44, False), (1.48, True)):
        guard = Guard(before)
        for i in range(EPISODES):
            guard.add(2.0 * (i % 2))
        assert guard.up is up


def test_without_a_measured_start_there_is_nothing_to_guard() -> None:
    guard = Guard(None)
    for _ in range(2 * EPISODES):
        guard.add(-1e9)
    assert not guard.up
