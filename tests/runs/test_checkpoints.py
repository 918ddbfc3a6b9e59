"""Checkpoints in a process that saves again and again."""

import json
from pathlib import Path

import numpy as np
import pytest
from orbax.checkpoint import Checkpointer, StandardCheckpointHandler
from orbax.checkpoint.args import StandardSave
from tensorstore import KvStore

from chary.runs import checkpoints

MANY = {f"a{i}": np.full((2, 2), i, np.float32) for i in range(20)}


def test_saving_asks_tensorstore_for_nothing_that_it_never_frees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def leak(spec: KvStore.Spec) -> None:
        asked.append(spec.url)

    monkeypatch.setattr(KvStore.Spec, "to_json", leak)
    checkpoints.save(tmp_path, 0, MANY)
    assert checkpoints.steps(tmp_path) == [0] and asked == []


def test_specs_are_what_tensorstore_says_and_then_its_own_again() -> None:
    original = KvStore.Spec.to_json
    given = {"driver": "file", "path": "/a b/%20é'\"\n/"}
    for spec in (KvStore.Spec(given), KvStore.Spec({"driver": "memory", "path": "x"})):
        with checkpoints._specs_that_are_freed():
            assert spec.to_json() == original(spec)
    assert KvStore.Spec.to_json is original


def test_a_checkpoint_that_orbax_wrote_by_itself_is_restored(tmp_path: Path) -> None:
    """As all were before."""
    folder = tmp_path / "7"
    leaves = checkpoints._named_leaves(MANY)
    with Checkpointer(StandardCheckpointHandler()) as orbax:
        orbax.save(folder / "arrays", args=StandardSave(leaves))
    assert (folder / "arrays" / "manifest.ocdbt").exists()
    (folder / checkpoints.MANIFEST).write_text(json.dumps(checkpoints._sums(folder)))
    found = checkpoints.restore(tmp_path, 7, {name: 0.0 * array for name, array in MANY.items()})
    assert all(np.array_equal(found[name], array) for name, array in MANY.items())
    checkpoints.save(tmp_path, 8, MANY)
    assert (tmp_path / "8" / "arrays" / "manifest.ocdbt").exists()
