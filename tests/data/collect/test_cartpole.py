from pathlib import Path

import numpy as np
import pytest

from chary.cli import main
from chary.data import load
from chary.data.collect.cartpole import NAME, Job, collect_block, swing_up
from chary.envs import find_task

pytest.importorskip("dm_control")


def test_the_controller_swings_the_pole_up_and_keeps_it_there() -> None:
    task = find_task(NAME)
    assert task is not None
    environment = task.make()
    observation, _ = environment.reset(seed=0)
    rewards = []
    for _ in range(1000):
        push = np.clip([swing_up(observation)], -1.0, 1.0)
        observation, reward, *_ = environment.step(push)
        rewards.append(float(reward))
    environment.close()
    assert sum(rewards[:20]) < 5.0  # it hangs
    assert min(rewards[-200:]) > 0.95  # it stands


def test_episodes_range_from_helpless_to_good() -> None:
    block = collect_block(Job(5_000, seed=2, block=0))
    returns = block["rewards"].reshape(5, 1000).sum(axis=1)
    assert returns.min() < 250 and returns.max() > 550
    assert not block["terminals"].any()
    np.testing.assert_array_equal(np.flatnonzero(block["timeouts"]), np.arange(999, 5_000, 1000))
    going_on = ~block["timeouts"][:-1]
    np.testing.assert_array_equal(
        block["next_observations"][:-1][going_on], block["observations"][1:][going_on]
    )


def test_a_collected_file_is_read_as_the_named_dataset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "cartpole.hdf5"
    assert main(["data", "collect", NAME, "--steps", "1500", "--seed", "3", "--out", str(out)]) == 0
    assert "1,500" in capsys.readouterr().out
    by_file, by_name = load(str(out)), load(NAME, data_file=out)
    assert by_file.fingerprint == by_name.fingerprint
    assert by_file.name == by_name.name == NAME
    again = collect_block(Job(1_500, seed=3, block=0))
    np.testing.assert_array_equal(by_file.rewards, again["rewards"])
    assert main(["data", "collect", NAME, "--noise", "0.1", "--out", str(tmp_path / "b.npz")]) == 2
    assert "controller of its own" in capsys.readouterr().err
