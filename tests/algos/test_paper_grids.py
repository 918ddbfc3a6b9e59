"""The paper's search grids, which `--population` takes by name."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chary.algos import paper
from chary.cli import main
from chary.data.dataset import Dataset
from chary.training import population, resolve, start
from tests.conftest import make_columns

# Appendices A.1, B.1 and C.1.
SEARCHED: dict[tuple[str, str], tuple[int, dict[str, str]]] = {
    ("msg", "paper-gym"): (12, {"beta": "-4 -8", "alpha": "0 0.5 1 2 4 8"}),
    ("msg", "paper-antmaze"): (8, {"beta": "-4 -8", "alpha": "0 0.1 0.5 1"}),
    ("msg", "paper-rlu"): (8, {"beta": "-1 -2 -4 -8", "alpha": "0 0.5"}),
    ("cql", "msg-paper-gym"): (
        12,
        {"alpha": "0 0.45 0.9 1.36 1.81 2.27 2.32 3.18 3.63 4.09 4.55 5"},
    ),
    ("cql", "msg-paper-antmaze"): (
        12,
        {"alpha": "0 0.45 0.9 1.36 1.81 2.27 2.32 3.18 3.63 4.09 4.55 5"},
    ),
    ("fbrc", "msg-paper-gym"): (
        12,
        {"fisher_weight": "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1 1.1"},
    ),
    ("fbrc", "msg-paper-antmaze"): (8, {"fisher_weight": "0 0.14 0.29 0.43 0.57 0.71 0.86 1"}),
}


@pytest.mark.parametrize("key", SEARCHED)
def test_grids_are_the_papers(key: tuple[str, str], dataset: Dataset) -> None:
    algorithm, name = key
    cells, values = SEARCHED[key]
    spec = resolve.resolve(algorithm, dataset, "none", None, {})
    varied = population.parse([name], algorithm, spec.config)
    assert varied == {s: tuple(map(float, words.split())) for s, words in values.items()}
    assert paper.GRIDS[algorithm][name].cells == cells
    specs = population.vary(spec, Path("x"), dataset, [0, 1], varied)
    assert len({spec.folder for spec in specs}) == 2 * cells


def test_a_single_member_is_searched_over_alpha_only() -> None:
    assert {(a, n) for a, grids in paper.GRIDS.items() for n in grids} == set(SEARCHED)
    for changes in ({"members": 1}, {"ensemble": "none"}):
        config = replace(resolve.configure("msg", "none", "")[0], **changes)
        varied = population.parse(["paper-antmaze", "tau=0.005,0.01"], "msg", config)
        assert varied == {
            "beta": (0.0,), "alpha": (0.0, 0.1, 0.5, 1.0), "tau": (0.005, 0.01),
        }  # fmt: skip


@pytest.mark.long
def test_a_grid_is_trained_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[Path] = []

    def resume_all(runs: Sequence[Path], **_: object) -> dict[Path, None]:
        trained.extend(runs)
        return dict.fromkeys(runs)

    monkeypatch.setattr(start, "resume_all", resume_all)
    np.savez(tmp_path / "data.npz", **make_columns())  # pyright: ignore[reportArgumentType]
    command = [
        "train", "msg", "--dataset", tmp_path / "data.npz", "--population", "paper-antmaze",
        "discount=0.9", "--members", 2, "--hidden", 4, "--batch-size", 4, "--steps", 2,
        "--warmup-steps", 1, "--run", tmp_path / "runs",
    ]  # fmt: skip
    assert main([str(word) for word in command]) == 0
    configs = [json.loads(path.read_text()) for path in tmp_path.glob("runs/*/config.json")]
    found = {(c["settings"]["beta"], c["settings"]["alpha"]) for c in configs}
    assert sorted(trained) == sorted(tmp_path.glob("runs/*")) and len(trained) == 8
    assert len(configs) == 8 and found == {
        (beta, alpha) for beta in (-4.0, -8.0) for alpha in (0.0, 0.1, 0.5, 1.0)
    }
    assert (tmp_path / "runs/beta-8-alpha0.1-discount0.9-seed0").is_dir()


WRONG: dict[str, tuple[list[str], str]] = {
    "an unknown grid": (
        ["msg", "--population", "paper-antmze"],
        "or the name of a grid of the paper for msg: paper-gym, paper-antmaze, paper-rlu. Did you mean",
    ),
    "a grid of another": (
        ["cql", "--population", "paper-antmaze"],
        "a grid of msg, not of cql), but must be settings with their values, such as alpha=0,0.1,0.5, "
        "or the name of a grid of the paper for cql: msg-paper-gym, msg-paper-antmaze.",
    ),
    "an algorithm without": (["bc", "--population", "paper-gym"], "a grid of msg, not of bc"),
    "values twice": (
        ["msg", "--population", "paper-gym", "alpha=3"],
        "has values of alpha twice",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_names_end_in_one_message(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (algorithm, *options), words = WRONG[case]
    np.savez(tmp_path / "data.npz", **make_columns())  # pyright: ignore[reportArgumentType]
    data, run = str(tmp_path / "data.npz"), str(tmp_path / "run")
    assert main(["train", algorithm, "--dataset", data, *options, "--run", run]) == 2
    message = capsys.readouterr().err
    assert message.startswith("chary: error: ") and message.count("\n") == 1
    assert words in message
    assert [path.name for path in tmp_path.iterdir()] == ["data.npz"]


def test_the_docs_have_the_same_grids() -> None:
    text = (Path(__file__).parents[2] / "docs" / "populations.md").read_text()
    for algorithm, grids in paper.GRIDS.items():
        for name, grid in grids.items():
            values = "; ".join(
                f"{setting} {', '.join(f'{value:g}' for value in values)}"
                for setting, values in grid.values.items()
            )
            line = f"| {algorithm} | `{name}` | {values} | {grid.cells} | {grid.source} |"
            assert line in text
            assert grid.remark in text
