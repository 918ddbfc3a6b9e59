"""What is true on two devices: run by `test_devices.py`, in a process where the processor is two."""

import os

os.environ["XLA_FLAGS"] += " --xla_force_host_platform_device_count=2"

from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import chary
from chary import algos
from chary.data.dataset import Dataset
from chary.data.scaling import RewardTransform, Scaling
from chary.errors import CharyError
from chary.execution.config import Execution
from chary.execution.devices import BY_MEMBER, EVERYWHERE
from chary.execution.processes.leader import place
from chary.execution.program import Carry, compile_chunk, initial_carry, keys
from chary.runs.folder import RunFolder
from tests.conftest import make_columns
from tests.training.test_population import logs, states, stop_after

SMALL: dict[str, Any] = {"members": 4, "hidden": (8,), "batch_size": 16, "warmup_steps": 5}

SAC_N: dict[str, Any] = {"members": 4, "hidden": (8,), "batch_size": 16}


@cache
def twenty_steps(devices: int, name: str = "msg", **changes: Any) -> Carry:
    """What a run of seed 0 has after 20 steps, in place."""
    dataset = Dataset.from_columns(make_columns(), name="tiny")
    scaling = Scaling.of(dataset, RewardTransform(), normalise_observations=False)
    data = dataset.transitions(scaling)
    execution = Execution(devices=devices, window=changes.pop("window", None))
    config = algos.entry(name).config(**(SMALL if name == "msg" else SAC_N), **changes)
    algorithm = algos.build(name, config, 3, 2, execution)
    if algorithm.spread is not None:
        data = algorithm.spread.everywhere(data)
    begin = place(algorithm, initial_carry(algorithm, 16, 3, 2, seed=0), runs=1)
    carry = compile_chunk(algorithm, 16)(begin, data, 0, 20, keys(0)[1])
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(begin.state.critics))
    return carry


def close(one: Any, other: Any) -> None:
    """Only the order of additions may differ."""
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        {"targets": "double-q", "regulariser_samples": "own", "ensemble": "prior"},
        {"targets": "shared-lcb", "window": 1, "alpha": 0.0},
    ],
)
def test_twenty_steps_are_those_of_one_device(changes: dict[str, Any]) -> None:
    one, two = (twenty_steps(devices, **changes) for devices in (1, 2))
    close(one, two)
    state = two.state
    for leaf in jax.tree.leaves((state.critics, state.critic_optimiser.mu)):
        assert leaf.sharding.spec == BY_MEMBER and len(leaf.sharding.device_set) == 2
        assert [shard.data.shape[0] for shard in leaf.addressable_shards] == [2, 2]
    for leaf in jax.tree.leaves((state.policy, two.sums)):
        assert leaf.sharding.spec == EVERYWHERE and len(leaf.sharding.device_set) == 2


def test_sac_n_is_divided_too() -> None:
    one, two = (twenty_steps(devices, "sac-n", window=1) for devices in (1, 2))
    close(one, two)
    for leaf in jax.tree.leaves((two.state.critics.online, two.state.critics.optimiser.mu)):
        assert leaf.sharding.spec == BY_MEMBER and len(leaf.sharding.device_set) == 2


def test_runs_are_stopped_resumed_to_the_same_bits_and_opened_on_one_device(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them side by side, for which the members are the second axis; independent targets."""
    wanted: dict[str, Any] = {"seeds": [0, 1], "steps": 20, "log_every": 10, "eval_every": 0}
    wanted |= {"preset": "none", "normalise_observations": "none", "reward_scale": 1.0}
    whole = chary.train_population(
        "msg", dataset, run=tmp_path / "whole", devices="all", **wanted, **SMALL
    )
    assert RunFolder.open(whole[0].folder).config["execution"]["devices"] == 2
    with monkeypatch.context() as patch:
        stop_after(patch, 8)
        with pytest.raises(KeyboardInterrupt):
            chary.train_population(
                "msg", dataset, run=tmp_path / "cut", devices=2, **wanted, **SMALL
            )
    chary.resume(tmp_path / "cut" / "seed0", dataset=dataset)
    assert states(tmp_path / "cut") == states(tmp_path / "whole")
    assert logs(tmp_path / "cut") == logs(tmp_path / "whole")
    opened = chary.open_run(tmp_path / "cut" / "seed0")
    assert {len(leaf.devices()) for leaf in jax.tree.leaves(opened.state)} == {1}
    close(opened.state, twenty_steps(1).state)


def test_more_devices_than_there_are(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(CharyError, match=r"there are 2 here \(cpu\).*device_count=4"):
        chary.train("msg", dataset, run=tmp_path / "x", steps=20, devices=4, **SMALL)
    assert not (tmp_path / "x").exists()
