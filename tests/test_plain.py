"""The plain version that speed is measured against is the same algorithm."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from benchmarks.plain import make_plain
from chary.algos.msg import make_msg
from chary.algos.msg_config import MSGConfig
from tests.algos.test_msg import ACTION, OBSERVATION, TINY, away_from_kinks, doubles, make_batch


@pytest.mark.parametrize("alpha", [0.5, 0.0])
def test_fused_is_plain(alpha: float) -> None:
    """The same gradients, taken together or apart: what differs is the order of additions."""
    config = MSGConfig(**TINY, alpha=alpha, regulariser_samples="own", chunk=1)
    algorithms = [make(config, OBSERVATION, ACTION) for make in (make_msg, make_plain)]
    ends = []
    for algorithm in algorithms:
        algorithm = replace(algorithm, update=jax.jit(algorithm.update))
        state = away_from_kinks(jax.jit(algorithm.init)(jax.random.key(0)))
        for step in range(3):
            state, _ = algorithm.update(state, make_batch(step), jax.random.key(step))
        ends.append(doubles(state))
    for ours, plain in zip(*ends, strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-5, atol=1e-6)
