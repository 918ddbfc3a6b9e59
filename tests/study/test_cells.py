import os

import pytest

from chary import algos
from chary.errors import CharyError
from chary.study.cells import Cell, algorithm_cells, ensemble_cells, size_cells, target_cells
from chary.tune.local import shares


def test_by_default_everything_there_is_is_compared() -> None:
    assert [cell.name for cell in target_cells(())] == [
        "independent", "double-q", "shared-mean", "shared-lcb", "shared-min",
    ]  # fmt: skip
    assert {cell.name for cell in ensemble_cells(())} == {
        "deep", "multihead", "mimo", "batch", "tree", "prior", "dropout", "none",
    }  # fmt: skip
    assert ensemble_cells(["mine.kinds:Anchored"])[0].folder(3) == "mine.kinds-Anchored-seed3"


def test_beta_does_not_divide_a_single_member() -> None:
    cells = size_cells([1, 4], [-4.0, -8.0], [0.0, 0.5])
    assert cells[:2] == [
        Cell("n1-alpha0", {"members": 1, "beta": 0.0, "alpha": 0.0}),
        Cell("n1-alpha0.5", {"members": 1, "beta": 0.0, "alpha": 0.5}),
    ]
    assert [cell.name for cell in cells[2:]] == [
        "n4-beta-4-alpha0", "n4-beta-4-alpha0.5", "n4-beta-8-alpha0", "n4-beta-8-alpha0.5",
    ]  # fmt: skip


def test_every_algorithm_has_its_own_settings_of_a_preset() -> None:
    cells = {cell.name: cell for cell in algorithm_cells((), "paper-antmaze", "any")}
    assert set(cells) == set(algos.ALGORITHMS)
    iql, msg = cells["iql"], cells["msg"]
    assert (iql.algorithm, iql.changes["expectile"], msg.changes["alpha"]) == ("iql", 0.9, 0.5)
    assert iql.run_changes["reward_shift"] == -1.0 and msg.run_changes["reward_shift"] == -0.5
    assert "reward_shift" not in cells["bc"].run_changes  # what suits the data
    gym = algorithm_cells(["iql"], "paper-gym", "any")[0]
    assert gym.run_changes["return_range"] == 1000.0
    alone, many = algorithm_cells(["msg:small-no-ensemble", "msg"], "small", "any")
    assert (alone.algorithm, alone.changes["ensemble"], alone.preset) == (
        "msg", "none", "small-no-ensemble",
    )  # fmt: skip
    assert alone.folder(0) == "msg-small-no-ensemble-seed0"
    assert many.changes["ensemble"] == "deep" and many.preset is None


def test_unknown_and_repeated_cells_are_refused() -> None:
    with pytest.raises(CharyError, match="Did you mean shared-min"):
        target_cells(["shared-mim"])
    with pytest.raises(CharyError, match="Did you mean iql"):
        algorithm_cells(["iqll"], "small", "any")
    with pytest.raises(CharyError, match="unknown ensemble 'deeper'"):
        ensemble_cells(["deeper"])
    with pytest.raises(CharyError, match="--sizes names 4 more than once"):
        size_cells([4, 4], [-4.0], [0.0])
    with pytest.raises(CharyError, match="--alphas is empty"):
        size_cells([4], [-4.0], [])


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores cannot be chosen here")
@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, [[2, 3, 5, 7, 8]]), (2, [[2, 3], [5, 7]]), (6, [[2], [3], [5], [7], [8], [2]])],
)
def test_cores_are_shared_out(
    count: int, expected: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 3, 5, 7, 8})
    assert shares(count) == expected
