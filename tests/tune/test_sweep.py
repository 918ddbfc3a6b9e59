"""Sweeps: the folder is the truth."""

import json
import shutil
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import chary
from chary.algos import paper
from chary.algos.msg_presets import PRESETS as MSG_PRESETS
from chary.cli import main
from chary.cli.sweep import PAPER
from chary.data import formats
from chary.data.dataset import Dataset
from chary.errors import CharyError
from chary.runs import checkpoints
from chary.runs.claims import claimed
from chary.runs.folder import RunFolder
from chary.training.resolve import resolve
from chary.training.run_config import RunSpec
from chary.tune import grid, sweep
from tests.conftest import call_chary, make_columns

TINY: dict[str, Any] = {
    "hidden": (8,), "members": 2, "batch_size": 16, "warmup_steps": 5, "steps": 20, "log_every": 10,
    "final_episodes": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset without a simulator, in a file."""
    path = tmp_path_factory.mktemp("data") / "tiny.npz"
    formats.write(Dataset.from_columns(make_columns(), name="tiny"), path)
    return path


def specs_of(
    data: Path, folder: Path, *, seeds: tuple[int, ...] = (0,), **changes: Any
) -> list[RunSpec]:
    spec = resolve("msg", data, "none", None, {**TINY, **changes})
    return grid.combinations(spec, folder, {"alpha": (0.0, 0.5)}, seeds)


def words_of(data: Path, folder: Path) -> list[str]:
    options = " ".join(
        f"--{key.replace('_', '-')} {value[0] if isinstance(value, tuple) else value}"
        for key, value in TINY.items()
    )
    line = f"sweep msg --dataset {data} --preset none {options} --out {folder}"
    return [*line.split(), "--grid", "alpha=0,0.5"]


def test_a_plan_is_read_as_it_was_made_and_may_be_moved(data: Path, tmp_path: Path) -> None:
    made = sweep.create(tmp_path / "a", specs_of(data, tmp_path / "a"))
    (tmp_path / "a").rename(tmp_path / "b")
    read = sweep.read(tmp_path / "b")
    assert [cell.spec.config for cell in read.cells] == [cell.spec.config for cell in made.cells]
    assert [cell.folder for cell in read.cells] == [
        tmp_path / "b" / name for name in ("alpha0-seed0", "alpha0.5-seed0")
    ]
    assert [cell.state for cell in read.cells] == ["waiting"] * 2


def test_a_plan_grows_but_never_changes(data: Path, tmp_path: Path) -> None:
    sweep.create(tmp_path, specs_of(data, tmp_path))
    more = sweep.create(tmp_path, specs_of(data, tmp_path, seeds=(0, 1)))
    assert [cell.folder.name for cell in more.cells] == [
        f"alpha{alpha}-seed{seed}" for seed in (0, 1) for alpha in (0, 0.5)
    ]
    before = (tmp_path / "sweep.json").read_bytes()
    with pytest.raises(
        CharyError, match=r"alpha0-seed0 is another run .*tau is 0\.005 there, not 0\.1"
    ):
        sweep.create(tmp_path, specs_of(data, tmp_path, tau=0.1))
    assert (tmp_path / "sweep.json").read_bytes() == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"cells": {"a": 1}}', "cannot be read"),
        ('{"cells": {"../a": {}}}', "not inside"),
        ('{"cells": {"a": {"algorithm": "msg"}}}', "damaged at a"),
    ],
)
def test_a_damaged_plan_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(CharyError, match=message):
        sweep.read(tmp_path)


def test_cells_are_trained_once_and_are_ordinary_runs(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "a"
    monkeypatch.chdir(data.parent)
    assert main([*words_of(Path(data.name), folder), "--plan-only"]) == 0
    monkeypatch.chdir(tmp_path)  # where a worker starts does not matter
    assert main(["sweep", str(folder), "--cell", "1"]) == 0
    capsys.readouterr()
    assert main(["sweep", str(folder), "--status", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["state"], row["step"]) for row in rows] == [("waiting", 0), ("complete", 20)]
    run = RunFolder.open(folder / "alpha0.5-seed0")
    assert run.config["settings"]["alpha"] == 0.5
    logged = (run.path / "metrics.jsonl").read_bytes()
    assert main(["sweep", str(folder), "--cell", "1"]) == 0
    assert (run.path / "metrics.jsonl").read_bytes() == logged
    changes = {**TINY, "alpha": 0.5, "preset": "none"}
    chary.train("msg", data, run=tmp_path / "alone", **changes)
    assert (tmp_path / "alone" / "metrics.jsonl").read_bytes() == logged


@pytest.mark.long
def test_an_interrupted_cell_is_resumed_to_the_same_bits(data: Path, tmp_path: Path) -> None:
    (first, _) = sweep.create(
        tmp_path, specs_of(data, tmp_path, eval_every=10, final_episodes=1)
    ).cells
    sweep.train([first])
    assert first.state == "complete"
    whole = _arrays(first)
    shutil.rmtree(first.folder / "checkpoints" / "20")
    assert first.state == "begun"
    sweep.train([first])
    assert _arrays(first) == whole and first.state == "complete"


def _arrays(cell: sweep.Cell) -> list[bytes]:
    agent = chary.open_run(cell.folder)
    assert checkpoints.steps(cell.folder / "checkpoints")[-1] == 20
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(agent.state)]


def test_cells_that_go_together(data: Path, tmp_path: Path) -> None:
    specs = specs_of(data, tmp_path, seeds=(0, 1, 2))
    other = [
        spec._replace(run=replace(spec.run, run=tmp_path / f"o-{spec.folder.name}"))
        for spec in specs
    ]
    specs += [spec._replace(config=replace(spec.config, members=3)) for spec in other[:2]]
    held = replace(specs[0].run, run=tmp_path / "held", validation=0.5)
    cells = sweep.create(tmp_path, [*specs, specs[0]._replace(run=held)]).cells

    def numbers(**how: Any) -> list[list[int]]:
        return [[cell.number for cell in group] for group in sweep.shared(cells, **how)]

    assert numbers(together=False, at_once=2) == [[number] for number in range(9)]
    assert numbers(together=True, at_once=None) == [[0, 1, 2, 3, 4, 5], [6, 7], [8]]
    assert numbers(together=True, at_once=2) == [[0, 1, 2], [3, 4, 5], [6], [7], [8]]


@pytest.mark.long
def test_cells_trained_together_are_ordinary_runs_and_resume(data: Path, tmp_path: Path) -> None:
    specs = specs_of(data, tmp_path / "a", seeds=(0, 1))[1::2]  # of one structure
    first, second = sweep.create(tmp_path / "a", specs).cells
    sweep.train([first, second])
    assert first.state == second.state == "complete"
    whole = [_arrays(cell) for cell in (first, second)]
    logged = (second.folder / "metrics.jsonl").read_bytes()
    alone = specs_of(data, tmp_path / "b", seeds=(1,))[1:]
    sweep.train(sweep.create(tmp_path / "b", alone).cells)
    assert (alone[0].folder / "metrics.jsonl").read_bytes() == logged

    for cell in (first, second):  # killed before they had saved for the first time
        _begun(cell.folder)
    (group,) = sweep.shared([first, second], together=False, at_once=2)  # they stay together
    sweep.train(group[:1])
    assert [_arrays(cell) for cell in (first, second)] == whole

    shutil.rmtree(second.folder)  # killed while the folders were made
    _begun(first.folder)
    sweep.train([first, second])
    assert [_arrays(cell) for cell in (first, second)] == whole
    assert RunFolder.open(first.folder).config["layout"]["population"]["index"] == 0


def _begun(folder: Path) -> None:
    """A run's folder as it is made."""
    record = {**RunFolder.open(folder).config, "saved": False}
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(record))


@pytest.mark.long
def test_a_whole_sweep_in_processes_of_its_own(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a"
    monkeypatch.setattr(sys, "argv", ["chary", *words_of(data, folder)])
    result = call_chary(*words_of(data, folder), "--json")
    assert result.returncode == 0, result.stderr
    assert [row["state"] for row in json.loads(result.stdout)["rows"]] == ["complete"] * 2
    assert "2 of 2 runs done" in result.stderr and "Traceback" not in result.stderr
    command = RunFolder.open(folder / "alpha0-seed0").config["command"]
    assert command.startswith("chary sweep msg --dataset")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "neither an algorithm (msg, bc"),
        (["{empty}"], "no sweep here"),
        (["{run}", "--jobs", "-1"], "--jobs is -1, but must be at least 1"),
        (["{run}", "--cell", "7"], "has no cell 7; they are numbered 0 to 1"),
        (["{run}", "--partition", "gpu"], "--partition is for --on slurm, not local"),
        (["{run}", "--time", "8h", "--on", "ray"], "--time is for --on slurm, not ray"),
        (["{run}", "--address", "auto"], "--address is for --on ray, not local"),
        (["{run}", "--gpus-per-run", "1"], "--gpus-per-run is for --on ray or slurm, not local"),
        (["{run}", "--cores-per-run", "1000"], "--cores-per-run is 1000, but must be at most"),
        (["{run}", "--on", "slurm", "--time", "long"], "a number with a unit: 90min, 8h or 2d"),
        (["{run}", "--on", "slurm", "--time", "0h"], "a number with a unit: 90min, 8h or 2d"),
    ],
)
def test_wrong_input(
    words: list[str], message: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep.create(tmp_path / "run", specs_of(data, tmp_path / "run"))
    (tmp_path / "empty").mkdir()
    places = {"empty": tmp_path / "empty", "run": tmp_path / "run"}
    assert main(["sweep", *(word.format(**places) for word in words)]) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_place_is_refused(data: Path, tmp_path: Path) -> None:
    sweep.create(tmp_path, specs_of(data, tmp_path))
    with pytest.raises(SystemExit) as refused:
        main(["sweep", str(tmp_path), "--on", "moon"])
    assert refused.value.code == 2


def test_what_makes_no_sense_is_refused_before_a_plan_is_written(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words_of(data, tmp_path / "a"), "--jobs", "0"]) == 2
    assert "--jobs is 0, but must be at least 1" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()
    assert main([*words_of(data, tmp_path / "a"), "--plan-only"]) == 0
    assert main([*words_of(data, tmp_path / "a"), "--plan-only", "--tau", "0.1"]) == 2
    assert "alpha0-seed0 is another run (tau is 0.005 there" in capsys.readouterr().err


def test_a_cell_in_use_is_not_trained(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (first, _) = sweep.create(tmp_path, specs_of(data, tmp_path)).cells
    with claimed(first.folder):
        assert main(["sweep", str(tmp_path), "--cell", "0"]) == 2
    assert "alpha0-seed0: in use by another process" in capsys.readouterr().err


def test_a_predecessor_that_is_ending_is_waited_for(data: Path, tmp_path: Path) -> None:
    (first, _) = sweep.create(tmp_path, specs_of(data, tmp_path)).cells
    first.folder.mkdir()
    held, began = threading.Event(), time.monotonic()

    def hold() -> None:
        with claimed(first.folder):
            held.set()
            time.sleep(0.3)

    threading.Thread(target=hold).start()
    held.wait()
    sweep.train([first], patience=20.0)
    assert first.state == "complete" and time.monotonic() - began > 0.3


@pytest.mark.parametrize(("name", "seeds"), [("paper-antmaze", 5), ("paper-gym", 2)])
def test_the_papers_sweeps(name: str, seeds: int, data: Path, tmp_path: Path) -> None:
    words = ["--dataset", str(data), "--out", str(tmp_path), "--plan-only", "--members", "4"]
    assert main(["sweep", name, *words]) == 0
    planned = sweep.read(tmp_path)
    values = paper.GRIDS["msg"][name].values
    assert len(planned.cells) == seeds * len(values["beta"]) * len(values["alpha"])
    assert {cell.spec.config.alpha for cell in planned.cells} == set(values["alpha"])
    assert {cell.spec.run.seed for cell in planned.cells} == set(range(seeds))
    spec = planned.cells[0].spec
    preset = MSG_PRESETS[name]
    assert (spec.preset, spec.run.steps, spec.config.members) == (name, preset["steps"], 4)
    assert spec.config.targets == preset.get("targets", "independent")


def test_every_grid_of_the_paper_has_a_sweep() -> None:
    assert set(PAPER) == set(paper.GRIDS["msg"]) <= set(MSG_PRESETS)


def test_a_run_is_no_sweep(data: Path, tmp_path: Path) -> None:
    RunFolder.create(tmp_path, {"algorithm": "msg"})
    with pytest.raises(CharyError, match="is a run itself"):
        sweep.create(tmp_path, specs_of(data, tmp_path))
