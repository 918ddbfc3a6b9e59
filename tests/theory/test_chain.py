"""Rules for targets on the chain, in seconds."""

import json
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from chary.errors import CharyError
from chary.networks.targets import TARGETS
from chary.theory import chain, mdp
from chary.theory.chain import ChainConfig
from chary.theory.members import for_every_member
from tests.conftest import run_chary

TINY = ChainConfig(
    members=3, hidden=8, iterations=3, steps=200, episodes=4, learning_rate=1e-2, seed=3
)  # fmt: skip


def test_initial_networks_have_the_papers_scales() -> None:
    first, last = chain.init_state(
        ChainConfig(hidden=2000, members=2), TARGETS["double-q"]
    ).networks
    # Truncated at two standard deviations, and scaled up so that the variance is what is asked for.
    assert np.var(first.weight) == pytest.approx(10 / 2, rel=0.1)
    assert np.var(last.weight) == pytest.approx(10 / 2000, rel=0.1)
    assert np.var(first.bias) == pytest.approx(0.05 / 2000, rel=0.1)
    assert last.bias.shape == (4, 1)


def values(networks: chain.Network, inputs: np.ndarray) -> np.ndarray:
    first, last = (
        {k: np.asarray(getattr(layer, k)) for k in ("weight", "bias")} for layer in networks
    )
    hidden = np.tanh(inputs @ first["weight"] + first["bias"][:, None])
    return (hidden @ last["weight"] + last["bias"][:, None])[..., 0]


@pytest.mark.parametrize("name", list(TARGETS))
def test_an_iteration_moves_every_network_towards_its_rules_target(name: str) -> None:
    rule, data = TARGETS[name], mdp.collect(TINY.episodes, TINY.length, TINY.seed)
    iteration = chain.make_iteration(TINY, rule, data)
    before = chain.init_state(TINY, rule)
    after = iteration(before)
    x, rewards, next_x = (np.asarray(column, np.float32) for column in data)
    next_values = values(before.networks, next_x)
    backed_up = {
        "independent": next_values,
        "double-q": np.repeat(np.minimum(next_values[::2], next_values[1::2]), 2, axis=0),
        "shared-mean": next_values.mean(axis=0)[None],
        "shared-lcb": (next_values.mean(axis=0) - 2 * next_values.std(axis=0))[None],
        "shared-min": next_values.min(axis=0)[None],
    }[name]
    targets = rewards + TINY.discount * backed_up
    distance = [
        np.sqrt(((values(state.networks, x) - targets) ** 2).mean(axis=1))
        for state in (before, after)
    ]
    assert len(distance[0]) == 3 * rule.heads
    assert (distance[1] < 0.5 * distance[0]).all()
    assert int(after.done) == 1 and float(after.residuals[0]) > 0
    # Another last member: the first ones feel it if targets are shared, and only then.
    changed = jax.tree.map(lambda leaf: leaf.at[-rule.heads :].add(-0.5), before.networks)
    others = iteration(before._replace(networks=changed)).networks.last.weight
    same = np.array_equal(others[: -rule.heads], after.networks.last.weight[: -rule.heads])
    assert same is not rule.shared


def test_the_quick_preset_keeps_what_the_paper_is_about() -> None:
    """Its discount, its data, and how far Adam gets in an iteration: at most a rate's length a step."""
    quick, paper = ChainConfig(**chain.PRESETS["quick"]), ChainConfig()
    assert (quick.discount, quick.episodes, quick.length) == (0.99, 40, 30)
    assert quick.learning_rate * quick.steps == pytest.approx(paper.learning_rate * paper.steps)
    assert quick.discount**quick.iterations < 0.01  # values have arrived


def test_members_are_fitted_as_if_alone() -> None:
    """On threads of their own, with the result that a plain loop over them has."""
    data = mdp.collect(TINY.episodes, TINY.length, TINY.seed)
    inputs = np.asarray(data.x, np.float32)

    def fit(scale: jax.Array, offset: jax.Array) -> tuple[jax.Array, jax.Array]:
        return (inputs * scale).sum() + offset, offset * 2

    scales, offsets = np.arange(5.0, dtype=np.float32), np.ones(5, np.float32)
    sums, doubles = for_every_member(fit)(scales, offsets)
    np.testing.assert_allclose(sums, [inputs.sum() * s + 1 for s in range(5)], rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(doubles, 2 * offsets)


@pytest.mark.long
def test_independent_targets_spread_where_the_gap_must_be_crossed(tmp_path: Path) -> None:
    """A smaller discount needs fewer iterations; the compiler is left to do its best."""
    result = run_chary(
        "theory", "chain", "--rules", "independent", "--members", 6, "--hidden", 64,
        "--discount", 0.8, "--learning-rate", 3e-3, "--iterations", 25, "--steps", 120, "--json",
        "--out", tmp_path, XLA_FLAGS="",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "members 6 instead of 64" in result.stderr
    found = json.loads(result.stdout)
    (row,) = found["rows"]
    assert row["ratio"] >= 3.0 and row["rises"]
    assert row["residual"] < 0.3 and row["bound_gap"] == 0.0
    kept = json.loads((tmp_path / "chain.json").read_text())
    mean, true = np.array(kept["curves"]["independent"]["mean"]), mdp.true_values(0.8)
    assert abs(mean[-1] - 5.0) < 0.5  # 1 / (1 - 0.8)
    right = mdp.GRID >= mdp.GAP
    assert np.sqrt(((mean - true)[right] ** 2).mean()) < 0.1 * true[right].mean()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rules": ("shared-max",)}, "--rules is shared-max, but must be of independent"),
        ({"rules": ()}, "--rules is empty"),
        ({"members": 1}, "--members is 1, but must be at least 2"),
        ({"discount": 1.0}, "--discount is 1.0"),
        ({"learning_rate": 0.0}, "--learning-rate is 0.0, but must be above 0"),
        ({"beta": 1.0}, "--beta is 1.0, but must be at most 0"),
    ],
)
def test_settings_without_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CharyError, match=re.escape(message)):
        ChainConfig(**changes)
