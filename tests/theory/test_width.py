"""Growing width, in seconds."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from scipy.special import erf

from chary.errors import CharyError
from chary.theory import erf_networks, linearised, mdp, width
from chary.theory.erf_networks import PARAMETERISATIONS
from chary.theory.width_config import PRESETS, WidthConfig

SMALL = WidthConfig(
    widths=(16, 256), trained=(16, 256), members=6, few=3, few_from=256, weight_std=1.5,
    discount=0.7, iterations=5, steps=20, episodes=3, length=20,
)  # fmt: skip


@pytest.mark.usefixtures("jobs_here")
@pytest.mark.long
def test_wide_ntk_networks_are_the_infinitely_wide_one(tmp_path: Path) -> None:
    result = width.run_width(SMALL, tmp_path)
    table = {(row["network"], row.get("width")): row for row in width.rows(result)}
    for network in ("linearised", "ntk"):
        narrow, wide = table[network, 16], table[network, 256]
        assert wide["error"] < 0.6 * narrow["error"]  # 1 / sqrt(16) in the limit
        assert wide["error_interval"][1] < narrow["error_interval"][0]
        assert wide["error_interval"][0] <= wide["error"] <= wide["error_interval"][1]
    assert result.closed_form_error < 1e-8
    assert table["linearised", 256]["members"] == 6
    for network in PARAMETERISATIONS:
        assert [table[network, size]["members"] for size in (16, 256)] == [6, 3]
        # Few members may all be drawn as the same one, whose spread has no ratio.
        assert np.isfinite(table[network, 256]["ratio_interval"]).all()
    assert table["infinite", None]["left"] > 0 and table["infinite, ridge", None]["left"] > 0
    pairs = [(row["weight_std"], row["bias_std"]) for row in result.constants]
    assert [(1.0, b) for b in (0.0, 0.05, 0.1, 0.25, 0.5, 1.0)] == pairs[:6]


def test_a_linearised_network_is_where_training_begins() -> None:
    """After one small step a network and its linearisation are the same, and not after many."""
    data, points = SMALL.data(), mdp.policy_inputs()
    distance = []
    for rate, steps in ((0.01, 1), (1.0, 200)):
        config = replace(SMALL, learning_rate=rate, steps=steps, iterations=1, weight_std=1.0)
        begin = erf_networks.init_networks(config, "ntk", 16, 2)
        end = erf_networks.make_iteration(config, "ntk", data)(begin)
        moved = erf_networks.values(end, points, config, "ntk") - (
            start := erf_networks.values(begin, points, config, "ntk")
        )
        members = [jax.tree.map(lambda leaf, m=m: np.asarray(leaf[m]), begin) for m in range(2)]
        closed = (
            np.stack([linearised.evaluate(config, member).values for member in members]) - start
        )
        distance.append(np.abs(moved - closed).max() / np.abs(closed).max())
    assert distance[0] < 5e-4 and distance[1] > 5e-3


def test_maximal_update_networks_learn_features_at_every_width() -> None:
    """How far the hidden layer moves stays as it is; in NTK parameterisation it falls with the width."""
    moved: dict[str, list[float]] = {}
    for parameterisation in PARAMETERISATIONS:
        for size in SMALL.widths:
            begin = erf_networks.init_networks(SMALL, parameterisation, size, 6)
            end = erf_networks.make_iteration(SMALL, parameterisation, SMALL.data())(begin)
            scale = 1.0 if parameterisation == "ntk" else size**0.5
            change = scale * np.abs(np.asarray(end.weight - begin.weight))
            moved.setdefault(parameterisation, []).append(float(change.mean()))
    assert moved["ntk"][1] < 0.4 * moved["ntk"][0]  # 1 / sqrt(16) in the limit
    assert 0.5 < moved["maximal-update"][1] / moved["maximal-update"][0] < 2.0


@pytest.mark.parametrize("parameterisation", PARAMETERISATIONS)
def test_networks_are_what_their_equation_says(parameterisation: str) -> None:
    networks = erf_networks.init_networks(SMALL, parameterisation, 16, 2)
    weight, bias, output, shift = (np.asarray(leaf[1], np.float64) for leaf in networks)
    scale = {"ntk": 1.0, "maximal-update": 4.0}[parameterisation]  # sqrt(16)
    x = mdp.policy_inputs()
    hidden = erf(scale * (1.5 / 2**0.5 * x @ weight + 0.5 * bias))
    expected = 1.5 / 4.0 * hidden @ output + 0.5 * shift
    found = erf_networks.values(networks, x, SMALL, parameterisation)[1]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_paper_has_few_of_the_widest() -> None:
    config = WidthConfig(**PRESETS["paper"])
    assert [config.members_at(w) for w in config.trained] == [16] * 5 + [4]


def test_the_quick_preset_has_the_papers_size_but_for_what_is_trained() -> None:
    quick, paper = WidthConfig(**PRESETS["quick"]), WidthConfig()
    trained = {"trained": paper.trained, "few_from": paper.few_from}
    assert replace(quick, **trained) == paper
    assert (quick.discount, quick.iterations, quick.steps, quick.episodes) == (0.99, 500, 1000, 40)
    assert max(quick.widths) >= 8192 and set(quick.trained) < set(quick.widths)


def test_networks_begin_with_the_seed() -> None:
    first, again = (erf_networks.init_networks(SMALL, "ntk", 16, 3) for _ in range(2))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    other = erf_networks.init_networks(replace(SMALL, seed=1), "ntk", 16, 3)
    assert (first.weight != other.weight).all()
    fewer = erf_networks.init_networks(SMALL, "ntk", 16, 2)
    np.testing.assert_array_equal(first.weight[:2], fewer.weight)


def test_the_bootstrap_holds_what_it_estimates() -> None:
    members = np.random.default_rng(0).standard_normal((200, 1))
    value, low, high = width.bootstrap(lambda rows: float(rows.mean()), members)
    assert value == pytest.approx(members.mean())
    assert low < value < high
    assert high - low == pytest.approx(2 * 1.96 / 200**0.5, rel=0.2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"widths": ()}, "--widths is (), but must be sizes of at least 1"),
        ({"widths": (0,)}, "--widths is (0,), but must be sizes of at least 1"),
        ({"ridge": 0.0}, "--ridge is 0.0, but must be above 0"),
        ({"bias_std": -1.0}, "--bias-std is -1.0"),
        ({"few": 1}, "--few is 1, but must be at least 2"),
        ({"trained": (32, 32)}, "--trained is (32, 32), but must be different ones"),
        ({"few_from": 0}, "--few-from is 0, but must be at least 1"),
    ],
)
def test_settings_without_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CharyError, match=re.escape(message)):
        WidthConfig(**changes)
