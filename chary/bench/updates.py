"""How fast this machine trains, measured against what its arithmetic units could do at best."""

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from chary.bench import timing
from chary.bench.timing import ACTION_SIZE, BATCH, LARGE, OBSERVATION_SIZE, SMALL, Case

WINDOWS = 5
"""Times are the best of this many windows, for updates and for matrix products alike."""
WINDOW_SECONDS = 1.5

CASES = [
    case
    for n in (1, 4, 16, 64)
    for case in (Case(n, LARGE, 0.1), Case(n, LARGE, 0.1, samples="shared"), Case(n, LARGE, 0.0))
] + [Case(8, SMALL, 0.1, samples="shared")]


def time_updates(cases: list[Case]) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """The machine's matrix-multiply rates, and a row for every case.

    Each case runs in a process of its own, so that peak memory is its own; the matrix rate is measured
    again before every case and the best is taken, because shared machines change speed.
    """
    rates: dict[str, float] = {}
    timed: list[dict[str, Any]] = []
    for case in cases:
        for name, rate in timing.alone(matrix_rates).items():
            rates[name] = max(rate, rates.get(name, 0.0))
        timed.append(timing.alone(time_case, case))
    best = max(rates.values())
    rows = [
        {**row, "share_of_gemm": row["gflops"] / best, "passes_counted": passes(case)}
        for row, case in zip(timed, cases, strict=True)
    ]
    return rates, rows


def passes(case: Case) -> int:
    """Forward-sized passes of each critic in an update.

    Target 1, dataset action 1 + 2, policy gradient 1 + 1; the regulariser adds 1 + 2 at samples of its
    own, and 1 at the policy's, where the gradient in the parameters alone is new.
    """
    if not case.alpha:
        return 6
    return 9 if case.samples == "own" else 7


def flops(case: Case) -> float:
    """Of an update's matrix products: the passes of every critic, and the policy's four, which are next
    states 1 and states 1 + 2."""
    critic = (OBSERVATION_SIZE + ACTION_SIZE, *case.hidden, 1)
    policy = (OBSERVATION_SIZE, *case.hidden, 2 * ACTION_SIZE)

    def forward(sizes: tuple[int, ...]) -> float:
        return 2.0 * BATCH * sum(a * b for a, b in pairwise(sizes))

    return passes(case) * case.members * forward(critic) + 4 * forward(policy)


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
    algorithm = timing.algorithm_of(case)
    advance = timing.stepper(algorithm, timing.feed_of(algorithm, timing.random_dataset()))
    first = advance(1)
    once = min(advance(1) for _ in range(2))
    steps = max(2, round(WINDOW_SECONDS / once))
    per_update = min(advance(steps) for _ in range(WINDOWS))
    return {
        "members": case.members,
        "hidden": list(case.hidden),
        "alpha": case.alpha,
        "samples": case.samples if case.alpha else None,
        "updates_per_s": 1.0 / per_update,
        "gflops": flops(case) / per_update / 1e9,
        "compile_s": first - once,
        "peak_mb": timing.peak_mb(),
    }
