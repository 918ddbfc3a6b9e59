"""What is measured of policies without a simulator, where the truth is known."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from chary.algos.fqe import FQEConfig
from chary.data.dataset import Dataset
from chary.data.scaling import RewardTransform, Scaling
from chary.evaluation.agent import Agent
from chary.training import plan
from chary.training.run_config import RunConfig
from chary.tune.scores import Evidence, Fitted, logged_returns, look_at
from chary.types import Algorithm

DISCOUNT = 0.8


def line_world(episodes: int = 60, length: int = 10) -> Dataset:
    """A walk on a line: actions move the state, and being far to the right pays."""
    rng = np.random.default_rng(0)
    rows: dict[str, list[Any]] = {name: [] for name in ("observations", "actions", "rewards")}
    following, timeouts = [], []
    for _ in range(episodes):
        x = rng.uniform(-1, 1)
        for t in range(length):
            action = rng.uniform(-1, 1)
            after = np.clip(x + 0.5 * action, -1, 1)
            rows["observations"].append([x])
            rows["actions"].append([action])
            rows["rewards"].append(x)
            following.append([after])
            timeouts.append(t == length - 1)
            x = after
    columns = {name: np.array(values, np.float32) for name, values in rows.items()}
    columns |= {
        "next_observations": np.array(following, np.float32),
        "terminals": np.zeros(len(timeouts), bool),
        "timeouts": np.array(timeouts),
    }
    return Dataset.from_columns(columns, name="line")


def always(action: float, scaling: Scaling) -> Agent:
    """A policy that does one thing, with critics that are wrong by much."""

    def act(state: Any, observations: Any, *, key: Any = None) -> Any:
        del state, key
        return jnp.full((len(observations), 1), action)

    algorithm = Algorithm(
        lambda _: None,
        lambda *_: (None, {}),
        act,
        lambda _, observations, __: 100.0 * observations.T,
    )
    return Agent(algorithm, None, scaling, None, seed=0, folder=Path())


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    dataset = line_world()
    learned_from, held_out = plan.kept_out(dataset, RunConfig(holdout=0.25))
    assert held_out is not None
    scaling = Scaling.of(dataset, RewardTransform(), normalise_observations="none")
    config = FQEConfig(members=3, hidden=(16, 16), batch_size=64, discount=DISCOUNT, tau=0.1)
    return look_at(
        [always(a, scaling) for a in (-1.0, 0.0, 1.0)],
        dataset,
        held_out,
        learned_from=learned_from,
        scaling=scaling,
        discount=DISCOUNT,
        config=config,
        steps=400,
    )


@pytest.mark.long
def test_values_are_those_of_the_policies(evidence: Evidence) -> None:
    """To stay at x is worth x / (1 - discount); to go right or left nearly plus or minus 1 of it. The
    ranking is soon stable, and then learning ends."""
    assert evidence.values is not None and evidence.data_values is not None
    left, stay, right = evidence.values.mean(axis=(1, 2))
    data = evidence.data_values.mean()
    assert left < min(stay, data) and max(stay, data) < right
    assert right > 1.5
    assert left < -1.5
    assert left + 1.0 < data < right - 1.0
    assert evidence.reach[0] <= left and right <= evidence.reach[1]


def test_held_out_rows_say_how_far_actions_are_from_the_data(evidence: Evidence) -> None:
    share = evidence.outside.sum(axis=1) / evidence.rows.sum()
    error = evidence.action_errors.sum(axis=1) / evidence.rows.sum()
    assert evidence.rows.sum() == 150
    np.testing.assert_allclose(error, [4 / 3, 1 / 3, 4 / 3], rtol=0.15)
    assert share[1] < min(share[0], share[2])


def test_own_critics_are_checked(evidence: Evidence) -> None:
    assert np.isfinite(evidence.own_values).all()
    assert (evidence.td_errors > 0.05).all()


def test_without_a_discount_nothing_is_valued() -> None:
    dataset = line_world(12)
    learned_from, held_out = plan.kept_out(dataset, RunConfig(holdout=0.25))
    assert held_out is not None
    scaling = Scaling.of(dataset, RewardTransform(), normalise_observations="none")
    found = look_at(
        [always(0.0, scaling)],
        dataset,
        held_out,
        learned_from=learned_from,
        scaling=scaling,
        discount=None,
        config=FQEConfig(),
        steps=10,
    )
    assert found.values is None and found.returns is None and found.steps == 0
    assert np.isnan(found.td_errors).all()


def test_returns_of_the_log(dataset: Dataset) -> None:
    scaling = Scaling.of(dataset, RewardTransform(2.0, 0.5), normalise_observations="none")
    found = logged_returns(dataset, scaling, 0.9)
    rewards = 2.0 * (dataset.rewards.astype(np.float64) + 0.5)
    expected = np.empty(dataset.size)
    for rows in dataset.episodes():
        after = 0.0 if dataset.terminals[rows.stop - 1] else rewards.mean() / 0.1
        for row in reversed(range(rows.start, rows.stop)):
            after = expected[row] = rewards[row] + 0.9 * after
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_every_policy_starts_from_the_returns_in_the_data() -> None:
    dataset = line_world()
    scaling = Scaling.of(dataset, RewardTransform(1.0, -50.0), normalise_observations="none")
    config = FQEConfig(members=2, hidden=(16, 16), batch_size=64, discount=DISCOUNT)
    fitted = Fitted(dataset, scaling, config, steps=200)
    (value,) = fitted.values([fitted._carry], dataset.observations, [dataset.actions])
    returns = logged_returns(dataset, scaling, DISCOUNT)
    assert value.mean() == pytest.approx(returns.mean(), abs=0.5)
    assert np.corrcoef(value.mean(axis=0), returns)[0, 1] > 0.5
