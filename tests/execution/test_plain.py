"""Fused is plain: the same gradients, taken together or apart, but for the order of additions."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from chary.algos.msg import make_msg
from chary.algos.msg_config import MSGConfig
from chary.execution.fused import Fused
from chary.execution.plain import Plain
from tests.algos.test_msg import ACTION, OBSERVATION, TINY, away_from_kinks, doubles, make_batch

SETTINGS: dict[str, dict[str, Any]] = {
    "independent": {},
    "own samples, in windows": {"regulariser_samples": "own", "chunk": 1},
    "no regulariser": {"alpha": 0.0, "chunk": 1},
    "double-q": {"targets": "double-q"},
    "shared-lcb": {"targets": "shared-lcb"},
    "shared-min": {"targets": "shared-min", "chunk": 1},
    "multihead": {"ensemble": "multihead"},
    "mimo": {"ensemble": "mimo"},
    "prior": {"ensemble": "prior", "chunk": 1},
    "dropout": {"ensemble": "dropout"},
    "relative bound and cloning": {"bound": "relative", "cloning": 0.3},
    "deterministic": {"policy": "deterministic", "entropy": "off"},
    "every second step": {"policy_every": 2, "policy_average": 0.1},
    "bins": {"critic_loss": "hl-gauss", "bins": 11, "value_range": (-5.0, 5.0)},
}


@pytest.mark.parametrize("changes", SETTINGS.values(), ids=SETTINGS)
def test_fused_is_plain(changes: dict[str, Any]) -> None:
    config = MSGConfig(**{**TINY, "alpha": 0.5, **changes})
    ends = []
    for executor in (Fused, Plain):
        algorithm = make_msg(config, OBSERVATION, ACTION, executor=executor)
        algorithm = replace(algorithm, update=jax.jit(algorithm.update))
        state = away_from_kinks(jax.jit(algorithm.init)(jax.random.key(0)))
        metrics = {}
        for step in range(3):
            state, metrics = algorithm.update(state, make_batch(step), jax.random.key(step))
        ends.append((*doubles(state), *doubles(metrics)))
    for fused, plain in zip(*ends, strict=True):
        np.testing.assert_allclose(fused, plain, rtol=1e-4, atol=2e-6)
