import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import chary
from chary import algos
from chary.algorithms import SUMMARIES
from chary.cli import main
from chary.data.dataset import Dataset
from chary.data.scaling import RewardTransform, Scaling
from chary.deploy import npz_file, onnx_file, reader
from chary.deploy.export import export
from chary.ensembles import ENSEMBLES
from chary.errors import CharyError
from chary.evaluation.agent import Agent
from tests.evaluation.test_limits import walks

STORED = Path(__file__).parent / "stored"
EXAMPLES = Path(__file__).parents[2] / "examples"
QUICK = ("msg", "bc", "fql")
KINDS = ("mimo", "dropout")
"""A program each: the others stand with the long tests."""


def named(names: Any, quick: tuple[str, ...]) -> list[Any]:
    return [name if name in quick else pytest.param(name, marks=pytest.mark.long) for name in names]


def an_agent(folder: Path, algorithm: str, **changes: Any) -> Agent:
    """An untrained agent, on data whose bounds and scales are not 1."""
    dataset = walks()
    low, high = np.array([[-2.0, 0.0], [2.0, 5.0]], np.float32)
    actions = low + 0.5 * (dataset.actions + 1.0) * (high - low)
    dataset = replace(dataset, actions=actions, action_low=low, action_high=high)
    config = algos.entry(algorithm).config()
    known = {field.name for field in fields(config)}
    settings = {"hidden": (8, 8), "members": 4} | changes
    config = replace(config, **{k: v for k, v in settings.items() if k in known})
    made = algos.build(algorithm, config, 3, 2)
    scaling = Scaling.of(dataset, RewardTransform(), normalise_observations="moments")
    folder.mkdir(exist_ok=True)
    record = {"algorithm": algorithm, "settings": {}, "dataset": {"name": "walks"}}
    (folder / "config.json").write_text(json.dumps(record))
    agent = Agent(made, made.init(jax.random.key(1)), scaling, None, seed=0, folder=folder)
    agent.set_limits(dataset)
    return agent


def goes_round(agent: Agent, folder: Path) -> None:
    """Both formats decide what the agent decides: they are compared before they are written."""
    for ending in (".onnx", ".npz"):
        found = export(agent, folder / f"agent{ending}")
        assert found.rows > 500 and found.action_error <= 1e-6 and found.value_error <= 1e-4
        for path in found.paths:
            assert path.stat().st_size > 1_000


@pytest.mark.parametrize("algorithm", named(SUMMARIES, QUICK))
def test_every_algorithm_goes_round(algorithm: str, tmp_path: Path) -> None:
    goes_round(an_agent(tmp_path / "run", algorithm), tmp_path)


@pytest.mark.parametrize("kind", named(ENSEMBLES, KINDS))
def test_every_kind_of_ensemble_goes_round(kind: str, tmp_path: Path) -> None:
    members = {"members": 1} if kind == "none" else {}
    goes_round(an_agent(tmp_path / "run", "msg", ensemble=kind, **members), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    "changes",
    [
        {"layer_norm": True},
        {"targets": "double-q"},
        {"policy": "deterministic", "entropy": "off"},
        {"critic_loss": "hl-gauss", "bins": 11, "value_range": (-5.0, 5.0)},
    ],
    ids=str,
)
def test_options_of_msg_go_round(changes: dict[str, Any], tmp_path: Path) -> None:
    goes_round(an_agent(tmp_path / "run", "msg", **changes), tmp_path)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Agent, Path]:
    """An agent and its files."""
    folder = tmp_path_factory.mktemp("exported")
    agent = an_agent(folder / "run", "msg")
    for ending in (".onnx", ".npz"):
        export(agent, folder / f"agent{ending}", flag_rate=0.05)
    return agent, folder


Read = Callable[[Path], tuple[Callable[..., dict[str, np.ndarray]], dict[str, Any]]]


@pytest.mark.parametrize(("read", "ending"), [(onnx_file.read, ".onnx"), (npz_file.read, ".npz")])
def test_a_file_takes_any_batch_and_says_where_it_comes_from(
    exported: tuple[Agent, Path], read: Read, ending: str
) -> None:
    agent, folder = exported
    run, metadata = read(folder / f"agent{ending}")
    rows = walks(3, 5).observations
    for count in (1, 2, 77):
        own = agent.decide(rows[:count], flag_rate=0.05)
        found = run(observations=rows[:count])
        np.testing.assert_allclose(found["action"], own.action, atol=1e-6)
        np.testing.assert_allclose(found["lcb"], own.lcb, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(found["outside_data"], own.outside_data)
        assert found["members"].shape == (4, count)
    assert metadata["flag_rate"] == 0.05 and metadata["algorithm"] == "msg"
    assert metadata["scaling"]["action_high"] == [2.0, 5.0]
    assert metadata["limits"]["held_out"] is False
    assert metadata["thresholds"]["distance"] == pytest.approx(
        agent.known_limits().thresholds(0.05)[1]
    )


def test_others_actions_are_judged(exported: tuple[Agent, Path]) -> None:
    agent, folder = exported
    rows = walks(1, 6).observations
    actions = np.random.default_rng(0).uniform([-2, 0], [2, 5], (len(rows), 2)).astype(np.float32)
    actions[0], actions[1] = np.nan, 9.0  # no number, and out of bounds
    own = agent.decide(rows, actions, invalid="outside", flag_rate=0.05)
    by_onnx, _ = onnx_file.read(folder / "agent-judge.onnx")
    for found in (
        by_onnx(observations=rows, actions=actions),
        reader.Agent(folder / "agent.npz").decide(rows, actions),
    ):
        np.testing.assert_allclose(found["mean"], own.mean, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(found["outside_data"], own.outside_data)
        assert found["outside_data"][:2].all() and np.isinf(found["std"][:2]).all()


def test_files_of_an_earlier_version_decide_as_they_did() -> None:
    """Made by 0.2.0: what people have exported must stay readable, and say the same."""
    with np.load(STORED / "expected.npz") as file:
        expected = dict(file)
    rows, actions = expected.pop("observations"), expected.pop("actions")
    for read, ending in ((onnx_file.read, ".onnx"), (npz_file.read, ".npz")):
        run, metadata = read(STORED / f"agent{ending}")
        assert metadata["format"] == 1
        for name, value in run(observations=rows).items():
            np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-5)
    judged = reader.Agent(STORED / "agent.npz").decide(rows, actions)
    np.testing.assert_allclose(judged["mean"], expected["judged"], rtol=1e-4, atol=1e-5)


def test_numbers_too_large_to_square_are_far(tmp_path: Path) -> None:
    """Without critics, distance alone flags them; a NaN would not."""
    agent = an_agent(tmp_path / "run", "bc")
    rows = np.array([[1e38, 1e38, 1e38], [3e38, -3e38, 3e38]], np.float32)
    own = agent.decide(rows)
    assert np.isinf(own.distance).all() and own.outside_data.all()
    for ending, read in ((".onnx", onnx_file.read), (".npz", npz_file.read)):
        export(agent, tmp_path / f"agent{ending}")
        found = read(tmp_path / f"agent{ending}")[0](observations=rows)
        assert np.isinf(found["distance"]).all() and found["outside_data"].all(), ending


def test_jax_reads_stablehlo(exported: tuple[Agent, Path]) -> None:
    agent, folder = exported
    found = export(agent, folder / "agent.stablehlo")
    assert [path.name for path in found.paths] == ["agent.stablehlo", "agent-judge.stablehlo"]


def test_the_reader_needs_numpy_alone(exported: tuple[Agent, Path]) -> None:
    _, folder = exported
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from agent_reader import Agent; import numpy;"
        "a = Agent(sys.argv[1] + '/agent.npz'); d = a.decide(numpy.zeros(3)); print(d['action'].shape);"
        "known = set(sys.stdlib_module_names) | {'numpy', 'agent_reader', '__main__'};"
        "print([n for n in sys.modules if n.split('.')[0] not in known and not n.startswith('_')])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import site; site.main(); {script}", str(folder)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[0] == "(1, 2)"
    assert "chary" not in done.stdout and "jax" not in done.stdout
    assert (folder / "agent_reader.py").read_text() == Path(reader.__file__).read_text()
    with pytest.raises(ValueError, match="3 columns"):
        reader.Agent(folder / "agent.npz").decide(np.zeros(4))
    with pytest.raises(ValueError, match="2 observation"):
        reader.Agent(folder / "agent.npz").decide(np.zeros((2, 3)), np.zeros((1, 2)))


def test_the_example_acts_by_onnxruntime(
    exported: tuple[Agent, Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = EXAMPLES / "act_onnx.py"
    monkeypatch.setattr(sys, "argv", [str(path), str(exported[1] / "agent.onnx")])
    runpy.run_path(str(path))
    said = capsys.readouterr().out
    assert "learned from walks by msg" in said and "outside data" in said


def test_the_control_loop_hands_back_where_the_data_ends() -> None:
    loop = runpy.run_path(str(EXAMPLES / "fall_back.py"))

    class Doubts:
        """Acts with full power, and doubts what is hot."""

        def decide(self, observation: np.ndarray) -> dict[str, np.ndarray]:
            return {"action": np.array([[5.0]]), "outside_data": np.array([observation[0] > 70])}

    _, handed, steps = loop["run"](Doubts(), broken=False, seed=0)
    _, handed_if_broken, _ = loop["run"](Doubts(), broken=True, seed=0)
    assert steps == 60 and 0 < handed < handed_if_broken


def test_a_file_that_is_not_the_agent_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = an_agent(tmp_path / "run", "bc")
    monkeypatch.setitem(reader.OPERATIONS, "tanh", np.sin)
    with pytest.raises(CharyError, match="not the agent"):
        export(agent, tmp_path / "agent.npz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_operations_that_no_file_has_are_named(tmp_path: Path) -> None:
    agent = an_agent(tmp_path / "run", "bc")
    act = agent.algorithm.act
    agent.algorithm = replace(
        agent.algorithm, act=lambda state, rows: act(state, jax.numpy.cumsum(rows, axis=1))
    )
    with pytest.raises(CharyError, match="cannot be exported: its networks use cumsum"):
        export(agent, tmp_path / "agent.npz")


def test_the_command(
    exported: tuple[Agent, Path], tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    agent, _ = exported
    monkeypatch.setattr("chary.cli.export.open_to_export", lambda *_: agent)
    out = tmp_path / "agent.npz"
    assert main(["export", "runs/x", "--out", str(out), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["file"] == str(out) and row["action_error"] <= 1e-6
    for words, said in (
        (["--out", str(out)], "already there"),
        (["--out", "agent.pt"], "exports end in .onnx, .npz, .stablehlo"),
        (["--out", str(tmp_path / "b.npz"), "--flag-rate", "2"], "between 0 and 1"),
    ):
        assert main(["export", "runs/x", *words]) == 2
        assert said in capsys.readouterr().err
    assert main(["export", "runs/x", "--out", str(out), "--overwrite"]) == 0


def test_without_onnx_it_says_what_to_install(
    exported: tuple[Agent, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(CharyError, match=r"pip install 'chary\[export\]'"):
        export(exported[0], tmp_path / "agent.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_a_run_records_where_its_data_ends(dataset: Dataset, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "hidden": (8, 8), "members": 2, "warmup_steps": 2, "batch_size": 16, "final_episodes": 1,
        "eval_every": 0, "holdout": 0.2,
    }  # fmt: skip
    trained = chary.train("msg", dataset, steps=6, run=tmp_path / "run", **settings)
    agent = chary.open_run(tmp_path / "run")
    limits = agent.known_limits()
    assert limits.held_out and limits.step == 6
    assert limits.thresholds() == trained.known_limits().thresholds()
    assert len(limits.spreads) == len(limits.distances) == 20  # one of six episodes
    export(agent, tmp_path / "agent.npz")
    # A damaged file costs a warning, and resuming makes it again.
    (tmp_path / "run" / "limits.npz").write_bytes(b"not a file of arrays")
    with pytest.warns(UserWarning, match=r"limits\.npz: cannot be read"):
        assert chary.open_run(tmp_path / "run").limits is None
    (tmp_path / "run" / "limits.npz").unlink()
    chary.resume(tmp_path / "run", dataset=dataset)
    assert chary.open_run(tmp_path / "run").known_limits().thresholds() == limits.thresholds()
