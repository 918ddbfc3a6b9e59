"""Many runs in one program: each is what it would be alone, and they go on together."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import chary
from chary.cli import main
from chary.data import formats
from chary.data.dataset import Dataset
from chary.errors import CharyError, DivergedError
from chary.execution import program as chunk
from chary.runs.folder import RunFolder
from chary.training import loop, population, resolve
from chary.training import start as training

QUICK: dict[str, Any] = {"hidden": (8, 8), "batch_size": 16, "log_every": 10, "eval_every": 0}
MSG_QUICK: dict[str, Any] = {**QUICK, "members": 2, "warmup_steps": 5}


def bits(tree: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]


def states(home: Path) -> dict[str, list[bytes]]:
    """The last state of every run below a folder."""
    return {path.name: bits(chary.open_run(path).state) for path in sorted(home.iterdir())}


def logs(home: Path) -> dict[str, str]:
    return {path.parent.name: path.read_text() for path in sorted(home.glob("*/metrics.jsonl"))}


def stop_after(monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
    """Ask to stop at a boundary, with a chunk a step."""
    left = iter(range(looks))

    class Stopper:
        def __enter__(self) -> Any:
            return lambda: next(left, None) is None

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(loop, "stop_requests", Stopper)
    monkeypatch.setattr(loop, "CHUNK_SECONDS", 0.0)


@pytest.mark.parametrize(
    ("algorithm", "varied", "one_program"),
    [
        ("bc", "learning_rate", False),
        pytest.param("msg", "alpha", False, marks=pytest.mark.long),
        pytest.param("msg", "alpha", True, marks=pytest.mark.long),
    ],
)
def test_every_run_is_what_it_would_be_alone(
    algorithm: str, varied: str, one_program: bool,
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """On a processor to the bit; in one program for all, as on accelerators, but for rounding."""
    monkeypatch.setattr(chunk, "in_one_program", lambda _: one_program)
    common: dict[str, Any] = {"steps": 20, **(MSG_QUICK if algorithm == "msg" else QUICK)}
    agents = chary.train_population(
        algorithm, dataset, run=tmp_path / "all", **common,
        seeds=[0, 1], settings={varied: [0.5, 1.0]},
    )  # fmt: skip
    names = [agent.folder.name for agent in agents]
    assert names == [f"{varied}{value}-seed{seed}" for value in ("0.5", "1") for seed in (0, 1)]
    for index, name in enumerate(names):
        config = RunFolder.open(tmp_path / "all" / name).config
        assert config["layout"]["population"] == {"names": names, "index": index}
        assert config["run"]["seed"] == index % 2
    changes: dict[str, Any] = {varied: 1.0, "seed": 1}
    alone = chary.train(algorithm, dataset, run=tmp_path / "alone", **common, **changes)
    assert (bits(agents[3].state) == bits(alone.state)) or one_program
    for beside, by_itself in zip(
        jax.tree.leaves(agents[3].state), jax.tree.leaves(alone.state), strict=True
    ):
        np.testing.assert_allclose(beside, by_itself, rtol=1e-5, atol=1e-5)
    lines = [RunFolder.open(a.folder).read("metrics")[-1] for a in (agents[3], alone)]
    assert lines[0] == pytest.approx(lines[1], rel=1e-4, abs=1e-5)


def test_runs_of_another_structure_are_another_program(
    dataset: Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the regulariser MSG leaves its passes out; numbers in the state change no program."""
    changes = {"members": 2, "hidden": (8,), "batch_size": 16}
    spec = resolve.resolve("msg", dataset, "none", None, changes)
    varied = {"alpha": (0.0, 0.5, 1.0), "beta": (-4.0, -8.0)}
    specs = population.vary(spec, Path("x"), dataset, [0], varied)
    groups = population.grouped(specs, dataset)
    assert [[(s.config.alpha, s.config.beta) for s in together] for together in groups] == [
        [(0.0, -4.0), (0.0, -8.0)],
        [(0.5, -4.0), (0.5, -8.0), (1.0, -4.0), (1.0, -8.0)],
    ]
    assert "6 runs, one group after the other: 2 + 4 (2 different" in capsys.readouterr().err


@pytest.mark.long
def test_a_group_stopped_anywhere_goes_on_to_the_same_bits(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a checkpoint is damaged or was not written in time: from the newest step of all."""
    wanted: dict[str, Any] = {"seeds": [5, 7], "steps": 40, **QUICK}
    chary.train_population("bc", dataset, run=tmp_path / "whole", **wanted)
    with monkeypatch.context() as patch:
        stop_after(patch, 17)
        with pytest.raises(KeyboardInterrupt, match=f"chary resume {tmp_path / 'cut'}`"):
            chary.train_population("bc", dataset, run=tmp_path / "cut", **wanted)
        stop_after(patch, 6)
        with pytest.raises(KeyboardInterrupt):
            chary.resume(tmp_path / "cut" / "seed5", dataset=dataset)
    runs = [tmp_path / "cut" / f"seed{seed}" for seed in (5, 7)]
    newest = [RunFolder.open(run).checkpoint_steps() for run in runs]
    assert newest[0] == newest[1] == [18, 25]
    shutil.rmtree(runs[0] / "checkpoints" / "25")  # killed as the others had saved
    agent = chary.resume(runs[1], dataset=dataset)
    assert agent.folder == runs[1]
    assert states(tmp_path / "cut") == states(tmp_path / "whole")
    assert logs(tmp_path / "cut") == logs(tmp_path / "whole")
    alone = chary.train("bc", dataset, run=tmp_path / "alone", steps=40, seed=7, **QUICK)
    for beside, by_itself in zip(
        jax.tree.leaves(agent.state), jax.tree.leaves(alone.state), strict=True
    ):
        np.testing.assert_allclose(beside, by_itself, rtol=1e-5, atol=1e-5)
    with pytest.raises(CharyError, match="already holds a run, at step 40"):
        chary.train_population("bc", dataset, run=tmp_path / "cut", **wanted)
    again = chary.train_population("bc", dataset, run=tmp_path / "cut", resume=True, **wanted)
    assert [agent.folder for agent in again] == runs
    assert states(tmp_path / "cut") == states(tmp_path / "whole")


def test_a_member_that_is_missing_is_named_with_what_to_do(
    dataset: Dataset, tmp_path: Path
) -> None:
    chary.train_population("bc", dataset, run=tmp_path, seeds=[0, 1], steps=10, **QUICK)
    (tmp_path / "seed1").rename(tmp_path / "elsewhere")
    with pytest.raises(
        CharyError, match=r"'seed1' cannot be resumed .*chary resume .*seed0 --alone"
    ):
        chary.resume(tmp_path / "seed0", dataset=dataset, steps=20)
    assert RunFolder.open(tmp_path / "seed0").config["run"]["steps"] == 10
    (tmp_path / "elsewhere").rename(tmp_path / "seed1")
    shutil.rmtree(tmp_path / "seed1" / "checkpoints" / "10" / "arrays")
    with pytest.raises(CharyError, match="no intact checkpoint"):
        chary.resume(tmp_path / "seed0", dataset=dataset, steps=20)
    training.resume_group(tmp_path / "seed0", dataset=dataset, steps=20, alone=True)
    assert RunFolder.open(tmp_path / "seed0").checkpoint_steps()[-1] == 20
    with pytest.raises(CharyError, match=r"'seed0' cannot be resumed .*was resumed alone"):
        chary.resume(tmp_path / "seed1", dataset=dataset)


@pytest.mark.long
def test_a_run_that_diverges_is_marked_and_the_others_go_on(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: dict[str, Any] = {"settings": {"learning_rate": [1e-3, 1e30]}, "steps": 40, **QUICK}
    chary.train_population("bc", dataset, run=tmp_path / "whole", **wanted)
    sound, wild = (tmp_path / "whole" / f"learning_rate{r}-seed0" for r in ("0.001", "1e+30"))
    assert RunFolder.open(wild).diverged() and not RunFolder.open(sound).diverged()
    assert RunFolder.open(sound).checkpoint_steps() == [40]
    assert len(RunFolder.open(wild).read("metrics")) < 4
    # Interrupted after that, the sound one goes on in the same program.
    with monkeypatch.context() as patch:
        stop_after(patch, 20)
        with pytest.raises(KeyboardInterrupt):
            chary.train_population("bc", dataset, run=tmp_path / "cut", **wanted)
    chary.resume(tmp_path / "cut" / sound.name, dataset=dataset)
    assert bits(chary.open_run(tmp_path / "cut" / sound.name).state) == bits(
        chary.open_run(sound).state
    )
    assert RunFolder.open(tmp_path / "cut" / wild.name).diverged()
    with pytest.raises(DivergedError, match="diverged"):
        chary.train_population(
            "bc",
            dataset,
            run=tmp_path / "none",
            learning_rate=1e30,
            seeds=[0, 1],
            steps=40,
            **QUICK,
        )


@pytest.mark.long
def test_killed_and_resumed_as_a_user_does(
    dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    formats.write(dataset, tmp_path / "data.npz")
    command = [
        "train", "bc", "--dataset", tmp_path / "data.npz", "--hidden", 8, 8, "--batch-size", 16,
        "--steps", 600, "--log-every", 50, "--checkpoint-minutes", 0.005, "--json",
        "--seeds", 0, 1, "--population", "learning-rate=1e-3", "--run",
    ]  # fmt: skip
    words = [str(word) for word in command]
    assert main([*words, str(tmp_path / "whole")]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["seed"], row["step"]) for row in rows] == [(0, 600), (1, 600)]
    process = subprocess.Popen(
        [sys.executable, "-m", "chary", *words, str(tmp_path / "cut")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    run = tmp_path / "cut" / "learning_rate0.001-seed1"
    while not (RunFolder.exists(run) and len(RunFolder.open(run).read("metrics")) > 4):
        assert process.poll() is None
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert main(["resume", str(tmp_path / "cut"), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["step"] for row in rows] == [600] * 2
    assert states(tmp_path / "cut") == states(tmp_path / "whole")
    assert logs(tmp_path / "cut") == logs(tmp_path / "whole")


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"settings": {"batch_size": [16.0, 32.0]}}, "These can vary: learning_rate"),
        ({"settings": {"learning_rate": [0.1, 0.1]}}, "names 0.1 more than once"),
        ({"seeds": [1, 2, 1]}, "--seeds names 1 more than once"),
        ({"seeds": [0, 1], "validation": 0.2}, "--validation holds out other episodes"),
        ({"seeds": [0, -1]}, "--seed is -1"),
    ],
)
def test_what_cannot_be_varied(
    wanted: dict[str, Any], words: str, dataset: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(CharyError, match=words):
        chary.train_population("bc", dataset, run=tmp_path / "runs", steps=10, **QUICK, **wanted)
    assert not (tmp_path / "runs").exists()


def test_settings_are_read_as_they_are_typed() -> None:
    config, _ = resolve.configure("msg", "none", "tiny")
    assert population.parse(["alpha=0,0.1", "critic-learning-rate=1e-4"], "msg", config) == {
        "alpha": (0.0, 0.1),
        "critic_learning_rate": (1e-4,),
    }
    for wrong in ("alpha", "alpha=", "alpha=0,x"):
        with pytest.raises(CharyError, match="such as alpha=0"):
            population.parse([wrong], "msg", config)


def test_runs_that_memory_does_not_take_at_once_are_split_evenly(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = resolve.resolve("bc", dataset, "none", None, {})
    specs = population.vary(spec, Path("x"), dataset, range(5), {})
    assert population.grouped(specs, dataset) == [specs]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(population, "available_memory", lambda: 25e6)
    assert [len(runs) for runs in population.grouped(specs, dataset)] == [2, 3]
    assert "5 runs, one group after the other: 2 + 3 (at " in capsys.readouterr().err
    monkeypatch.setattr(population, "available_memory", lambda: 0.0)
    assert [len(runs) for runs in population.grouped(specs, dataset)] == [1] * 5
