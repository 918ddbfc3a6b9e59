"""The scale that data of one's own gets: robust for observations, standard for rewards."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chary
from chary import config as settings
from chary.cli.options import parse
from chary.data.dataset import Dataset
from chary.data.scaling import RewardTransform, Scaling, standard_rewards, uneven_scales
from chary.runs.folder import RunFolder
from chary.training import resolve
from chary.training.run_config import RunConfig
from tests.conftest import make_columns

Columns = dict[str, np.ndarray]
TINY: dict[str, Any] = {
    "members": 2,
    "hidden": (8,),
    "batch_size": 8,
    "warmup_steps": 1,
    "steps": 4,
    "log_every": 2,
}


def units(columns: Columns) -> Columns:
    """The same data in physical units: a temperature, a pressure, a power."""
    scale, centre = np.array([5.0, 8.0, 900.0]), np.array([20.0, 1013.0, 1500.0])
    moved = {name: columns[name] * scale + centre for name in ("observations", "next_observations")}
    return {**columns, **moved}


def test_a_sentinel_does_not_ruin_the_scale() -> None:
    rng = np.random.default_rng(0)
    columns = make_columns(episodes=100)
    columns["observations"] = rng.normal([20.0, 1013.0, 1500.0], [5.0, 8.0, 900.0], (2000, 3))
    columns["observations"][::40, 0] = -999.0
    dataset = Dataset.from_columns(columns, name="tiny")
    robust = Scaling.of(dataset, RewardTransform(), normalise_observations="quantiles")
    np.testing.assert_allclose(robust.observation_mean, [20.0, 1013.0, 1500.0], rtol=0.03)
    np.testing.assert_allclose(robust.observation_std, [5.0, 8.0, 900.0], rtol=0.12)
    moments = Scaling.of(dataset, RewardTransform(), normalise_observations="moments")
    assert moments.observation_std[0] > 100.0


def test_flags_and_constants_have_a_scale() -> None:
    columns = make_columns(episodes=100)
    columns["observations"][:, 0] = np.arange(2000) % 50 == 0  # set in 2 rows of 100
    columns["observations"][:, 1] = 7.0
    columns["observations"][:, 2] = np.arange(2000) == 1234  # set once
    dataset = Dataset.from_columns(columns, name="tiny")
    scaling = Scaling.of(dataset, RewardTransform(), normalise_observations="quantiles")
    assert scaling.observation_std[0] == pytest.approx(np.sqrt(0.02 * 0.98), rel=1e-3)
    assert scaling.observation_std[1] == 1.0
    assert scaling.observation_std[2] == pytest.approx(np.sqrt(1 / 2000), rel=1e-2)
    assert scaling.observations(columns["observations"])[:, 1].tolist() == [0.0] * 2000


def plain_returns(rewards: np.ndarray, ends: np.ndarray) -> np.ndarray:
    returns, following = np.zeros(len(rewards)), 0.0
    for t in reversed(range(len(rewards))):
        following = rewards[t] + 0.99 * (0.0 if ends[t] else following)
        returns[t] = following
    return returns


@pytest.mark.parametrize("factor", [1.0, 1e-3, 500.0])
@pytest.mark.parametrize("true_ends", [True, False])
def test_discounted_returns_get_a_standard_range(factor: float, true_ends: bool) -> None:
    columns = make_columns(episodes=40)
    columns["rewards"] = factor * (columns["rewards"] - 30.0)
    if not true_ends:
        columns["timeouts"] |= columns["terminals"]
        columns["terminals"] = np.zeros_like(columns["terminals"])
    dataset = Dataset.from_columns(columns, name="tiny")
    scale, shift = standard_rewards(dataset)
    if true_ends:
        assert shift == 0.0  # to live longer must not become better or worse
    else:
        assert shift == pytest.approx(-np.median(columns["rewards"]), rel=5e-3)
    seen = plain_returns(
        scale * (columns["rewards"] + shift), columns["terminals"] | columns["timeouts"]
    )
    assert np.subtract(*np.quantile(seen, (0.95, 0.05))) == pytest.approx(20.0, rel=0.02)


def test_rewards_that_are_all_alike_are_left_alone() -> None:
    columns = {**make_columns(), "rewards": np.full(120, 3.0)}
    columns["timeouts"] |= columns["terminals"]
    columns["terminals"] = np.zeros(120, bool)
    assert standard_rewards(Dataset.from_columns(columns, name="tiny")) == RewardTransform()


@pytest.mark.long
def test_own_data_is_scaled_by_default_and_the_run_says_by_what(
    columns: Columns, tmp_path: Path
) -> None:
    dataset = Dataset.from_columns(units(columns), name="tiny")
    agent = chary.train("msg", dataset, preset="none", run=tmp_path / "run", **TINY)
    config = RunFolder.open(tmp_path / "run").config
    assert config["run"]["normalise_observations"] == "quantiles"
    expected = standard_rewards(dataset)
    assert (config["run"]["reward_scale"], config["run"]["reward_shift"]) == expected
    assert config["scaling"]["reward"] == expected._asdict()
    assert 10.0 < config["scaling"]["observation_mean"][0] < 30.0
    again = chary.open_run(tmp_path / "run")
    assert (again.act(dataset.observations[:4]) == agent.act(dataset.observations[:4])).all()


@pytest.mark.parametrize(
    ("given", "reward"),
    [({"reward_scale": 3.0}, (3.0, 0.0)), ({"reward_shift": 2.0}, (1.0, 2.0))],
)
def test_what_is_said_of_rewards_is_done_and_nothing_else(
    given: dict[str, Any], reward: tuple[float, float], dataset: Dataset
) -> None:
    run, _ = resolve.complete_run("msg", RunConfig(**given), dataset)
    assert (run.reward_scale, run.reward_shift) == reward


@pytest.mark.parametrize("name", ["halfcheetah-medium-v2", "antmaze-umaze-v2", "pointmaze-umaze"])
def test_named_data_keeps_the_papers_choice(name: str, columns: Columns) -> None:
    run, _ = resolve.complete_run(
        "msg", RunConfig(), Dataset.from_columns(units(columns), name=name)
    )
    assert run.normalise_observations == "none"
    assert (run.reward_scale, run.reward_shift) in ((1.0, 0.0), (4.0, -0.5))


@pytest.mark.parametrize(
    ("recorded", "read"),
    [
        ({}, "none"),
        ({"normalise_observations": False}, "none"),
        ({"normalise_observations": True}, "moments"),
    ],
)
def test_an_old_run_keeps_what_it_had(recorded: dict[str, bool], read: str) -> None:
    config = settings.from_json(RunConfig, json.loads(json.dumps(recorded)))
    assert config.normalise_observations == read


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ([], "auto"),
        (["--normalise-observations"], "moments"),
        (["--no-normalise-observations"], "none"),
        (["--normalise-observations", "quantiles"], "quantiles"),
    ],
)
def test_the_option_with_and_without_a_word(words: list[str], chosen: str) -> None:
    parsed = parse("msg", [*words, "--dataset", "tank.npz"], prog="chary train msg", description="")
    assert parsed.spec.run.normalise_observations == chosen


def test_uneven_scales_are_found_and_warned_of(columns: Columns) -> None:
    dataset = Dataset.from_columns(units(columns), name="tiny")
    found = uneven_scales(dataset.observations)
    assert found is not None and (found.largest, found.smallest) == (2, 0)
    assert 40.0 < found.factor < 120.0
    assert "power is about" in found.describe(("temperature", "pressure", "power"))
    assert uneven_scales(make_columns()["observations"]) is None
    with pytest.warns(UserWarning, match="column 2 is about .* times column 0.*nothing normalises"):
        resolve.complete_run("msg", RunConfig(normalise_observations="none"), dataset)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve.complete_run("msg", RunConfig(), dataset)
        named = Dataset.from_columns(units(columns), name="halfcheetah-medium-v2")
        resolve.complete_run("msg", RunConfig(), named)  # the paper's choice is no mistake
