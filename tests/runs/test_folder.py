"""Run folders and checkpoints: nothing lost, nothing half-written, damage noticed."""

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import chary
from chary.data.dataset import Dataset
from chary.errors import CharyError
from chary.host.files import jsonable
from chary.runs import checkpoints
from chary.runs.folder import RunFolder, claimed
from tests.training.test_loop import QUICK, bits

CONFIG: dict[str, Any] = {"algorithm": "bc", "run": {}, "settings": {}}


def tree(value: float) -> dict[str, Any]:
    return {"weights": [jnp.full((50, 40), value), jnp.arange(3)], "step": jnp.int32(7)}


def new_folder(parent: Path) -> RunFolder:
    with claimed(parent / "run"):
        return RunFolder.create(parent / "run", CONFIG)


def largest_file(folder: Path) -> Path:
    return max((f for f in folder.rglob("*") if f.is_file()), key=lambda f: f.stat().st_size)


def flip_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def test_a_checkpoint_comes_back_to_the_bit(tmp_path: Path) -> None:
    state = tree(0.1)
    checkpoints.save(tmp_path, 5, state)
    assert checkpoints.steps(tmp_path) == [5]
    restored = checkpoints.restore(tmp_path, 5, tree(0.0))
    assert bits(restored) == bits(state)


@pytest.mark.parametrize("harm", ["flip", "truncate", "remove", "add", "manifest"])
def test_every_kind_of_damage_is_noticed(tmp_path: Path, harm: str) -> None:
    checkpoints.save(tmp_path, 5, {"w": jnp.asarray(np.random.default_rng(0).random((60, 60)))})
    victim = largest_file(tmp_path / "5" / "arrays")
    if harm == "flip":
        flip_byte(victim)
    elif harm == "truncate":
        victim.write_bytes(victim.read_bytes()[:-10])
    elif harm == "remove":
        victim.unlink()
    elif harm == "add":
        (victim.parent / "stranger").write_text("?")
    else:
        (tmp_path / "5" / checkpoints.MANIFEST).write_text("{")
    with pytest.raises(checkpoints.DamagedCheckpointError):
        checkpoints.restore(tmp_path, 5, {"w": jnp.zeros((60, 60))})


def test_a_checkpoint_of_another_shape_is_refused(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 1, tree(0.0))
    with pytest.raises(checkpoints.DamagedCheckpointError):
        checkpoints.restore(tmp_path, 1, {"other": jnp.zeros(3)})


def test_a_save_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints.save(tmp_path, 1, tree(0.0))

    def full(path: Path, _: Any) -> None:
        path.mkdir(parents=True)
        (path / "half").write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "_orbax_save", full)
    with pytest.raises(CharyError, match="No space left"):
        checkpoints.save(tmp_path, 2, tree(0.0))
    assert [entry.name for entry in tmp_path.iterdir()] == ["1"]


def test_pruning_keeps_what_is_asked_and_clears_leftovers(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        checkpoints.save(tmp_path, step, tree(float(step)))
    (tmp_path / ".saving-9").mkdir()
    checkpoints.prune(tmp_path, {1, 3})
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["1", "3"]


def test_the_newest_few_and_the_best_checkpoints_stay(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    for step, score in ((1, 10.0), (2, 90.0), (3, 20.0), (4, 30.0), (5, 40.0)):
        folder.append("evals", {"step": step, "score": score, "return": score, "returns": [score]})
        folder.save_checkpoint(step, tree(score))
    assert folder.checkpoint_steps() == [2, 4, 5]
    best, last = folder.best(), folder.last()
    assert best is not None and last is not None
    assert (best["step"], last["step"]) == (2, 5)


def test_of_equal_scores_the_later_is_best(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    for step in (1, 2):
        folder.append("evals", {"step": step, "score": 50.0, "return": 5.0, "returns": [5.0]})
    best = folder.best()
    assert best is not None and best["step"] == 2


def test_a_damaged_checkpoint_gives_way_to_the_one_before(dataset: Dataset, tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = {**QUICK, "steps": 40, "checkpoint_minutes": 0.0}
    whole = chary.train("bc", dataset, run=run, **settings)
    newest = max(RunFolder.open(run).checkpoint_steps())
    flip_byte(largest_file(run / "checkpoints" / str(newest) / "arrays"))
    with pytest.warns(UserWarning, match=rf"{newest}: damaged .* Resuming from step"):
        resumed = chary.resume(run, dataset=dataset)
    assert bits(resumed.state) == bits(whole.state)
    # The damaged one was replaced, so that the next start is clean.
    assert bits(chary.open_run(run).state) == bits(whole.state)


def test_without_any_sound_checkpoint_the_error_says_so(dataset: Dataset, tmp_path: Path) -> None:
    run = tmp_path / "run"
    chary.train("bc", dataset, run=run, steps=10, **QUICK)
    for step in RunFolder.open(run).checkpoint_steps():
        flip_byte(largest_file(run / "checkpoints" / str(step) / "arrays"))
    with pytest.raises(CharyError, match="no intact checkpoint"):
        chary.open_run(run)


def test_a_line_torn_by_a_crash_is_passed_over_and_cut(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    for step in (10, 20, 30):
        folder.append("metrics", {"step": step, "x": 0.1 + step})
    with open(tmp_path / "run" / "metrics.jsonl", "a") as file:
        file.write('{"step": 40, "x": 0.')
    assert [record["step"] for record in folder.read("metrics")] == [10, 20, 30]
    before = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[:2]
    folder.cut_back(20)
    assert (tmp_path / "run" / "metrics.jsonl").read_text().splitlines() == before


def test_cutting_also_removes_later_diagnostics(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    for step in (10, 20):
        folder.save_diagnostics(step, {"x": np.arange(3)})
    folder.cut_back(10)
    assert [path.stem for path in folder.diagnostics()] == ["10"]


def test_a_folder_is_held_by_one_user_at_a_time(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with claimed(run), pytest.raises(CharyError, match="in use"), claimed(run):
        pass
    with claimed(run):
        pass


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(CharyError, match="other files"), claimed(tmp_path):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_run_that_was_killed_as_it_began_leaves_a_usable_folder(tmp_path: Path) -> None:
    (tmp_path / ".config.json.new").write_text('{"algo')
    with claimed(tmp_path):
        RunFolder.create(tmp_path, {"algorithm": "bc"})
    assert RunFolder.open(tmp_path).config == {"algorithm": "bc"}


def test_a_second_run_in_the_same_folder_is_refused_with_the_reason(
    dataset: Dataset, tmp_path: Path
) -> None:
    chary.train("bc", dataset, run=tmp_path / "run", steps=10, **QUICK)
    with pytest.raises(CharyError, match="chary resume"):
        chary.train("bc", dataset, run=tmp_path / "run", steps=10, **QUICK)
    with pytest.raises(CharyError, match=r"other settings \(learning_rate"):
        chary.train("bc", dataset, run=tmp_path / "run", steps=10, learning_rate=0.5, **QUICK)
    chary.train("bc", dataset, run=tmp_path / "run", steps=10, resume=True, **QUICK)


def test_other_data_is_refused_on_resume(
    dataset: Dataset, columns: dict[str, np.ndarray], tmp_path: Path
) -> None:
    chary.train("bc", dataset, run=tmp_path / "run", steps=10, **QUICK)
    columns["rewards"] = columns["rewards"] + 1
    with pytest.raises(CharyError, match="fingerprint"):
        chary.resume(tmp_path / "run", dataset=Dataset.from_columns(columns, name="tiny"))


def test_another_version_is_warned_of(dataset: Dataset, tmp_path: Path) -> None:
    chary.train("bc", dataset, run=tmp_path / "run", steps=10, **QUICK)
    folder = RunFolder.open(tmp_path / "run")
    versions = {**folder.config["versions"], "jax": "0.0.1"}
    folder.write_config({**folder.config, "versions": versions})
    with pytest.warns(UserWarning, match=r"another versions \(jax 0.0.1 -> "):
        chary.resume(tmp_path / "run", dataset=dataset)


def test_logs_are_plain_json() -> None:
    record = {"a": np.float32(1.5), "b": [np.nan, np.inf], "c": np.arange(2), "d": Path("x")}
    assert json.dumps(jsonable(record), allow_nan=False)
    assert jsonable(record) == {"a": 1.5, "b": [None, None], "c": [0, 1], "d": "x"}


def test_the_config_repeats_the_run(dataset: Dataset, tmp_path: Path) -> None:
    chary.train("bc", dataset, run=tmp_path / "run", steps=10, seed=3, **QUICK)
    config = RunFolder.open(tmp_path / "run").config
    assert config["dataset"]["fingerprint"] == dataset.fingerprint
    assert config["run"]["seed"] == 3
    assert config["settings"]["hidden"] == [8, 8]
    assert {"jax", "numpy", "python"} <= set(config["versions"])
    assert config["layout"]["threads"] >= 1
