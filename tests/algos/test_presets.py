"""Defaults and presets are what their sources have, field by field."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chary
from chary import algos
from chary.data.dataset import Dataset
from chary.training import plan, resolve
from tests.algos.sources import SOURCES

PRESETS = [(name, preset) for name, table in SOURCES.items() for preset in table]


def settings_of(name: str, preset: str) -> dict[str, Any]:
    """All settings, of the algorithm and of the run, as a preset has them."""
    config, run = resolve.configure(name, preset, "")
    return {**vars(run), **vars(config)}


def test_every_algorithm_and_every_preset_has_its_sources() -> None:
    named = {name: set(entry.presets) for name, entry in algos.ALGORITHMS.items()}
    assert {name: set(table) - {"defaults"} for name, table in SOURCES.items()} == named


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_settings_are_their_sources(name: str, preset: str) -> None:
    """What the source says holds, and what it does not say is as in the defaults."""
    table = SOURCES[name]
    expected = table["defaults"].values | table[preset].values
    found = settings_of(name, "none" if preset == "defaults" else preset)
    assert {field: found[field] for field in expected} == expected, table[preset].where


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_a_preset_sets_nothing_that_is_not_in_its_source(name: str, preset: str) -> None:
    if preset != "defaults":
        set_here = set(algos.entry(name).presets[preset])
        assert set_here <= set(SOURCES[name][preset].values)


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("msg", [-2.0, 2.0]),
        ("iql", [-1.0, 0.0]),
        ("cql", [-2.0, 2.0]),
        ("sac-n", [0.0, 1.0]),
        ("edac", [0.0, 1.0]),
        ("td3-bc", [-1.0, 0.0]),
        ("rebrac", [0.0, 100.0]),
        ("fql", [-1.0, 0.0]),
    ],
)
def test_what_learning_sees_of_antmazes_rewards(
    name: str, seen: list[float], columns: dict[str, np.ndarray]
) -> None:
    """As the algorithm's source has it, whatever the dataset recommends to those without one."""
    rewards = np.arange(len(columns["rewards"])) % 2
    columns = {**columns, "rewards": rewards.astype(np.float32)}
    dataset = Dataset.from_columns(columns, name="antmaze-umaze-v2")
    _, run = resolve.configure(name, "auto", dataset.name)
    run, _ = resolve.complete_run(name, run, dataset)
    scaling = plan.scaling_of(dataset, run)
    assert np.unique(dataset.transitions(scaling).rewards).tolist() == seen


@pytest.mark.parametrize("dataset", ["tank.npz", "logs/heating.parquet", "data"])
def test_data_without_a_known_name_gets_settings_for_a_laptop(dataset: str) -> None:
    config, run = resolve.configure("msg", "auto", dataset)
    assert (config, run) == resolve.configure("msg", "own-data", "")
    assert config.members <= 10 and run.steps <= 50_000
    _, others = resolve.configure("iql", "auto", dataset)
    assert others.steps <= 50_000


def test_no_data_and_named_data_keep_their_settings() -> None:
    assert resolve.configure("msg", "auto", "") == resolve.configure("msg", "none", "")
    assert resolve.configure("msg", "auto", "pointmaze-umaze")[0].hidden == (64, 64, 64)


@pytest.mark.long
def test_training_says_what_it_took(
    columns: dict[str, np.ndarray], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = Dataset.from_columns(columns, name="heating")
    with pytest.warns(UserWarning, match="--batch-size 128 is larger than the data"):
        chary.train("msg", dataset, run=tmp_path / "run", steps=2, warmup_steps=1, hidden=(8, 8))
    said = capsys.readouterr().err
    assert "heating: data of your own. Preset own-data: 10 members of 8x8, batches of 128" in said
    assert "2 steps. Observations are scaled by quantiles; learning sees " in said
    named = Dataset.from_columns(columns, name="halfcheetah-medium-v2")
    resolve.explain_own(resolve.resolve("msg", named, "none", None, {}), named)
    assert capsys.readouterr().err == ""
