import json
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from chary.envs import find_task, registration


@pytest.mark.parametrize("name", ["antmaze-umaze-v2", "maze2d-umaze-v1", "pointmaze-umaze"])
def test_mazes_pass_gymnasiums_checks_pictures_included(name: str) -> None:
    environment = gymnasium.make(f"chary/{name}").unwrapped
    check_env(environment)
    environment.close()


@pytest.mark.parametrize("name", ["hopper", "ant-medium-v2"])
def test_robots_pass_gymnasiums_checks(name: str) -> None:
    environment = gymnasium.make(f"chary/{name}", disable_env_checker=True)
    with warnings.catch_warnings():  # Gymnasium's robots have no bounds, and ours a wrapper
        warnings.simplefilter("ignore")
        check_env(environment, skip_render_check=True)


def test_gymnasium_imports_the_tasks_by_itself() -> None:
    program = (
        "import gymnasium, json\n"
        "name = 'chary.envs.registration:chary/antmaze-umaze-v2'\n"
        "environment = gymnasium.make(name)\n"
        "observation, _ = environment.reset(seed=3)\n"
        "print(json.dumps(observation.tolist()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    task = find_task("antmaze-umaze-v2")
    assert task is not None
    expected, _ = task.make().reset(seed=3)
    np.testing.assert_array_equal(np.array(json.loads(done.stdout), np.float32), expected)


def test_every_registered_name_is_a_task() -> None:
    names = [
        name.removeprefix("chary/") for name in gymnasium.registry if name.startswith("chary/")
    ]
    assert {"antmaze-large-play-v0", "maze2d-large-dense-v1", "walker2d-full-replay-v2"} <= set(
        names
    )
    for name in names:
        assert find_task(name) is not None
    registration.register_all()  # again: nothing changes
    assert len([name for name in gymnasium.registry if name.startswith("chary/")]) == len(names)
