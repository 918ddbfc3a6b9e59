"""Run folders and checkpoints: nothing lost, nothing half-written, damage noticed."""

import itertools
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import chary
from chary.data.dataset import Dataset
from chary.errors import CharyError
from chary.host.files import jsonable, parse_json, write_whole
from chary.runs import checkpoints
from chary.runs.claims import claimed
from chary.runs.folder import RunFolder
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


def test_a_clock_that_jumps_by_days_does_not_stop_a_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = itertools.count()
    monkeypatch.setattr(time, "time", lambda: 86400.0 * next(days))
    checkpoints.save(tmp_path, 5, tree(0.1))
    assert bits(checkpoints.restore(tmp_path, 5, tree(0.0))) == bits(tree(0.1))


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
    with pytest.warns(UserWarning, match=r"metrics.jsonl: 1 line.* kept in aside/1/metrics.jsonl"):
        folder.cut_back(20)
    assert (tmp_path / "run" / "metrics.jsonl").read_text().splitlines() == before
    assert (tmp_path / "run/aside/1/metrics.jsonl").read_text() == '{"step": 40, "x": 0.\n'


def test_a_line_that_a_flipped_byte_made_unreadable_is_kept_aside(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    for step in (10, 20, 30):
        folder.append("evals", {"step": step, "return": 1.0, "returns": [1.0]})
    log = tmp_path / "run" / "evals.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    damaged = lines[1].replace(b'"step"', b'"sTep"')
    log.write_bytes(lines[0] + damaged + lines[2])
    with pytest.warns(UserWarning, match="cannot be read"):
        folder.cut_back(30)
    assert log.read_bytes() == lines[0] + lines[2]
    assert (tmp_path / "run/aside/1/evals.jsonl").read_bytes() == damaged
    folder.cut_back(20)  # nothing is odd any more: no second folder
    assert [path.name for path in (tmp_path / "run/aside").iterdir()] == ["1"]


def lose_to_nowhere(run: Path) -> None:
    """Checkpoints on a disk that is not mounted."""
    (run / "checkpoints").rename(run.parent / "disk")
    (run / "checkpoints").symlink_to(run.parent / "elsewhere" / "disk")


def lose_to_a_loop(run: Path) -> None:
    (run / "checkpoints").rename(run.parent / "disk")
    (run / "checkpoints").symlink_to(run / "checkpoints")


def lose_to_a_file(run: Path) -> None:
    (run / "checkpoints").rename(run.parent / "disk")
    (run / "checkpoints").write_text("")


def lose_to_damage(run: Path) -> None:
    for manifest in (run / "checkpoints").glob("*/manifest.json"):
        manifest.write_text("[]")


@pytest.mark.parametrize("lose", [lose_to_nowhere, lose_to_a_loop, lose_to_a_file, lose_to_damage])
def test_logs_without_a_checkpoint_are_not_cut_unless_asked(
    dataset: Dataset, tmp_path: Path, lose: Any
) -> None:
    run = tmp_path / "run"
    whole = chary.train("bc", dataset, run=run, steps=20, **QUICK)
    before = (run / "metrics.jsonl").read_bytes()
    lose(run)
    settings = {**QUICK, "run": run, "steps": 20}
    with pytest.raises(CharyError, match=r"no (intact )?checkpoint .*--from-start"):
        chary.resume(run, dataset=dataset)
    with pytest.raises(CharyError, match="already holds a run"):
        chary.train("bc", dataset, **settings)
    with pytest.raises(CharyError, match="--from-start"):
        chary.train("bc", dataset, resume=True, **settings)
    assert (run / "metrics.jsonl").read_bytes() == before and not (run / "aside").exists()
    again = chary.resume(run, dataset=dataset, from_start=True)
    assert bits(again.state) == bits(whole.state)
    assert (run / "metrics.jsonl").read_bytes() == before
    assert (run / "aside/1/metrics.jsonl").read_bytes() == before
    assert chary.resume(run, dataset=dataset) is not None


def test_a_run_killed_before_its_first_checkpoint_begins_again(
    dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    whole = chary.train("bc", dataset, run=run, steps=20, **QUICK)
    folder = RunFolder.open(run)
    (run / "checkpoints").rename(tmp_path / "gone")
    folder.write_config({**folder.config, "saved": False})
    again = chary.resume(run, dataset=dataset)
    assert bits(again.state) == bits(whole.state) and RunFolder.open(run).config["saved"]
    assert "begins again at step 0; what there was is in" in capsys.readouterr().err


def test_nothing_is_written_through_a_link(dataset: Dataset, tmp_path: Path) -> None:
    run, victim = tmp_path / "run", tmp_path / "victim"
    chary.train("bc", dataset, run=run, steps=10, **QUICK)
    for name in ("metrics.jsonl", ".lock", "diagnostics", "tensorboard", "config.json"):
        before = run / f"{name}-before"
        if (run / name).exists():
            (run / name).rename(before)
        victim.write_bytes(before.read_bytes() if before.is_file() else b"mine")
        kept = victim.read_bytes()
        (run / name).symlink_to(victim)
        with pytest.raises(CharyError, match="is a link"):
            chary.resume(run, dataset=dataset, steps=20)
        assert victim.read_bytes() == kept
        (run / name).unlink()
        if before.exists():
            before.rename(run / name)


def test_a_file_is_written_beside_links_that_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in (f".a-{os.getpid()}.json", ".a.json.new", ".a-guess"):
        (tmp_path / name).symlink_to(victim)
    guesses = iter(["guess", "another"])
    monkeypatch.setattr(tempfile, "_get_candidate_names", lambda: guesses)
    write_whole(tmp_path / "a.json", "{}")
    assert victim.read_text() == "mine" and (tmp_path / "a.json").read_text() == "{}"
    assert not any(path.is_dir() for path in tmp_path.iterdir())


def test_what_is_no_checkpoint_is_not_removed(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 5, tree(0.0))
    (tmp_path / "2024").mkdir()
    (tmp_path / "2024" / "photo.jpg").write_text("mine")
    checkpoints.prune(tmp_path, set())
    assert (tmp_path / "no-checkpoint-2024" / "photo.jpg").exists()
    assert checkpoints.steps(tmp_path) == []


def test_only_new_lines_of_a_log_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = new_folder(tmp_path)
    read: list[bytes] = []
    parse = parse_json
    monkeypatch.setattr(
        "chary.runs.logs.parse_json", lambda line: (read.append(line), parse(line))[1]
    )
    for step in range(1, 6):
        folder.append("evals", {"step": step, "return": -step, "returns": []})
        folder.append("metrics", {"step": step, "validation": float(step % 3)})
        best, last = folder.best(), folder.last()
        assert best and last and (best["step"], last["step"]) == (1, step)
        assert folder.looked_at(step, simulated=True) and len(folder.validations()) == step
    assert len(read) == 10
    folder.cut_back(2)
    assert (last := folder.last()) and last["step"] == 2 and len(folder.validations()) == 2


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
    assert RunFolder.open(tmp_path).config == {"saved": False, "algorithm": "bc"}


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


def test_rows_of_a_task_are_put_aside_with_the_rest(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, {"algorithm": "msg"})
    folder.append("episodes", {"step": 5, "return": 1.0, "length": 5})
    folder.save_rows(5, {"rewards": np.zeros(5)})
    assert folder.put_aside() == tmp_path / "aside" / "1"
    assert not folder.row_files() and not folder.read("episodes")
    assert (tmp_path / "aside" / "1" / "online" / "5.npz").exists()
