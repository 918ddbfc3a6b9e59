"""Grids: what a user writes, as the runs that it means."""

from pathlib import Path
from typing import Any

import pytest

from chary import algos
from chary.algos.msg_config import MSGConfig
from chary.errors import CharyError
from chary.execution.config import DEFAULT
from chary.training.run_config import RunConfig, RunSpec
from chary.tune import grid

SPEC = RunSpec("msg", MSGConfig(members=4), RunConfig(dataset="tiny"), DEFAULT, "none")


def test_values_have_the_type_of_the_setting() -> None:
    words = [
        "beta=-4,-8", "members=1,16", "ensemble=deep,tree", "hidden=64x64,256x256x256",
        "layer-norm=true,false", "reward_scale=none,2.5", "window=2",
    ]  # fmt: skip
    assert grid.parse(words, SPEC) == {
        "beta": (-4.0, -8.0),
        "members": (1, 16),
        "ensemble": ("deep", "tree"),
        "hidden": ((64, 64), (256, 256, 256)),
        "layer_norm": (True, False),
        "reward_scale": (None, 2.5),
        "window": (2,),
    }


def test_the_papers_grids_go_by_their_names() -> None:
    varied = grid.parse(["paper-antmaze", "tau=0.01"], SPEC)
    assert varied == {"beta": (-4.0, -8.0), "alpha": (0.0, 0.1, 0.5, 1.0), "tau": (0.01,)}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["betta=1"], "unknown setting 'betta'. Did you mean beta"),
        (["seed=1,2"], "unknown setting 'seed'"),
        (["beta=-4", "beta=-8"], "values of beta twice"),
        (["beta=-4,-4"], "names -4.0 more than once"),
        (["beta=low"], "beta=low: must be a number"),
        (["members=1.5"], "members=1.5: must be a number"),
        (["hidden=64y64"], "must be sizes such as 256x256"),
        (["layer_norm=maybe"], "must be true or false"),
        (["paper-chess"], "paper-chess"),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(CharyError, match=message):
        grid.parse(words, SPEC)


def test_every_combination_of_the_first_seed_comes_first() -> None:
    varied: dict[str, Any] = {"beta": (-4.0, -8.0), "hidden": ((8,), (8, 8))}
    specs = grid.combinations(SPEC, Path("sweeps/a"), varied, [0, 1])
    assert [spec.folder.name for spec in specs] == [
        f"beta{beta}-hidden{hidden}-seed{seed}"
        for seed in (0, 1)
        for beta in (-4, -8)
        for hidden in ("8", "8x8")
    ]
    assert (specs[-1].config.beta, specs[-1].config.hidden, specs[-1].run.seed) == (-8.0, (8, 8), 1)
    (alone,) = grid.combinations(SPEC, Path("a"), {}, [3])
    assert alone.folder == Path("a/msg-seed3")
    with pytest.raises(CharyError, match="--seeds is empty"):
        grid.combinations(SPEC, Path("a"), {}, [])
    with pytest.raises(CharyError, match="--seeds names 1 more than once"):
        grid.combinations(SPEC, Path("a"), {}, [1, 1])
    with pytest.raises(CharyError, match=r"--beta is 1\.0, but must be at most 0"):
        grid.combinations(SPEC, Path("a"), {"beta": (1.0,)}, [0])


def test_settings_of_baselines_vary_too() -> None:
    spec = SPEC._replace(algorithm="iql", config=algos.entry("iql").config())
    assert grid.parse(["expectile=0.7,0.9"], spec) == {"expectile": (0.7, 0.9)}
