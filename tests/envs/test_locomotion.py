from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from chary.envs import find_task
from chary.envs.locomotion import HORIZON, ROBOTS, make_robot


def replay(environment: Any, file: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Differences of next observation, reward and end for rows whose whole state was recorded."""
    with h5py.File(file) as stored:
        observations, actions, rewards, following, terminals = (
            np.asarray(stored[key])
            for key in ("observations", "actions", "rewards", "next_observations", "terminals")
        )
    simulator = environment.unwrapped
    positions, velocities = np.split(observations, [simulator.model.nq - 1], axis=1)
    # Hopper and walker observe velocities clipped to 10: the true ones are not known then. Of their
    # positions, all robots miss only how far along they are, which does not matter.
    clipped = np.abs(velocities).max(axis=1) >= 10
    known = np.flatnonzero(~clipped | ("halfcheetah" in file.name))
    differences = []
    for row in known[:600]:
        simulator.set_state(np.array([0, *positions[row]]), velocities[row])
        after, reward, terminated, *_ = simulator.step(actions[row])
        differences.append(
            (
                np.abs(after - following[row]).max(),
                abs(reward - rewards[row].item()),
                terminated != bool(terminals[row]),
            )
        )
    observation, reward, end = np.array(differences).T
    return observation, reward, end


@pytest.mark.parametrize(
    "name",
    [
        "hopper_medium-v2",
        "hopper_random-v1",
        "halfcheetah_medium-v2",
        "halfcheetah_random-v1",
        "walker2d_medium-v2",
        "walker2d_medium_replay-v1",
    ],
)
def test_real_data_is_replayed(name: str, real_data: Path) -> None:
    task = find_task(name.replace("_", "-"))
    assert task is not None
    environment = task.make()
    environment.reset(seed=0)
    observation, reward, end = replay(environment, real_data / "d4rl" / f"{name}.hdf5")
    assert len(observation) >= 5
    assert np.median(observation) < 2e-6 and observation.max() < 2e-4
    assert np.median(reward) < 1e-6 and reward.max() < 1e-5
    assert not end.any()


@pytest.mark.parametrize(
    ("robot", "size", "low", "high"),
    [
        ("hopper", 11, -20.272305, 3234.3),
        ("halfcheetah", 17, -280.178953, 12135.0),
        ("walker2d", 17, 1.629008, 4592.3),
        ("ant", 111, -325.6, 3879.7),
    ],
)
def test_observations_and_reference_scores_are_d4rls(
    robot: str, size: int, low: float, high: float
) -> None:
    for name in (robot, f"{robot}-medium", f"{robot}-medium-expert-v2", f"{robot}-mixed"):
        task = find_task(name)
        assert task is not None and task.name == name
        assert task.reference_scores == (low, high)
        assert not task.has_success and task.maze is None
        assert task.normalise(high) == pytest.approx(100.0)
    environment = make_robot(robot)
    observation, _ = environment.reset(seed=0)
    assert observation.shape == (size,) == environment.observation_space.shape


@pytest.mark.parametrize("name", ["hopper_medium-v2", "hopper-medium-v3", "humanoid", "hopper-"])
def test_other_names_are_none_of_ours(name: str) -> None:
    assert find_task(name) is None


def test_the_ants_contact_forces_are_empty() -> None:
    environment = make_robot("ant")
    environment.reset(seed=0)
    for action in np.random.default_rng(0).uniform(-1, 1, (30, 8)).astype(np.float32):
        observation, reward, *_, info = environment.step(action)
        assert (observation[27:] == 0).all() and (observation[13:27] != 0).all()
        expected = info["reward_forward"] + 1.0 - 0.5 * np.square(action).sum()
        assert reward == pytest.approx(expected, rel=1e-6)


def test_falling_still_pays_for_being_alive() -> None:
    """As in D4RL, unlike in Gymnasium's newest version."""
    environment = make_robot("hopper")
    environment.reset(seed=0)
    terminated = False
    while not terminated:
        _, reward, terminated, _, info = environment.step(np.ones(3, np.float32))
        assert reward == pytest.approx(info["x_velocity"] + 1.0 - 0.003)


def test_an_episode_is_cut_after_a_thousand_steps() -> None:
    environment = make_robot("halfcheetah")
    assert isinstance(environment, TimeLimit)
    environment.reset(seed=0)
    for step in range(1, HORIZON + 1):
        _, _, terminated, truncated, _ = environment.step(np.zeros(6, np.float32))
        assert not terminated and truncated == (step == HORIZON)


@pytest.mark.parametrize("robot", ROBOTS)
def test_nothing_is_printed_or_left_behind(
    robot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_robot(robot).close()
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")
