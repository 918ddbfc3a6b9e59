"""Without the extra `sim` a task says what to install, and own data needs none of it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from chary.envs import find_task
from chary.errors import CharyError

ABSENT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mujoco", "gymnasium_robotics"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from chary.cli import main
sys.exit(main(sys.argv[1:]))
"""


def without_sim(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", ABSENT, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize("name", ["pointmaze-umaze", "hopper-medium-v2", "antmaze-umaze-v2"])
def test_a_task_says_what_to_install(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def absent(module: str) -> None:
        raise ModuleNotFoundError(module)

    task = find_task(name)
    assert task is not None
    monkeypatch.setattr("chary.envs.physics.importlib.import_module", absent)
    with pytest.raises(CharyError, match=r"pip install 'chary\[sim\]'"):
        task.make()


@pytest.mark.long
def test_own_data_needs_no_simulator(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{t},{rng.normal():.3f},{rng.uniform():.3f},{rng.normal():.3f}" for t in range(60)]
    (tmp_path / "log.csv").write_text("\n".join(["t,s,a,r", *rows, ""]))
    columns = ["--observations", "s", "--actions", "a", "--reward", "r", "--one-episode"]
    out = tmp_path / "log.npz"
    result = without_sim("data", "import", tmp_path / "log.csv", "--out", out, *columns)
    assert result.returncode == 0, result.stderr
    tiny = ["--steps", 4, "--batch-size", 8, "--hidden", 8]
    result = without_sim("train", "bc", "--dataset", out, "--run", tmp_path / "run", *tiny)
    assert result.returncode == 0, result.stderr
