"""A run that acts in its task: what it keeps, how it resumes, and what it does when the task fails."""

import json
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import chary
from chary.data.dataset import Dataset
from chary.errors import CharyError, TaskError
from chary.runs.folder import RunFolder
from chary.training import records
from tests.conftest import make_columns

QUICK: dict[str, Any] = {
    "steps": 80, "warmup": 20, "environments": 4, "loosen_steps": 30, "log_every": 20,
    "eval_every": 40, "eval_episodes": 2, "final_episodes": 2, "checkpoint_minutes": 0.0,
}  # fmt: skip
WALK = "tests.online.walk:make"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Dataset]:
    folder = tmp_path_factory.mktemp("parent")
    dataset = Dataset.from_columns(make_columns(), name="tiny")
    chary.train(
        "msg", dataset, run=folder / "p", steps=10, members=2, hidden=(8,), batch_size=8, alpha=0.5,
        warmup_steps=0, eval_every=0, final_episodes=0, n_step=2,
    )  # fmt: skip
    return folder / "p", dataset


def bits(state: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state)]


def tune(trained: tuple[Path, Dataset], out: Path, **changes: Any) -> chary.Agent:
    run, dataset = trained
    return chary.finetune(run, dataset=dataset, out=out, **{"env": WALK, **QUICK, **changes})


@pytest.fixture(scope="module")
def whole(trained: tuple[Path, Dataset], tmp_path_factory: pytest.TempPathFactory) -> chary.Agent:
    """A run that nothing disturbed."""
    return tune(trained, tmp_path_factory.mktemp("whole") / "f")


def test_it_keeps_all_that_happened(trained: tuple[Path, Dataset], whole: chary.Agent) -> None:
    folder = RunFolder.open(whole.folder)
    assert not folder.foreign()
    assert Path(folder.config["online"]["parent"]) == trained[0].resolve()
    files = list(folder.rows())
    rows = {name: np.concatenate([file[name] for file in files]) for name in files[0]}
    assert len(rows["rewards"]) == 80
    episodes = folder.read("episodes")
    ends = rows["terminals"] | rows["timeouts"]
    assert [e["step"] - 1 for e in episodes] == np.flatnonzero(ends).tolist()
    own = np.arange(0, 80, 4)  # those of the first environment
    first = next(e for e in episodes if e["environment"] == 0)
    assert first["return"] == pytest.approx(rows["rewards"][own][: first["length"]].sum(), rel=1e-5)
    # Where an episode goes on, a row begins where the one before has led.
    going = ~ends[own][:-1]
    np.testing.assert_array_equal(
        rows["next_observations"][own][:-1][going], rows["observations"][own][1:][going]
    )
    assert [e["step"] for e in folder.read("evals")] == [0, 40, 80]
    lines = folder.read("metrics")
    assert [line["step"] for line in lines] == [20, 40, 60, 80]
    assert "critic/td" not in lines[0] and lines[1]["critic/td"] > 0.0  # warm-up first
    assert [line["online/pessimism"] for line in lines] == pytest.approx([1.0, 1 / 3, 0.0, 0.0])
    assert lines[-1]["online/std"] == pytest.approx(rows["spreads"][60:].mean(), rel=1e-5)


def test_stopped_anywhere_it_resumes_to_the_same_bits(
    trained: tuple[Path, Dataset], whole: chary.Agent, tmp_path: Path
) -> None:
    tune(trained, tmp_path / "cut", steps=40)
    cut = chary.resume(tmp_path / "cut", dataset=trained[1], steps=80)
    assert bits(cut.state) == bits(whole.state)
    for log in ("metrics", "episodes", "evals"):
        whole_log, cut_log = (agent.folder / f"{log}.jsonl" for agent in (whole, cut))
        assert whole_log.read_text() == cut_log.read_text(), log


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("raises", r"step \d of episode 1 of copy 0 failed \(RuntimeError: the gripper\)"),
        pytest.param(
            "nan", "led to an observation that is nan in column 1", marks=pytest.mark.long
        ),
        pytest.param("hangs", "took longer than 0.2 seconds", marks=pytest.mark.long),
    ],
)
def test_a_task_that_fails_loses_nothing(
    trained: tuple[Path, Dataset], whole: chary.Agent, tmp_path: Path, fault: str, words: str
) -> None:
    with pytest.raises(TaskError, match=words) as raised:
        tune(
            trained,
            tmp_path / "f",
            env=f"tests.online.walk:{fault}",
            step_seconds=0.2,
            eval_every=0,
        )
    # Each of the four copies takes ten steps before it fails.
    assert f"Saved at step 40; resume with `chary resume {tmp_path / 'f'}`" in str(raised.value)
    folder = RunFolder.open(tmp_path / "f")
    step = folder.checkpoint_steps()[-1]
    assert sum(len(file["rewards"]) for file in folder.rows()) == step == 40
    config = json.loads((tmp_path / "f" / "config.json").read_text())
    config["run"]["env"] = WALK  # mended
    (tmp_path / "f" / "config.json").write_text(json.dumps(config))
    resumed = chary.resume(tmp_path / "f", dataset=trained[1])
    assert bits(resumed.state) == bits(whole.state)


@pytest.mark.long
def test_a_task_that_does_not_repeat_itself_is_said_to(
    trained: tuple[Path, Dataset], tmp_path: Path
) -> None:
    env = "tests.online.walk:forgets"
    tune(trained, tmp_path / "f", steps=40, env=env)
    with pytest.warns(UserWarning, match="does not repeat its episode"):
        chary.resume(tmp_path / "f", dataset=trained[1], steps=60)
    rows = list(RunFolder.open(tmp_path / "f").rows())
    assert sum(len(file["cuts"]) for file in rows) > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chary.resume(tmp_path / "f", dataset=trained[1], steps=80)  # what was cut stays cut


def test_rows_that_are_gone_are_noticed(trained: tuple[Path, Dataset], tmp_path: Path) -> None:
    tune(trained, tmp_path / "f", steps=40)
    next((tmp_path / "f" / "online").glob("*.npz")).unlink()
    with pytest.raises(CharyError, match=r"online: has \d+ rows, but the checkpoint is of step 40"):
        chary.resume(tmp_path / "f", dataset=trained[1], steps=80)


@pytest.mark.long
def test_the_guard_brings_pessimism_back(
    trained: tuple[Path, Dataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chary.online.feed import Rounds

    monkeypatch.setattr(Rounds, "_return_before", lambda _: 1e6)
    tune(trained, tmp_path / "f", steps=160)
    lines = RunFolder.open(tmp_path / "f").read("metrics")
    assert lines[-1]["online/pessimism"] == 1.0
    assert lines[-1]["online/beta"] == lines[0]["online/beta"]
    episodes = RunFolder.open(tmp_path / "f").read("episodes")
    assert [e["guard"] for e in episodes] == [False] * 19 + [True] * (len(episodes) - 19)


@pytest.mark.long
def test_a_policy_may_end_optimistic(trained: tuple[Path, Dataset], tmp_path: Path) -> None:
    ends = {
        beta: float(
            tune(trained, tmp_path / str(beta), policy_beta=beta, steps=60).state.hyper.beta
        )
        for beta in (0.0, 2.0)
    }
    own = float(chary.open_run(trained[0]).state.hyper.beta)
    # A hundredth of the run's own beta is left.
    assert ends == pytest.approx({0.0: 0.01 * own, 2.0: 0.01 * own + 0.99 * 2.0})


@pytest.mark.long
def test_from_nothing_random_actions_come_first(tmp_path: Path) -> None:
    small: dict[str, Any] = {"members": 2, "hidden": (8,), "batch_size": 8}
    agent = chary.train_online("msg", WALK, run=tmp_path / "o", **{**QUICK, **small})
    spec = records.spec_of(RunFolder.open(tmp_path / "o"))
    assert spec.online is not None and spec.online.from_nothing and spec.online.warmup == 0
    assert chary.load(tmp_path / "o" / "start.npz").size == 20
    assert agent.act(np.zeros(3, np.float32)).shape == (2,)
    longer = chary.resume(tmp_path / "o", steps=120)
    assert int(longer.state.step) == 120


def test_wrong_input(trained: tuple[Path, Dataset], tmp_path: Path, dataset: Dataset) -> None:
    with pytest.raises(
        CharyError, match=r"--steps is 81, but must be a multiple of --environments"
    ):
        tune(trained, tmp_path / "a", steps=81)
    with pytest.raises(CharyError, match="has no simulator to act in"):
        tune(trained, tmp_path / "b", env=None)
    run, _ = trained
    other = Dataset.from_columns(make_columns(seed=1), name="tiny")
    with pytest.raises(CharyError, match="is not what this run learned from"):
        chary.finetune(run, dataset=other, out=tmp_path / "c", env=WALK, **QUICK)
    chary.train("bc", dataset, run=tmp_path / "bc", steps=5, batch_size=8, final_episodes=0)
    with pytest.raises(CharyError, match="no critics"):
        chary.finetune(tmp_path / "bc", dataset=dataset, out=tmp_path / "d", env=WALK, **QUICK)
    assert not any((tmp_path / name).exists() for name in "abc")
    tune(trained, tmp_path / "e", steps=40)
    with pytest.raises(CharyError, match="already holds a run"):
        tune(trained, tmp_path / "e", steps=40)
