"""What all tests share: a compiler in a hurry, checked shapes, a little data, the program itself."""

import atexit
import gc
import io
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

# Most of the time here would go into compiling: tests compile carelessly, unless they are about the very
# programs that users run, and what is compiled once is then taken from a cache of this session.
CARELESS = " ".join(
    [
        "--xla_backend_optimization_level=0",
        "--xla_llvm_disable_expensive_passes=true",
        "--xla_cpu_use_fusion_emitters=false",
        "--xla_cpu_parallel_codegen_split_count=1",
    ]
)
os.environ.update(
    JAX_PLATFORMS="cpu",
    XLA_FLAGS=CARELESS,
    JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
    JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1",
    OPENBLAS_NUM_THREADS="1",  # NumPy's threads would mostly wait for each other
)
if "PYTEST_XDIST_WORKER" not in os.environ:  # workers share what the first process made
    os.environ["CHARY_STATE"] = tempfile.mkdtemp(prefix="chary-test-state-")
    atexit.register(shutil.rmtree, os.environ["CHARY_STATE"], ignore_errors=True)
    COMPILED = tempfile.mkdtemp(prefix="chary-test-compiled-")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = COMPILED
    atexit.register(shutil.rmtree, COMPILED, ignore_errors=True)

# Traces are millions of small objects: looking through all of them now and then costs more than they do.
gc.set_threshold(100_000, 50, 100)

from tests import shapes  # noqa: E402

shapes.install(
    *(
        f"chary.{room}"
        for room in ("algos", "ensembles", "evaluation", "execution", "networks", "theory")
    ),
    *("chary.types", "chary.data.dataset", "chary.training.plan", "chary.tune.scores"),
)

import numpy as np  # noqa: E402
import pytest  # noqa: E402

from chary.data.dataset import Dataset  # noqa: E402


def make_columns(episodes: int = 6, length: int = 20, seed: int = 0) -> dict[str, np.ndarray]:
    """Random transitions in D4RL's columns; every other episode truly ends."""
    rng = np.random.default_rng(seed)
    size = episodes * length
    ends = np.arange(size) % length == length - 1
    true_end = ends & ((np.arange(size) // length) % 2 == 0)
    return {
        "observations": rng.standard_normal((size, 3)).astype(np.float32),
        "actions": rng.uniform(-1, 1, (size, 2)).astype(np.float32),
        "rewards": rng.standard_normal(size).astype(np.float32),
        "next_observations": rng.standard_normal((size, 3)).astype(np.float32),
        "terminals": true_end,
        "timeouts": ends & ~true_end,
    }


def forget_programs() -> None:
    """Trace and compile anew: algorithms of equal settings are otherwise one value."""
    from chary import algos

    algos.built.cache_clear()


@pytest.fixture(autouse=True)
def without_traces_of_patches(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test traced while something was patched is not what the next one means."""
    yield
    if "monkeypatch" in request.fixturenames and "chary.algos" in sys.modules:
        forget_programs()


@pytest.fixture
def jobs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs are done in this process: starting others takes longer than the work."""

    def run_here(work: Any, jobs: Any, *, title: str, **_: int) -> list[Any]:
        assert title
        return [work(job) for job in jobs]

    for module in ("data.collect", "theory.width"):
        monkeypatch.setattr(f"chary.{module}.run_jobs", run_here)


@pytest.fixture
def columns() -> dict[str, np.ndarray]:
    return make_columns()


@pytest.fixture
def dataset(columns: dict[str, np.ndarray]) -> Dataset:
    """A small dataset without a simulator."""
    return Dataset.from_columns(columns, name="tiny")


@pytest.fixture(scope="session")
def maze_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A little maze data in a file; its name brings the simulator with it."""
    from chary.data import formats
    from chary.data.collect.mazes import Job, collect_block

    maze = collect_block(Job("pointmaze-umaze", 2_000, seed=0, block=0))
    path = tmp_path_factory.mktemp("data") / "maze.hdf5"
    formats.write(Dataset.from_columns(maze, name="pointmaze-umaze"), path)
    return path


@pytest.fixture
def real_data() -> Path:
    """Real D4RL and RL Unplugged slices, where CHARY_TEST_DATA says they are."""
    folder = os.environ.get("CHARY_TEST_DATA")
    if not folder:
        pytest.skip("CHARY_TEST_DATA is not set: no real data to test against")
    return Path(folder)


def run_chary(
    *arguments: object, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The program as a user runs it, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "chary", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=cwd,
        env={**os.environ, **environment},
        check=False,
    )


def call_chary(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The same in this process, for tests of words and files: a start takes seconds."""
    from chary.cli import main

    words, out, errors = [*map(str, arguments)], io.StringIO(), io.StringIO()
    with (
        chdir(cwd or "."),
        warnings.catch_warnings(),
        redirect_stdout(out),
        redirect_stderr(errors),
    ):
        try:
            code = main(words)
        except SystemExit as end:  # the parser of options ends so
            code = int(end.code or 0)
    return subprocess.CompletedProcess(words, code, out.getvalue(), errors.getvalue())
