import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from chary.data import load
from chary.envs import find_task
from chary.envs.control import TASKS, ControlSuite, find
from chary.errors import CharyError

CARTPOLE = "rlu-cartpole-swingup"


def set_cartpole(environment: ControlSuite, observation: np.ndarray) -> None:
    """Put cart and pole where an observation says they are."""
    place, cosine, sine, *velocities = observation.astype(np.float64)
    physics = environment.suite.physics
    with physics.reset_context():
        physics.data.qpos[:] = [place, np.arctan2(sine, cosine)]
        physics.data.qvel[:] = velocities


def test_names() -> None:
    assert len(TASKS) == 9
    assert find("cartpole-swingup") is None and find_task("rlu-nothing") is None
    task = find_task("rlu-manipulator-insert-peg")
    assert task is not None and task.normalise(250.0) == 25.0


@pytest.mark.parametrize("name", TASKS)
def test_observations_and_actions_are_those_of_the_suite(name: str) -> None:
    task = TASKS[name]
    environment = ControlSuite(task)
    from dm_control import suite  # imported by then, without its warnings

    # The keys, their order and their sizes are the specification's.
    specification = environment.suite.observation_spec()
    sizes = {key: int(np.prod(spec.shape)) for key, spec in specification.items()}
    assert list(sizes.items()) == list(task.observations.items())
    assert environment.action_space.shape == environment.suite.action_spec().shape
    first, _ = environment.reset(seed=3)
    same = suite.load(task.domain, task.task, task_kwargs={"random": 3}).reset().observation
    for key, size in task.observations.items():
        part, first = np.split(first, [size])
        # The cheetah is let fall before an episode, with other masses.
        np.testing.assert_allclose(part, np.ravel(same[key]), atol=5e-3, err_msg=key)
    # The old masses do not change which bodies share a frame with their inertia.
    model = environment.suite.physics.model
    stock = suite.load(task.domain, task.task).physics.model
    assert np.abs(model.body_ipos - stock.body_ipos).max() < 0.01
    assert (
        model.body_mass >= 0
    ).all() and 0.9 < model.body_mass.sum() / stock.body_mass.sum() <= 1.01


@pytest.mark.filterwarnings("ignore:.*This is probably too")  # observations have no bounds
def test_it_is_a_sound_gymnasium_environment() -> None:
    environment = ControlSuite(TASKS[CARTPOLE])
    check_env(environment, skip_render_check=True)
    environment.close()


def test_the_seed_decides_the_episode() -> None:
    environment = ControlSuite(TASKS["rlu-finger-turn-hard"])

    def roll(seed: int) -> np.ndarray:
        rows = [environment.reset(seed=seed)[0]]
        rows += [environment.step(np.array([0.5, -0.5]))[0] for _ in range(5)]
        return np.stack(rows)

    first = roll(1)
    assert (roll(2) != first).any()
    np.testing.assert_array_equal(roll(1), first)


def test_an_episode_ends_by_its_time_limit_alone() -> None:
    environment = ControlSuite(TASKS[CARTPOLE])
    environment.reset(seed=0)
    for step in range(1, 1001):
        _, reward, terminated, truncated, _ = environment.step(np.array([2.0]))  # clipped to 1
        assert 0.0 <= reward <= 1.0 and not terminated
        assert truncated == (step == 1000)
    assert environment.suite.physics.control() == [1.0]


def test_the_logged_cartpole_is_replayed(real_data: Path) -> None:
    """Observation, reward and alignment, from every logged state to float32's precision."""
    shard = real_data / "rlu" / "rlu_control_suite-cartpole_swingup-train-00000-of-00001"
    dataset = load(CARTPOLE, data_file=shard)
    environment = ControlSuite(TASKS[CARTPOLE])
    environment.reset(seed=0)
    for row in range(0, 999, 3):
        set_cartpole(environment, dataset.observations[row])
        observation, reward, *_ = environment.step(dataset.actions[row])
        np.testing.assert_allclose(observation, dataset.next_observations[row], atol=1e-6)
        np.testing.assert_allclose(reward, dataset.rewards[row], atol=2e-7)


def test_the_logged_actions_alone_lead_along_the_logged_path(real_data: Path) -> None:
    shard = real_data / "rlu" / "rlu_control_suite-cartpole_swingup-train-00000-of-00001"
    dataset = load(CARTPOLE, data_file=shard)
    environment = ControlSuite(TASKS[CARTPOLE])
    environment.reset(seed=0)
    set_cartpole(environment, dataset.observations[0])
    for row in range(300):
        observation, reward, *_ = environment.step(dataset.actions[row])
        np.testing.assert_allclose(observation, dataset.next_observations[row], atol=1e-4)
        np.testing.assert_allclose(reward, dataset.rewards[row], atol=1e-5)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    task = find(CARTPOLE)
    assert task is not None
    monkeypatch.setitem(sys.modules, "dm_control", None)
    with pytest.raises(CharyError, match=r"pip install 'chary\[rlu\]'"):
        task.make()
