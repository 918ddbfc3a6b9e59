"""Interrupted and gone on with, an experiment ends in the same bits."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from chary import checkpoints
from chary.errors import CharyError
from chary.theory import resumable
from tests.conftest import run_chary

TINY = [
    "--preset", "paper", "--rules", "independent", "shared-lcb", "--members", 2, "--hidden", 8,
    "--iterations", 40, "--steps", 200, "--checkpoint-minutes", 0,
]  # fmt: skip


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
    with pytest.warns(UserWarning, match=r"damaged .* Going on from iteration 4"):
        again = advance(tmp_path, 5)
    assert np.asarray(again["x"]).tobytes() == np.asarray(whole["x"]).tobytes()


def test_other_settings_are_refused(tmp_path: Path) -> None:
    advance(tmp_path, 2)
    with pytest.raises(CharyError, match=r"another experiment, with factor 1.5 instead of 2.0"):
        advance(tmp_path, 2, factor=2.0)


def test_a_killed_chain_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    whole = run_chary("theory", "chain", *TINY, "--out", tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    command = ["theory", "chain", *map(str, TINY), "--out", str(tmp_path / "cut")]
    process = subprocess.Popen(
        [sys.executable, "-m", "chary", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "XLA_FLAGS": ""},
    )
    store = tmp_path / "cut" / "parts" / "chain-independent" / "checkpoints"
    limit = time.monotonic() + 200
    while not checkpoints.steps(store) and time.monotonic() < limit:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 0 < checkpoints.steps(store)[-1] < 40
    assert not (tmp_path / "cut" / "chain.json").exists()
    finished = run_chary(*command)
    assert finished.returncode == 0, finished.stderr
    first, second = (
        json.loads((tmp_path / name / "chain.json").read_text()) for name in ("whole", "cut")
    )
    assert first["curves"] == second["curves"] and first["rows"] == second["rows"]
