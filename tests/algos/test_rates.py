"""Step sizes that fall while learning: the size of every step, from how far the parameters moved."""

import numpy as np
import pytest

from chary.algos.fbrc import FBRCConfig
from chary.algos.iql import IQLConfig
from tests.algos.double import KEY, make_batch, prepare, rate


def test_iqls_policy_slows_down_along_a_cosine() -> None:
    """By (1 + cos(pi t / T)) / 2 in step t, and to 0 from T on, as its authors' cosine_decay_schedule.

    The critics and V keep their step size."""
    update, state = prepare("iql", IQLConfig(hidden=(5, 4), policy_decay_steps=4))
    found = []
    for _ in range(6):
        after, _ = update(state, make_batch(), KEY)
        found.append(rate(state.policy, after.policy))
        for part in ("value", "critics"):
            size = rate(getattr(state, part), getattr(after, part))
            assert size == pytest.approx(3e-4, rel=1e-2)
        state = after
    shares = [(1 + np.cos(np.pi * t / 4)) / 2 for t in range(5)] + [0.0]
    assert found == pytest.approx([3e-4 * share for share in shares], rel=1e-2, abs=1e-7)


def test_iqls_policy_keeps_its_step_size_where_that_is_asked_for() -> None:
    update, state = prepare("iql", IQLConfig(hidden=(5, 4), policy_decay_steps=0))
    state = state._replace(step=state.step + 1_000_000)
    after, _ = update(state, make_batch(), KEY)
    assert rate(state.policy, after.policy) == pytest.approx(3e-4, rel=1e-2)


@pytest.mark.long
def test_the_behaviours_step_size_falls_twice() -> None:
    """A tenth from 80% of its steps on, a hundredth from 90% on, for it and for its temperature."""
    config = FBRCConfig(hidden=(5, 4), behaviour_hidden=(6,), behaviour_parts=3, warmup_steps=10)
    update, state = prepare("fbrc", config)
    found, temperature = [], []
    for _ in range(10):
        after, _ = update(state, make_batch(), KEY)
        found.append(rate(state.behaviour, after.behaviour))
        temperature.append(rate(state.behaviour_log_temperature, after.behaviour_log_temperature))
        state = after
    expected = [1e-3] * 8 + [1e-4, 1e-5]
    assert found == pytest.approx(expected, rel=3e-2)
    assert temperature == pytest.approx(expected, rel=3e-2)
