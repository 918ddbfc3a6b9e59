"""What is true on two devices: run by `test_devices.py`, in a process where the processor is two."""

import os

os.environ["XLA_FLAGS"] += " --xla_force_host_platform_device_count=2"

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import chary
from chary import training
from chary.algos.msg import make_msg
from chary.algos.msg_config import MSGConfig
from chary.chunk import Carry, compile_chunk, initial_carry
from chary.data.dataset import Dataset
from chary.data.scaling import RewardTransform, Scaling
from chary.devices import BY_MEMBER, EVERYWHERE
from chary.errors import CharyError
from chary.runs import RunFolder
from tests.test_population import bits, logs, stop_after

SMALL: dict[str, Any] = {"members": 4, "hidden": (8,), "batch_size": 16, "warmup_steps": 5}
QUICK: dict[str, Any] = {**SMALL, "log_every": 10, "eval_every": 0}


def close(one: Any, other: Any) -> None:
    """Only the order of additions may differ."""
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        {"targets": "independent"},
        {"targets": "double-q", "regulariser_samples": "own"},
        {"targets": "shared-lcb", "chunk": 1},
        {"ensemble": "prior", "alpha": 0.0},
    ],
)
def test_twenty_steps_are_those_of_one_device(changes: dict[str, Any], dataset: Dataset) -> None:
    scaling = Scaling.of(dataset, RewardTransform(), normalise_observations=False)
    data, after = dataset.transitions(scaling), []
    for devices in (1, 2):
        algorithm = make_msg(MSGConfig(devices=devices, **SMALL, **changes), 3, 2)
        begin = initial_carry(algorithm, 16, 3, 2, seed=0)
        if algorithm.spread is not None:
            spread = algorithm.spread
            begin = Carry(spread.place(begin.state), *spread.everywhere((begin.sums, begin.steps)))
            data = spread.everywhere(data)
        carry = compile_chunk(algorithm, 16)(begin, data, 0, 20, jax.random.key(1))
        assert all(leaf.is_deleted() for leaf in jax.tree.leaves(begin.state.critics))  # in place
        after.append(carry)
    one, two = after
    close(one, two)
    state = two.state
    for leaf in jax.tree.leaves((state.critics, state.critic_optimiser.mu)):
        assert leaf.sharding.spec == BY_MEMBER and len(leaf.sharding.device_set) == 2
        assert [shard.data.shape[0] for shard in leaf.addressable_shards] == [2, 2]
    for leaf in jax.tree.leaves((state.policy, two.sums)):
        assert leaf.sharding.spec == EVERYWHERE and len(leaf.sharding.device_set) == 2


def test_a_run_is_stopped_resumed_opened_and_moved(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = chary.train("msg", dataset, run=tmp_path / "whole", steps=40, devices="all", **QUICK)
    assert RunFolder.open(whole.folder).config["settings"]["devices"] == 2
    with monkeypatch.context() as patch:
        stop_after(patch, 17)
        with pytest.raises(KeyboardInterrupt):
            chary.train("msg", dataset, run=tmp_path / "cut", steps=40, devices=2, **QUICK)
    resumed = chary.resume(tmp_path / "cut", dataset=dataset)
    assert bits(resumed.state) == bits(whole.state)
    assert len(set(logs(tmp_path).values())) == 1
    # On one device it is opened as it is, and goes on but for rounding.
    opened = chary.open_run(tmp_path / "cut")
    assert bits(opened.state) == bits(whole.state) and opened.algorithm.spread is None
    assert {len(leaf.devices()) for leaf in jax.tree.leaves(opened.state)} == {1}
    further = chary.resume(tmp_path / "whole", dataset=dataset, steps=50)
    moved = training.resume_group(tmp_path / "cut", dataset=dataset, steps=50, spread=1)
    close(further.state, moved[tmp_path / "cut"].state)  # pyright: ignore[reportOptionalMemberAccess]
    assert RunFolder.open(tmp_path / "cut").config["settings"]["devices"] == 1


def test_runs_side_by_side_are_spread_too(dataset: Dataset, tmp_path: Path) -> None:
    agents = chary.train_population(
        "msg", dataset, run=tmp_path / "all", seeds=[0, 1], steps=20, devices=2, **QUICK
    )
    alone = chary.train("msg", dataset, run=tmp_path / "alone", seed=1, steps=20, **QUICK)
    close(agents[1].state, alone.state)


def test_more_devices_than_there_are(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(CharyError, match=r"there are 2 here \(cpu\).*device_count=4"):
        chary.train("msg", dataset, run=tmp_path / "x", steps=20, devices=4, **QUICK)
    assert not (tmp_path / "x").exists()
