"""The paper's own numbers: Table 1 behind `--preset paper`."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chary
from chary import algos
from chary.algos import paper
from chary.cli import main
from chary.data import formats
from chary.data.dataset import Dataset
from chary.data.sources import NAMED
from chary.errors import CharyError
from chary.study import plan
from chary.study.cells import Cell
from chary.training import resolve
from chary.training import start as training
from chary.training.run_config import RunSpec
from tests.conftest import call_chary, make_columns

# Table 1 as it is printed: N = 64 (score, its deviation, beta, alpha), then N = 4.
PRINTED = """
maze2d-umaze-v1           101.1 26.3 -8 0    68.8 20.2 -4 0.1
maze2d-medium-v1          57.0  17.2 -4 0.1  53.2 26.8 -4 0.1
maze2d-large-v1           159.3 49.4 -4 0.1  59.2 59.1 -8 0.5
antmaze-umaze-v0          97.8  1.2  -4 0.5  98.6 1.4  -4 1.0
antmaze-umaze-diverse-v0  81.8  3.0  -4 1.0  76.6 7.6  -4 0.5
antmaze-medium-play-v0    89.6  2.2  -4 0.5  83.0 7.1  -4 0.1
antmaze-medium-diverse-v0 88.6  2.6  -4 0.5  83.0 6.2  -4 0.5
antmaze-large-play-v0     72.6  7.0  -8 0    46.8 14.7 -4 0.5
antmaze-large-diverse-v0  71.4  12.2 -8 0.1  58.2 9.6  -8 0.1
"""
LINES = [line.split() for line in PRINTED.strip().splitlines()]
ROWS = {name: [float(number) for number in numbers] for name, *numbers in LINES}


def printed(dataset: str, column: int) -> tuple[float, float]:
    """Beta and alpha of Table 1."""
    _, _, beta, alpha = ROWS[dataset][:4] if column == 64 else ROWS[dataset][4:]
    return beta, alpha


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The settings that training is started with, which is all that is done with them."""
    configs: list[Any] = []

    class StartedError(CharyError):
        pass

    def start(spec: RunSpec, *_: object, **__: object) -> None:
        configs.append(spec.config)
        raise StartedError("enough")

    monkeypatch.setattr("chary.training.start.start", start)
    monkeypatch.setattr(training, "start", start)
    return configs


def from_python(dataset: str, **settings: Any) -> None:
    with pytest.raises(CharyError):
        chary.train("msg", dataset, **settings)


def from_the_command_line(dataset: str, **settings: Any) -> None:
    words = [str(w) for key, value in settings.items() for w in (f"--{key}", value)]
    assert main(["train", "msg", "--dataset", dataset, *words]) == 2


WAYS = [from_python, from_the_command_line]


@pytest.mark.parametrize("train", WAYS)
@pytest.mark.parametrize("dataset", ROWS)
def test_every_row_and_column_of_table_1(
    train: Callable[..., None], dataset: str, started: list[Any]
) -> None:
    train(dataset, preset="paper", members=4)
    train(dataset, preset="paper", members=64)
    train(dataset, preset="paper")
    train(dataset)
    four, many, default, auto = started
    assert (four.beta, four.alpha) == printed(dataset, 4)
    assert (many.beta, many.alpha) == printed(dataset, 64)
    assert default == many == auto and many.members == 64 and four.members == 4
    assert many.regulariser_samples == "own"  # the domain's preset is below


def test_the_table_is_the_printed_one() -> None:
    assert {name[:-3] for name in ROWS} == set(paper.TABLE_1)
    for name, numbers in ROWS.items():
        best = paper.TABLE_1[name[:-3]]
        assert [best[64].score, best[64].deviation, best[4].score, best[4].deviation] == [
            *numbers[:2], *numbers[4:6],
        ]  # fmt: skip


def test_versions_are_one_row_and_rewards_and_steps_the_domains() -> None:
    versions = [n for n in NAMED if n.startswith("antmaze-large-play") or n == "maze2d-large"]
    assert versions == ["maze2d-large", "antmaze-large-play-v0", "antmaze-large-play-v2"]
    for name in versions:
        config, run = resolve.configure("msg", "paper", name, {"members": 4})
        ant = name.startswith("antmaze")
        row = "antmaze-large-play-v0" if ant else "maze2d-large-v1"
        assert (config.beta, config.alpha) == printed(row, 4)
        assert (run.steps, run.reward_scale) == (2_000_000, 4.0 if ant else None)
    # The table has no dense rewards, no Gym and no RL Unplugged: there it is the domain's preset.
    for name, domain in {
        "maze2d-large-dense-v1": "maze2d", "hopper-medium-v2": "gym", "rlu-walker-walk": "rlu",
    }.items():  # fmt: skip
        assert resolve.configure("msg", "paper", name) == resolve.configure(
            "msg", f"paper-{domain}", name
        )
    generic, _ = resolve.configure("msg", "paper-antmaze", "antmaze-large-play-v2")
    assert (generic.beta, generic.alpha) == (-4.0, 0.5)
    iql = resolve.configure("iql", "paper", "antmaze-large-play-v2")
    assert iql == resolve.configure("iql", "paper-antmaze", "")


@pytest.mark.parametrize("train", WAYS)
def test_other_sizes_take_the_nearest_column(
    train: Callable[..., None], started: list[Any]
) -> None:
    sizes = [2, 3, 8, 15, 16, 17, 24, 48, 65, 256]
    for size in sizes:
        train("antmaze-large-play-v2", preset="paper", members=size)
    for size, config in zip(sizes, started, strict=True):
        near = 4 if abs(math.log(size / 4)) <= abs(math.log(size / 64)) + 1e-12 else 64
        assert (config.beta, config.alpha) == printed("antmaze-large-play-v0", near)


@pytest.mark.parametrize("train", WAYS)
def test_what_is_given_wins_and_one_member_has_beta_0(
    train: Callable[..., None], started: list[Any]
) -> None:
    common: dict[str, Any] = {"dataset": "maze2d-large-v1", "preset": "paper"}
    train(**common, members=4, beta=-2.0)
    train(**common, alpha=0.25, tau=0.01)
    train(**common, members=1)
    train(**common, ensemble="none")
    found = [(config.members, config.beta, config.alpha) for config in started]
    assert found == [(4, -2.0, 0.5), (64, -4.0, 0.25), (1, 0.0, 0.5), (1, 0.0, 0.5)]
    assert started[1].tau == 0.01


@pytest.mark.parametrize(
    ("members", "fixed", "text"),
    [
        (
            4,
            {"beta": -4.0, "alpha": 0.5},
            "beta -4 and alpha 0.5 as in the paper's Table 1 (row antmaze-large-play, column N = 4)",
        ),
        (
            32,
            {"beta": -8.0, "alpha": 2.0},
            "beta -8 as in the paper's Table 1 (row antmaze-large-play, column N = 64, the nearest to "
            "32 on a logarithmic scale); alpha 2 instead of alpha 0",
        ),
        (
            1,
            {"beta": 0.0, "alpha": 0.5},
            "alpha 0.5 as in the paper's Table 1 (row antmaze-large-play, column N = 4, the nearest to "
            "1 on a logarithmic scale); beta 0, the paper's for a single Q-function",
        ),
        (64, {"beta": -1.0, "alpha": 3.0}, ""),
        (64, {}, ""),
    ],
)
def test_the_column_is_explained(members: int, fixed: dict[str, float], text: str) -> None:
    assert paper.describe("antmaze-large-play", members, fixed) == text


QUICK: dict[str, Any] = {
    "hidden": (8, 8), "batch_size": 16, "warmup_steps": 2, "steps": 4, "log_every": 2, "eval_every": 0,
    "final_episodes": 0,
}  # fmt: skip


@pytest.fixture
def maze2d(columns: dict[str, np.ndarray]) -> Dataset:
    """Data that is called like a dataset of the paper and fits its task."""
    rng = np.random.default_rng(0)
    for key in ("observations", "next_observations"):
        columns[key] = rng.standard_normal((len(columns["rewards"]), 4)).astype(np.float32)
    return Dataset.from_columns(columns, name="maze2d-umaze-v1")


def recorded(run: Path) -> tuple[float, float]:
    settings = json.loads((run / "config.json").read_text())["settings"]
    return settings["beta"], settings["alpha"]


@pytest.mark.long
def test_config_json_has_the_numbers(
    maze2d: Dataset,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a run, of seeds side by side, of a population that varies one of the two, and from a file."""
    common: dict[str, Any] = {"preset": "paper", "members": 4, **QUICK}
    chary.train("msg", maze2d, run=tmp_path / "one", **common)
    assert "preset paper: beta -4 and alpha 0.1 as in the paper's" in capsys.readouterr().err
    # The folders of the others are made, and not trained in.
    monkeypatch.setattr(training, "resume_all", lambda runs, **_: dict.fromkeys(runs))
    chary.train_population("msg", maze2d, run=tmp_path / "seeds", seeds=[0, 1], **common)
    capsys.readouterr()
    varied = {"alpha": [0.5, 1.0]}
    chary.train_population("msg", maze2d, run=tmp_path / "varied", settings=varied, **common)
    assert "preset paper: beta -4 as in the paper's" in capsys.readouterr().err
    found = {path.parent.name: recorded(path.parent) for path in tmp_path.rglob("config.json")}
    assert found == {
        "one": (-4.0, 0.1), "seed0": (-4.0, 0.1), "seed1": (-4.0, 0.1),
        "alpha0.5-seed0": (-4.0, 0.5), "alpha1-seed0": (-4.0, 1.0),
    }  # fmt: skip
    assert json.loads((tmp_path / "one/config.json").read_text())["preset"] == "paper"
    formats.write(maze2d, tmp_path / "own.npz")
    result = call_chary(
        "train", "msg", "--preset", "paper", "--dataset", "maze2d-umaze-v1", "--data-file", "own.npz",
        "--members", 17, "--hidden", 4, "--batch-size", 8, "--steps", 2, "--final-episodes", 0,
        "--warmup-steps", 1, "--run", "file", cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert (
        "beta -8 and alpha 0 as in the paper's Table 1 (row maze2d-umaze, column N = 64, the "
        in (result.stderr)
    )
    assert recorded(tmp_path / "file") == (-8.0, 0.0)


def test_studies_take_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []

    def make_plan(
        _: str, cells: list[Cell], __: object, config: Any, *_rest: object, **___: object
    ):
        made.append({"config": config, "cells": {cell.name: cell for cell in cells}})
        raise CharyError("enough")

    monkeypatch.setattr(plan, "make_plan", make_plan)
    common = ["--dataset", "antmaze-large-play-v2", "--preset", "paper"]
    assert main(["study", "targets", *common, "--members", "4"]) == 2
    assert main(["study", "baselines", *common, "--algos", "msg", "iql", "msg:paper-antmaze"]) == 2
    targets, baselines = made
    assert (targets["config"].beta, targets["config"].alpha) == (-4.0, 0.5)
    msg = baselines["cells"]["msg"].changes
    assert (msg["beta"], msg["alpha"]) == (-8.0, 0.0)
    assert baselines["cells"]["iql"].changes["expectile"] == 0.9
    assert baselines["cells"]["msg:paper-antmaze"].changes["alpha"] == 0.5


@pytest.mark.parametrize(
    ("algorithm", "dataset", "name", "on_it", "otherwise"),
    [
        ("rebrac", "antmaze-umaze-v2", "policy_penalty", 0.003, 0.002),
        ("rebrac", "antmaze-medium-diverse-v0", "critic_penalty", 0.0, 0.001),
        ("rebrac", "antmaze-large-play-v2", "policy_penalty", 0.002, 0.002),
        ("rebrac", "walker2d-medium-v2", "critic_penalty", 0.1, 0.01),
        ("fql", "antmaze-large-diverse-v2", "alpha", 3.0, 10.0),
        ("fql", "antmaze-medium-play-v2", "alpha", 10.0, 10.0),
    ],
)
def test_other_authors_settings_for_a_dataset(
    algorithm: str, dataset: str, name: str, on_it: float, otherwise: float
) -> None:
    """The presets `paper` and `auto` have them; the domain's preset is the same for all datasets."""
    domain = "paper-antmaze" if dataset.startswith("antmaze") else "paper-gym"
    found = {
        preset: getattr(resolve.configure(algorithm, preset, dataset)[0], name)
        for preset in ("auto", "paper", domain)
    }
    assert found == {"auto": on_it, "paper": on_it, domain: otherwise}


def test_settings_for_a_dataset_are_settings_of_a_known_one() -> None:
    known = {paper.without_version(entry.name) for entry in NAMED.values()}
    for entry in algos.ALGORITHMS.values():
        assert set(entry.by_dataset) <= known
        for changes in entry.by_dataset.values():
            assert replace(entry.config(), **changes) != entry.config()


def test_what_is_said_of_settings_for_a_dataset(capsys: pytest.CaptureFixture[str]) -> None:
    def said(**changes: float) -> str:
        spec = resolve.resolve("rebrac", "antmaze-umaze-v2", "paper", None, changes)
        resolve.explain(spec, "antmaze-umaze-v2")
        return " ".join(capsys.readouterr().err.split())

    both = "policy_penalty 0.003 and critic_penalty 0.002, its authors' for this dataset"
    assert f"preset paper: paper-antmaze; {both}" in said()
    assert "paper-antmaze; policy_penalty 0.003, its authors'" in said(critic_penalty=0.5)


WRONG: dict[str, tuple[list[str], str]] = {
    "a file": (["msg", "--preset", "paper"], "data.npz' is not one of them"),
    "no dataset": (["msg", "--preset", "paper", "--dataset", ""], "--dataset is missing"),
    "a task of chary's": (
        ["iql", "--preset", "paper", "--dataset", "pointmaze-umaze"],
        "choose the preset of a domain: paper-antmaze, paper-gym",
    ),
    "a name with a slip": (
        ["msg", "--preset", "paper", "--dataset", "antmaze-large-plai-v2"],
        "did you mean antmaze-large-play-v2?",
    ),
    "no members": (
        ["msg", "--preset", "paper", "--dataset", "maze2d-umaze-v1", "--members", "0"],
        "--members is 0, but must be at least 1",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_names_end_in_one_message(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (algorithm, *options), words = WRONG[case]
    np.savez(tmp_path / "data.npz", **make_columns())  # pyright: ignore[reportArgumentType]
    if "--dataset" not in options:
        options = ["--dataset", str(tmp_path / "data.npz"), *options]
    assert main(["train", algorithm, *options, "--run", str(tmp_path / "run")]) == 2
    message = capsys.readouterr().err
    assert message.startswith("chary: error: ") and message.count("\n") == 1
    assert words in message
    assert [path.name for path in tmp_path.iterdir()] == ["data.npz"]


def test_what_is_no_number_of_members_is_refused_as_ever(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as end:
        main(
            ["train", "msg", "--preset", "paper", "--dataset", "maze2d-umaze-v1", "--members", "x"]
        )
    assert end.value.code == 2 and "--members" in capsys.readouterr().err


def test_the_docs_have_the_same_table() -> None:
    text = (Path(__file__).parents[2] / "docs" / "msg.md").read_text()
    for row, columns in paper.TABLE_1.items():
        for members, best in columns.items():
            line = (
                f"| {row} | {members} | {best.beta:g} | {best.alpha:g} | "
                f"{best.score} ± {best.deviation} |"
            )
            assert line in text
