"""Growing width, in seconds."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from chary.errors import CharyError
from chary.theory import mdp, width
from chary.theory.width import PARAMETERISATIONS
from chary.theory.width_config import PRESETS, WidthConfig

SMALL = WidthConfig(
    widths=(16, 256), members=6, discount=0.7, iterations=5, steps=20, episodes=3, length=20
)


def test_wide_ntk_networks_are_the_infinitely_wide_one(tmp_path: Path) -> None:
    result = width.run_width(SMALL, tmp_path)
    table = {(row["network"], row.get("width")): row for row in width.rows(result)}
    narrow, wide = table["ntk", 16], table["ntk", 256]
    assert wide["error"] < 0.6 * narrow["error"]  # 1 / sqrt(16) in the limit
    assert wide["error_interval"][1] < narrow["error_interval"][0]
    assert wide["error_interval"][0] <= wide["error"] <= wide["error_interval"][1]
    assert result.closed_form_error < 1e-8
    assert 0.0 < result.radius < 1.0
    for network in PARAMETERISATIONS:
        assert table[network, 256]["members"] == 6
    assert table["infinite", None]["left"] > 0 and table["infinite, ridge", None]["left"] > 0


def test_maximal_update_networks_learn_features_at_every_width() -> None:
    """How far the hidden layer moves stays as it is; in NTK parameterisation it falls with the width."""
    data = mdp.collect(SMALL.episodes, SMALL.length, SMALL.seed)
    moved: dict[str, list[float]] = {}
    for parameterisation in PARAMETERISATIONS:
        for size in SMALL.widths:
            begin = width.init_networks(SMALL, parameterisation, size)
            end = width.make_iteration(SMALL, parameterisation, data)(begin)
            scale = 1.0 if parameterisation == "ntk" else size**0.5
            change = scale * np.abs(np.asarray(end.weight - begin.weight))
            moved.setdefault(parameterisation, []).append(float(change.mean()))
    assert moved["ntk"][1] < 0.4 * moved["ntk"][0]  # 1 / sqrt(16) in the limit
    assert 0.5 < moved["maximal-update"][1] / moved["maximal-update"][0] < 2.0


def test_the_paper_has_few_of_the_widest() -> None:
    config = WidthConfig(**PRESETS["paper"])
    assert [config.members_at(w) for w in config.widths] == [16] * 5 + [4]
    assert PRESETS["quick"]["members"] >= 64 and max(PRESETS["quick"]["widths"]) == 2048


def test_networks_begin_with_the_seed() -> None:
    first, again = (width.init_networks(SMALL, "ntk", 16) for _ in range(2))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    other = width.init_networks(replace(SMALL, seed=1), "ntk", 16)
    assert (first.weight != other.weight).all()


def test_the_bootstrap_holds_what_it_estimates() -> None:
    members = np.random.default_rng(0).standard_normal((200, 1))
    value, low, high = width.bootstrap(lambda rows: float(rows.mean()), members)
    assert value == pytest.approx(members.mean())
    assert low < value < high
    assert high - low == pytest.approx(2 * 1.96 / 200**0.5, rel=0.2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"widths": ()}, "--widths is empty"),
        ({"widths": (0,)}, "--widths is 0, but must be at least 1"),
        ({"ridge": 0.0}, "--ridge is 0.0, but must be above 0"),
        ({"bias_std": -1.0}, "--bias-std is -1.0"),
        ({"few": 1}, "--few is 1, but must be at least 2"),
    ],
)
def test_settings_without_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CharyError, match=re.escape(message)):
        WidthConfig(**changes)
