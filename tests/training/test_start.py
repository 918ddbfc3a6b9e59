"""One start for one run and many: what is refused when, and what it leaves behind."""

from pathlib import Path
from typing import Any

import pytest

import chary
from chary import data
from chary.data.dataset import Dataset
from chary.errors import CharyError
from chary.runs.folder import RunFolder
from tests.training.test_loop import QUICK, bits


def test_a_folder_with_a_run_is_refused_before_data_is_loaded(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.npz"
    data.formats.write(dataset, file)
    chary.train("bc", file, run=tmp_path / "run", steps=10, **QUICK)

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("data is loaded")

    monkeypatch.setattr(data, "load", refuse)
    with pytest.raises(CharyError, match=r"already holds a run.*--steps 30"):
        chary.train("bc", file, run=tmp_path / "run", steps=30, **QUICK)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_step": 3}, "no TD targets"),
        ({"window": 2}, "bc is trained as a whole"),
        ({"env": "nowhere:Nothing"}, "nowhere"),
    ],
)
def test_what_is_refused_leaves_no_folder(
    changes: dict[str, Any], words: str, dataset: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(CharyError, match=words):
        chary.train("bc", dataset, run=tmp_path / "new" / "run", steps=10, **QUICK, **changes)
    assert not (tmp_path / "new").exists()
    with pytest.raises(CharyError, match=words):
        chary.train_population(
            "bc", dataset, seeds=[0, 1], run=tmp_path / "new", steps=10, **QUICK, **changes
        )
    assert not (tmp_path / "new").exists()


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = chary.train("bc", dataset, run=tmp_path / "whole", steps=10, **QUICK)

    def die(*_: Any) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(chary.training.start.loop, "run_loop", die)
        with pytest.raises(RuntimeError, match="killed"):
            chary.train("bc", dataset, run=tmp_path / "run", steps=10, **QUICK)
    assert RunFolder.exists(tmp_path / "run")
    again = chary.train("bc", dataset, run=tmp_path / "run", steps=10, **QUICK)
    assert bits(again.state) == bits(whole.state)


def test_a_dataset_knows_its_source_and_task(dataset: Dataset, tmp_path: Path) -> None:
    columns = {
        name: getattr(dataset, name)
        for name in ("observations", "actions", "rewards", "terminals", "timeouts")
    }
    assert dataset.named is None and dataset.task is None
    named = Dataset.from_columns(columns, name="hopper-medium-v2")
    assert named.named is not None and named.named.domain == "gym"
    assert named.task is not None and named.task is named.task  # looked up once
    data.formats.write(named, tmp_path / "mine.npz")
    own = chary.load(tmp_path / "mine.npz")
    assert own.named is None and own.task is not None  # a file of the user's own, with a known name
