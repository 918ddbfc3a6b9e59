"""How fast this machine trains, measured against what its arithmetic units could do at best."""

import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from chary.data.dataset import Dataset
    from chary.feed import Feed
    from chary.types import Algorithm

OBSERVATION_SIZE, ACTION_SIZE, BATCH = 29, 8, 256
TRANSITIONS = 100_000
WINDOWS = 5
"""Times are the best of this many windows, for updates and for matrix products alike."""
WINDOW_SECONDS = 1.5


class Case(NamedTuple):
    """One setting to be timed."""

    members: int
    hidden: tuple[int, ...]
    alpha: float


LARGE, SMALL = (256, 256, 256), (64, 64, 64)
CASES = [Case(n, LARGE, alpha) for n in (1, 4, 16, 64) for alpha in (0.1, 0.0)] + [
    Case(8, SMALL, 0.1)
]


def run_bench(cases: list[Case]) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """The machine's matrix-multiply rates, and a row for every case.

    Each case runs in a process of its own, so that peak memory is its own; the matrix rate is measured
    again before every case and the best is taken, because shared machines change speed.
    """
    rates: dict[str, float] = {}
    timed: list[dict[str, Any]] = []
    for case in cases:
        for name, rate in alone(matrix_rates).items():
            rates[name] = max(rate, rates.get(name, 0.0))
        timed.append(alone(time_case, case))
    best = max(rates.values())
    rows = [
        {**row, "share_of_gemm": row["gflops"] / best, "passes_counted": passes(case)}
        for row, case in zip(timed, cases, strict=True)
    ]
    return rates, rows


def alone(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run in a fresh process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *arguments).result()


def passes(case: Case) -> int:
    """Forward-sized passes of each critic in an update.

    Target 1, dataset action 1 + 2, policy gradient 1 + 1; the regulariser adds 1 + 2.
    """
    return 9 if case.alpha else 6


def matrix_rates() -> dict[str, float]:
    """GFLOP/s of 16 products of 256 x 256 matrices in each library that is installed."""
    import jax
    import jax.numpy as jnp

    left, right = np.random.default_rng(0).standard_normal((2, 16, 256, 256), np.float32)
    flops = 2.0 * 16 * 256**3
    product = jax.jit(jnp.matmul)
    jax_left, jax_right = jnp.asarray(left), jnp.asarray(right)
    functions: dict[str, Callable[[], Any]] = {
        "numpy": lambda: np.matmul(left, right),
        "jax": lambda: jax.block_until_ready(product(jax_left, jax_right)),
    }
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        pass
    else:
        torch_left, torch_right = torch.from_numpy(left), torch.from_numpy(right)
        functions["torch"] = lambda: torch.bmm(torch_left, torch_right)
    return {name: flops / best_time(work, seconds=0.2) / 1e9 for name, work in functions.items()}


def best_time(work: Callable[[], Any], *, seconds: float) -> float:
    """Seconds a call, in the best of several windows of about that length."""
    work()
    began = time.perf_counter()
    work()
    repeats = max(1, round(seconds / max(time.perf_counter() - began, 1e-6)))
    best = float("inf")
    for _ in range(WINDOWS):
        began = time.perf_counter()
        for _ in range(repeats):
            work()
        best = min(best, (time.perf_counter() - began) / repeats)
    return best


def time_case(case: Case) -> dict[str, Any]:
    """Compile and time MSG updates on random data."""
    algorithm = _msg(case)
    advance = stepper(algorithm, _feed(algorithm, random_dataset()))
    first = advance(1)
    once = min(advance(1) for _ in range(2))
    steps = max(2, round(WINDOW_SECONDS / once))
    per_update = min(advance(steps) for _ in range(WINDOWS))
    sizes = (OBSERVATION_SIZE + ACTION_SIZE, *case.hidden, 1)
    forward = 2.0 * BATCH * sum(a * b for a, b in pairwise(sizes))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "members": case.members,
        "hidden": list(case.hidden),
        "alpha": case.alpha,
        "updates_per_s": 1.0 / per_update,
        "gflops": passes(case) * case.members * forward / per_update / 1e9,
        "compile_s": first - once,
        "peak_mb": peak / (2**20 if sys.platform == "darwin" else 2**10),
    }


def compare_feeds(case: Case) -> list[dict[str, Any]]:
    """Updates a second with all transitions on the device, and with batches from mapped files.

    Windows of the two alternate, so that a machine that changes speed is fair to both.
    """
    from chary.data import formats

    algorithm, in_memory = _msg(case), random_dataset()
    with tempfile.TemporaryDirectory(prefix="chary-bench-") as folder:
        path = Path(folder) / "data.columns"
        formats.write(in_memory, path)
        datasets = {"memory": in_memory, "files": formats.read(path)}
        advance = {name: stepper(algorithm, _feed(algorithm, d)) for name, d in datasets.items()}
        once = {name: [advance[name](1) for _ in range(3)][-1] for name in datasets}
        steps = max(2, round(WINDOW_SECONDS / min(once.values())))
        seconds: dict[str, list[float]] = {name: [] for name in datasets}
        for _ in range(2 * WINDOWS):
            for name in datasets:
                seconds[name].append(advance[name](steps))
    medians = {name: float(np.median(times)) for name, times in seconds.items()}
    return [
        {
            "transitions": name,
            "members": case.members,
            "hidden": list(case.hidden),
            "updates_per_s": 1.0 / median,
            "ratio": medians["memory"] / median,
        }
        for name, median in medians.items()
    ]


def stepper(algorithm: "Algorithm[Any]", feed: "Feed") -> Callable[[int], float]:
    """A function that makes so many updates and returns the seconds that each took."""
    import jax

    from chary.chunk import initial_carry

    carry = initial_carry(algorithm, BATCH, OBSERVATION_SIZE, ACTION_SIZE, seed=0)
    step = 0

    def advance(steps: int) -> float:
        nonlocal carry, step
        began, end = time.perf_counter(), step + steps
        while step < end:
            stop = min(end, feed.reach(step))
            carry, step = jax.block_until_ready(feed.advance(carry, step, stop)), stop
        return (time.perf_counter() - began) / steps

    return advance


def random_dataset() -> "Dataset":
    """Transitions that mean nothing."""
    from chary.data.dataset import Dataset

    rng = np.random.default_rng(0)

    def random(*sizes: int) -> np.ndarray:
        return rng.uniform(-1, 1, (TRANSITIONS, *sizes)).astype(np.float32)

    columns = {
        "observations": random(OBSERVATION_SIZE),
        "actions": random(ACTION_SIZE),
        "rewards": random(),
        "next_observations": random(OBSERVATION_SIZE),
        "terminals": np.zeros(TRANSITIONS, bool),
        "timeouts": np.arange(TRANSITIONS) % 1000 == 999,
    }
    return Dataset.from_columns(columns, name="random")


def _msg(case: Case) -> "Algorithm[Any]":
    from chary.algos.msg import make_msg
    from chary.algos.msg_config import MSGConfig

    config = MSGConfig(
        members=case.members, hidden=case.hidden, alpha=case.alpha, warmup_steps=0, batch_size=BATCH
    )
    return make_msg(config, OBSERVATION_SIZE, ACTION_SIZE)


def _feed(algorithm: "Algorithm[Any]", dataset: "Dataset") -> "Feed":
    from chary.data.scaling import RewardTransform, Scaling
    from chary.feed import make_feed

    scaling = Scaling.of(dataset, RewardTransform(), normalise_observations=False)
    return make_feed(algorithm, dataset, scaling, BATCH, seed=0)
