"""What was compiled once is not compiled again."""

from pathlib import Path
from typing import Any

import jax
import pytest

from chary.data import formats
from chary.data.dataset import Dataset
from chary.host import compile_cache as compiled
from tests.conftest import run_chary


@pytest.mark.long
def test_the_second_start_compiles_nothing(dataset: Dataset, tmp_path: Path) -> None:
    formats.write(dataset, tmp_path / "data.npz")
    entries: list[set[Path]] = []
    for seed in (0, 1):
        done = run_chary(
            "train", "bc", "--dataset", tmp_path / "data.npz", "--hidden", 8, "--steps", 20,
            "--seed", seed, "--run", tmp_path / str(seed),
            # Without a folder of the user's own, chary's is taken.
            CHARY_CACHE=str(tmp_path / "cache"), JAX_COMPILATION_CACHE_DIR="",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        entries.append(set((tmp_path / "cache" / "compiled").glob("*/*-cache")))
    assert any(path.name.startswith("jit_chunk-") for path in entries[0])
    assert entries[0] == entries[1]


def test_the_users_own_settings_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHARY_CACHE", str(tmp_path))
    config: Any = jax.config
    before = config.jax_compilation_cache_dir
    assert before  # the folder of these tests
    compiled.keep_compiled()
    assert config.jax_compilation_cache_dir == before
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_half_written_is_removed(tmp_path: Path) -> None:
    for name in ("whole-cache", "whole-atime", "torn-cache"):
        (tmp_path / name).write_bytes(b"x")
    compiled._tidy(tmp_path)
    left = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert left == {"whole-cache", "whole-atime"}
