"""Fused is plain: the same gradients, taken together or apart, but for the order of additions."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from chary import algos
from chary.algos.msg_config import MSGConfig
from chary.execution.config import Execution
from tests.algos.test_msg import ACTION, OBSERVATION, TINY, away_from_kinks, doubles, make_batch

SETTINGS: dict[str, dict[str, Any]] = {
    "independent, layer norm": {"layer_norm": True, "window": 1},
    "own samples, every second step": {
        "regulariser_samples": "own", "window": 1, "policy_every": 2, "policy_average": 0.1,
    },
    "no regulariser, deterministic": {
        "alpha": 0.0, "window": 1, "policy": "deterministic", "entropy": "off",
    },
    "double-q, relative bound and cloning": {
        "targets": "double-q", "bound": "relative", "cloning": 0.3,
    },
    "shared-lcb, bins": {
        "targets": "shared-lcb", "critic_loss": "hl-gauss", "bins": 11, "value_range": (-5.0, 5.0),
    },
    "shared-min, prior": {"targets": "shared-min", "ensemble": "prior", "window": 1},
    "multihead": {"ensemble": "multihead"},
    "mimo": {"ensemble": "mimo"},
    "dropout": {"ensemble": "dropout"},
}  # fmt: skip
"""Every option once, few together: each case is two programs."""
QUICK = ("multihead",)
"""Members with weights in common; all others are long."""


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(changes, id=name, marks=() if name in QUICK else pytest.mark.long)
        for name, changes in SETTINGS.items()
    ],
)
def test_fused_is_plain(changes: dict[str, Any]) -> None:
    changes = {**TINY, "alpha": 0.5, **changes}
    window = changes.pop("window", None)
    config = MSGConfig(**changes)
    ends = []
    for execution in (Execution(window=window), Execution(executor="plain")):
        algorithm = algos.build("msg", config, OBSERVATION, ACTION, execution)
        algorithm = replace(algorithm, update=jax.jit(algorithm.update))
        state = away_from_kinks(algorithm.init(jax.random.key(0)))
        metrics = {}
        for step in range(3):
            state, metrics = algorithm.update(state, make_batch(step), jax.random.key(step))
        ends.append((*doubles(state), *doubles(metrics)))
    for fused, plain in zip(*ends, strict=True):
        np.testing.assert_allclose(fused, plain, rtol=1e-4, atol=2e-6)
