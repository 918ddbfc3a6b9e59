"""What every algorithm beside MSG must do: train, resume exactly, say how sure it is, refuse."""

import re
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import chary
from chary import algos
from chary.cli import main
from chary.data.dataset import Dataset
from chary.errors import CharyError
from chary.training import resolve

TINY: dict[str, dict[str, Any]] = {
    "iql": {"policy_decay_steps": 20},
    "cql": {"warmup_steps": 5, "samples": 2, "lagrange_threshold": 5.0},
    "crr": {"target_period": 3},
    "fbrc": {"warmup_steps": 5, "behaviour_hidden": (8,)},
    "sac-n": {"members": 3},
    "edac": {"members": 3},
    "rem": {"members": 3},
    "td3-bc": {"policy_delay": 3},
    "rebrac": {},
    "fql": {},
}
"""A few settings of each algorithm, such that every phase of it is reached."""
COMMON: dict[str, Any] = {"hidden": (8,), "batch_size": 16, "log_every": 5}
BAD = [
    ("iql", "expectile", 1.0),
    ("iql", "inverse_temperature", -1.0),
    ("iql", "inverse_temperature", float("inf")),
    ("iql", "policy_decay_steps", -1),
    ("iql", "discount", 1.5),
    ("cql", "alpha", -1.0),
    ("cql", "samples", 0),
    ("cql", "lagrange_threshold", float("inf")),
    ("cql", "target_entropy", float("nan")),
    ("crr", "samples", 0),
    ("crr", "beta", 0.0),
    ("crr", "target_period", 0),
    ("fbrc", "fisher_weight", -0.1),
    ("fbrc", "behaviour_hidden", ()),
    ("fbrc", "warmup_steps", 0),
    ("sac-n", "members", 0),
    ("sac-n", "temperature", 0.0),
    ("edac", "members", 1),
    ("edac", "eta", -1.0),
    ("rem", "members", 0),
    ("td3-bc", "alpha", -1.0),
    ("td3-bc", "policy_noise", float("nan")),
    ("td3-bc", "noise_clip", -0.1),
    ("rebrac", "policy_delay", 0),
    ("rebrac", "policy_penalty", -1.0),
    ("rebrac", "critic_penalty", float("inf")),
    ("fql", "alpha", -1.0),
    ("fql", "flow_steps", 0),
    ("fql", "hidden", ()),
]


def bits(tree: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]


@pytest.mark.parametrize(
    "name",
    [
        # What these add to others' code is tested by their losses.
        pytest.param(
            name,
            marks=pytest.mark.long
            if name in ("crr", "edac", "fbrc", "rebrac", "rem", "sac-n", "td3-bc")
            else (),
        )
        for name in TINY
    ],
)
def test_it_trains_and_resumes_to_the_same_bits(
    name: str, dataset: Dataset, tmp_path: Path
) -> None:
    """From the checkpoint at step 10, which is there because an evaluation would be."""
    settings = {**COMMON, **TINY[name], "eval_every": 10}
    whole = chary.train(name, dataset, run=tmp_path / "whole", steps=20, **settings)
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    shutil.rmtree(tmp_path / "cut" / "checkpoints" / "20")
    resumed = chary.resume(tmp_path / "cut", dataset=dataset)
    assert bits(resumed.state) == bits(whole.state)
    logs = [(tmp_path / run / "metrics.jsonl").read_text() for run in ("whole", "cut")]
    assert logs[0] == logs[1] and len(logs[0].splitlines()) == 4

    actions = whole.act(dataset.observations[:20])
    assert actions.shape == (20, 2) and (np.abs(actions) <= 1.0).all()
    drawn = whole.act(dataset.observations[:20], key=jax.random.key(0))
    assert (np.abs(drawn) <= 1.0).all()
    says = whole.uncertainty(dataset.observations[:20], actions)
    assert np.isfinite(says.members).all()
    if len(says.members) == 2:  # what the policy goes by is the smaller one, or for some the mean
        goes_by = np.mean if name in ("crr", "fql") else np.min
        np.testing.assert_allclose(says.lcb, goes_by(says.members, axis=0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", TINY)
def test_presets_fit_and_help_explains_every_setting(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    presets = algos.entry(name).presets
    assert {"paper-antmaze", "paper-gym", "paper-maze2d", "paper-rlu", "small"} <= set(presets)
    for preset in presets:
        _, run = resolve.configure(name, preset, "")
        assert run.steps >= 1_000 and preset.endswith("small") == (run.steps < 100_000)
    with pytest.raises(SystemExit):
        main(["train", name, "--help"])
    text = capsys.readouterr().out
    fields = [field.replace("_", "-") for field in vars(algos.entry(name).config())]
    assert {"hidden", "policy-learning-rate"} <= set(fields)
    for option in (*fields, "return-range"):
        # Between an option and its default there is a sentence.
        found = re.search(rf"^\W*--{option}[ ,](.*?)\(default:", text, re.DOTALL | re.MULTILINE)
        assert found and found[1].rstrip(" \n│|").endswith("."), option


@pytest.mark.parametrize(("name", "setting", "value"), BAD)
def test_settings_that_make_no_sense_are_refused(name: str, setting: str, value: object) -> None:
    with pytest.raises(CharyError, match=f"--{setting.replace('_', '-')} is"):
        algos.entry(name).config(**{setting: value})


def test_rewards_are_scaled_to_a_range_of_returns(dataset: Dataset, tmp_path: Path) -> None:
    settings = {**COMMON, "return_range": 10.0, "reward_scale": 3.0}
    agent = chary.train("crr", dataset, run=tmp_path / "run", steps=2, **settings)
    returns = dataset.episode_returns * agent.scaling.reward.scale
    assert np.ptp(returns) == pytest.approx(10.0, rel=1e-5)
    flat = Dataset.from_columns(
        {
            "observations": dataset.observations,
            "actions": dataset.actions,
            "rewards": np.zeros(dataset.size, np.float32),
            "next_observations": dataset.next_observations,
            "terminals": dataset.terminals,
            "timeouts": dataset.timeouts,
        },
        name="flat",
    )
    with pytest.raises(CharyError, match="all episodes have the same return"):
        chary.train("crr", flat, run=tmp_path / "flat", steps=2, **settings)
