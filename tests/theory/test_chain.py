"""Rules for targets on the chain, in seconds."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from chary.errors import CharyError
from chary.targets import TARGETS
from chary.theory import chain, mdp
from chary.theory.chain import ChainConfig

TINY = ChainConfig(members=3, hidden=8, iterations=3, steps=5, episodes=4, learning_rate=1e-2)
SMALL = ChainConfig(
    members=6, hidden=32, discount=0.9, learning_rate=3e-3, iterations=50, steps=60, episodes=20,
    rules=("independent", "shared-mean"),
)  # fmt: skip


def test_initial_networks_have_the_papers_scales() -> None:
    config = ChainConfig(hidden=2000)
    network = chain.init_network(config, key=jax.random.key(0))
    # Truncated at two standard deviations, and scaled up so that the variance is what is asked for.
    assert np.var(network.first.weight) == pytest.approx(10 / 2, rel=0.1)
    assert np.var(network.last.weight) == pytest.approx(10 / 2000, rel=0.1)
    assert np.var(network.first.bias) == pytest.approx(0.05 / 2000, rel=0.1)
    assert network.last.bias.shape == (1,)


@pytest.mark.parametrize("name", list(TARGETS))
def test_an_iteration_moves_every_network_towards_its_rules_target(name: str) -> None:
    rule, data = TARGETS[name], mdp.collect(4, 30, 0)
    config = replace(TINY, steps=200)
    before = chain.init_state(config, rule)
    after = chain.make_iteration(config, rule, data)(before)
    x, rewards, next_x = (np.asarray(column, np.float32) for column in data)

    def values(state: chain.ChainState, inputs: np.ndarray) -> np.ndarray:
        first, last = (
            {k: np.asarray(getattr(layer, k)) for k in ("weight", "bias")}
            for layer in state.networks
        )
        hidden = np.tanh(inputs @ first["weight"] + first["bias"][:, None])
        return (hidden @ last["weight"] + last["bias"][:, None])[..., 0]

    next_values = values(before, next_x)
    backed_up = {
        "independent": next_values,
        "double-q": np.repeat(np.minimum(next_values[::2], next_values[1::2]), 2, axis=0),
        "shared-mean": next_values.mean(axis=0)[None],
        "shared-lcb": (next_values.mean(axis=0) - 2 * next_values.std(axis=0))[None],
        "shared-min": next_values.min(axis=0)[None],
    }[name]
    targets = rewards + config.discount * backed_up
    distance = [
        np.sqrt(((values(state, x) - targets) ** 2).mean(axis=1)) for state in (before, after)
    ]
    assert len(distance[0]) == 3 * rule.heads
    assert (distance[1] < 0.5 * distance[0]).all()
    assert int(after.done) == 1 and float(after.residuals[0]) > 0


def test_independent_members_do_not_feel_each_other() -> None:
    """A member of a larger ensemble is the same as in a smaller one; with shared targets it is not."""
    data = mdp.collect(4, 30, 0)
    last: dict[str, list[np.ndarray]] = {}
    for name in ("independent", "shared-lcb"):
        for members in (3, 5):
            config = replace(TINY, members=members)
            iteration = chain.make_iteration(config, TARGETS[name], data)
            state = iteration(chain.init_state(config, TARGETS[name]))
            last.setdefault(name, []).append(np.asarray(state.networks.last.weight[:3]))
    np.testing.assert_allclose(*last["independent"], rtol=1e-5, atol=1e-6)
    assert np.abs(np.subtract(*last["shared-lcb"])).max() > 1e-4


def test_independent_targets_spread_where_the_gap_must_be_crossed(tmp_path: Path) -> None:
    _, curves = chain.run_chain(SMALL, tmp_path)
    independent, shared = chain.rows(SMALL, curves)
    assert independent["ratio"] >= 2.0 and independent["rises"]
    assert independent["residual"] < 0.3 and shared["residual"] < 0.3
    assert independent["bound_gap"] == 0.0 and shared["bound_gap"] > 0.0
    assert abs(curves[0].mean[-1] - 10.0) < 1.0  # 1 / (1 - 0.9)


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
