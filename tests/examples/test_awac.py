"""The algorithm that lives outside the package, as a user runs it: resumed, reported, exported."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import chary
from chary.data import formats
from chary.data.dataset import Dataset
from chary.deploy.reader import Agent
from tests.conftest import call_chary

EXAMPLE = Path(__file__).parents[2] / "examples" / "awac.py"
SMALL = ["--hidden", 8, "--batch-size", 8, "--log-every", 5, "--preset", "none"]


@pytest.mark.long
def test_it_trains_resumes_reports_and_exports(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(EXAMPLE, tmp_path / "mine_awac.py")
    formats.write(dataset, tmp_path / "data.npz")
    monkeypatch.chdir(tmp_path)
    run = ["train", "mine_awac:AWAC", "--dataset", "data.npz", "--run", "r", "--steps", 10, *SMALL]
    trained = call_chary(*run, cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    resumed = call_chary("resume", "r", "--steps", 20, "--json", cwd=tmp_path)
    assert json.loads(resumed.stdout)["rows"][0]["step"] == 20, resumed.stderr
    for command in (
        ["report", "r", "--out", "r.html"],
        ["export", "r", "--out", "r.npz"],
        ["runs", "."],
    ):
        done = call_chary(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert "mine_awac:AWAC" in (tmp_path / "r.html").read_text()
    agent = chary.open_run(tmp_path / "r")
    decided = Agent(tmp_path / "r.npz").decide(dataset.observations[:5])
    np.testing.assert_allclose(decided["action"], agent.act(dataset.observations[:5]), atol=1e-5)
    helped = call_chary("train", "mine_awac:AWAC", "--help", cwd=tmp_path)
    assert "--weight-limit" in helped.stdout and "Largest weight of one action" in helped.stdout


def test_what_others_named_is_not_imported_unasked(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil_awac.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    chary.train("bc", dataset, run="r", steps=2, batch_size=8, final_episodes=0)
    config = json.loads(Path("r/config.json").read_text())
    config["algorithm"] = "evil_awac:AWAC"
    Path("r/config.json").write_text(json.dumps(config))
    for command in (["resume", "r"], ["eval", "r"], ["export", "r", "--out", "x.npz"]):
        refused = call_chary(*command, cwd=tmp_path)
        assert refused.returncode == 2 and "--trust-code evil_awac:AWAC" in refused.stderr
