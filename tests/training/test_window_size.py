"""How many members at a time: a rule that depends on shapes alone."""

from dataclasses import replace

import jax
import pytest

from chary.algos.msg_config import MSGConfig
from chary.algos.sac_n import SACNConfig
from chary.training import window_size as sizes
from chary.training.window_size import window_size, working_set

SMALL = MSGConfig(members=2, hidden=(4,), batch_size=4, warmup_steps=0)
PAPER = MSGConfig(regulariser_samples="own")


def touched(config: MSGConfig) -> int:
    return working_set(config, config.shape(3, 2))


@pytest.mark.parametrize(("members", "window"), [(1, 1), (4, 4), (6, 3), (7, 1), (16, 4), (64, 4)])
def test_the_papers_networks_go_four_at_a_time(members: int, window: int) -> None:
    assert window_size(replace(PAPER, members=members), 1, 29, 8) == window


def test_the_largest_divisor_that_fits_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(SMALL, members=12)
    one = touched(replace(config, members=1))
    for fits, window in ((0, 1), (3, 3), (5, 4), (6, 6), (12, 12)):
        monkeypatch.setattr(sizes, "CACHE", fits * one)
        assert window_size(config, 1, 3, 2) == window
    assert window_size(config, 3, 3, 2) == 4  # of those on a device


def test_settings_that_need_several_members_do_not_matter() -> None:
    rlpd = SACNConfig(members=10, subset=2)  # refuses to have fewer than two members
    assert window_size(rlpd, 1, 3, 2) in (1, 2, 5, 10)


def test_members_that_share_weights_and_other_backends_have_one_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sizes, "CACHE", 0)
    assert window_size(replace(SMALL, members=12, ensemble="multihead"), 1, 3, 2) == 12
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert window_size(replace(SMALL, members=12), 1, 3, 2) == 12


def test_what_goes_through_the_cache_is_counted() -> None:
    parameters, rows = 2 * (5 * 4 + 4 + 4 + 1), 2 * 4  # of two members, for each kind of actions
    assert touched(SMALL) == 4 * (4 * parameters + 2 * (2 * rows) * 4)
    own = replace(SMALL, regulariser_samples="own")
    assert touched(own) == 4 * (4 * parameters + 2 * (3 * rows) * 4)
    assert touched(replace(own, alpha=0.0)) == touched(SMALL)
    pairs = replace(SMALL, targets="double-q")
    assert touched(pairs) == 2 * touched(SMALL)
