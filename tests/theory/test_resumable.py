"""Interrupted and gone on with, an experiment ends in the same bits."""

from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from chary.errors import CharyError
from chary.runs import checkpoints
from chary.theory import chain, mdp, resumable
from chary.types import PyTree
from tests.theory.test_chain import TINY


def double(state: dict) -> dict:
    return {"x": state["x"] * 1.5, "count": state["count"] + 1}


def advance(folder: Path, total: int, *, factor: float = 1.5, stop: int | None = None) -> dict:
    done = 0

    def count(amount: int) -> None:
        nonlocal done
        done += amount
        if stop is not None and done >= stop:
            raise KeyboardInterrupt

    start = {"x": jnp.arange(3.0) / 7, "count": jnp.asarray(0)}
    return resumable.iterate(
        folder, {"factor": factor}, start, double, total, minutes=0.0, advance=count
    )


def test_an_interrupted_iteration_goes_on_where_it_was(tmp_path: Path) -> None:
    whole = advance(tmp_path / "whole", 9)
    with pytest.raises(KeyboardInterrupt):
        advance(tmp_path / "cut", 9, stop=4)
    assert checkpoints.steps(tmp_path / "cut" / "checkpoints")[-1] == 4
    cut = advance(tmp_path / "cut", 9)
    assert np.asarray(cut["x"]).tobytes() == np.asarray(whole["x"]).tobytes()
    assert int(cut["count"]) == 9


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    whole = advance(tmp_path, 5)
    damaged = tmp_path / "checkpoints" / "5"
    (damaged / checkpoints.MANIFEST).write_text("{}")
    with pytest.warns(UserWarning, match=r"damaged .* Resuming from iteration 4"):
        again = advance(tmp_path, 5)
    assert np.asarray(again["x"]).tobytes() == np.asarray(whole["x"]).tobytes()


def test_other_settings_are_refused(tmp_path: Path) -> None:
    advance(tmp_path, 2)
    with pytest.raises(CharyError, match=r"another experiment, with factor 1.5 instead of 2.0"):
        advance(tmp_path, 2, factor=2.0)


def test_an_interrupted_chain_ends_in_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(TINY, checkpoint_minutes=0.0)
    data = mdp.collect(config.episodes, config.length, config.seed)
    whole = chain.evaluate_rule(config, "shared-lcb", data, tmp_path / "whole")
    save = checkpoints.save

    def save_and_stop(store: Path, step: int, state: PyTree, *, again: str) -> None:
        save(store, step, state, again=again)
        if step == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "save", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            chain.evaluate_rule(config, "shared-lcb", data, tmp_path / "cut")
    assert checkpoints.steps(tmp_path / "cut" / "checkpoints") == [1, 2]
    cut = chain.evaluate_rule(config, "shared-lcb", data, tmp_path / "cut")
    for name in ("mean", "std", "residuals"):
        np.testing.assert_array_equal(getattr(cut, name), getattr(whole, name))
