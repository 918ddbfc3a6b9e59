"""A process that makes updates of one kind when told to, and says how fast.

    python benchmarks/worker.py '{"kind": "ours" | "plain" | "d3rlpy" | "matrix", "members": 4, ...}'
    python benchmarks/worker.py '{"kind": "baseline" | "d3rlpy-baseline", "algorithm": "iql", ...}'

Every line on standard input is a number of seconds to train for; the answer is a line of JSON. The kind
"matrix" multiplies batches of 256 x 256 matrices instead, in every library that its Python has.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

OBSERVATION, ACTION, BATCH = 29, 8, 256


def ours_or_plain(case: dict[str, Any]) -> Callable[[int], Any]:
    """Steps of the package's MSG, or of the same executed the plain way, in the package's own loop."""
    from chary import algos
    from chary.algos.msg_config import MSGConfig
    from chary.bench import timing
    from chary.execution.config import Execution

    config = MSGConfig(
        members=case["members"],
        hidden=tuple(case["hidden"]),
        alpha=case["alpha"],
        regulariser_samples=case["samples"],
        warmup_steps=0,
        batch_size=BATCH,
    )
    execution = Execution(executor="plain")
    if case["kind"] == "ours":
        execution = Execution(window=case["window"])
    algorithm = algos.build("msg", config, OBSERVATION, ACTION, execution)
    return timing.stepper(algorithm, timing.feed_of(algorithm, timing.random_dataset()))


def d3rlpy(case: dict[str, Any]) -> Callable[[int], Any]:
    """Updates of d3rlpy's SAC with as many critics, batches drawn from its own buffer."""
    import d3rlpy  # pyright: ignore[reportMissingImports]
    import structlog  # pyright: ignore[reportMissingImports]

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    rng = np.random.default_rng(0)
    size = 100_000
    ends = np.arange(size) % 1000 == 999
    dataset = d3rlpy.dataset.MDPDataset(
        rng.uniform(-1, 1, (size, OBSERVATION)).astype(np.float32),
        rng.uniform(-1, 1, (size, ACTION)).astype(np.float32),
        rng.uniform(-1, 1, size).astype(np.float32),
        np.zeros(size, np.float32),
        ends.astype(np.float32),
    )
    network = d3rlpy.models.encoders.VectorEncoderFactory(list(case["hidden"]))
    sac = d3rlpy.algos.SACConfig(
        batch_size=BATCH,
        n_critics=case["members"],
        actor_encoder_factory=network,
        critic_encoder_factory=network,
    ).create(device="cpu:0")
    sac.build_with_dataset(dataset)

    def advance(steps: int) -> None:
        for _ in range(steps):
            sac.update(dataset.sample_transition_batch(BATCH))

    return advance


def baseline(case: dict[str, Any]) -> Callable[[int], Any]:
    """Steps of one of the package's baselines."""
    from chary import algos
    from chary import config as settings
    from chary.bench import timing

    entry = algos.entry(case["algorithm"])
    config = settings.from_json(entry.config, case["settings"])
    algorithm = algos.build(case["algorithm"], config, OBSERVATION, ACTION)
    return timing.stepper(algorithm, timing.feed_of(algorithm, timing.random_dataset()))


def d3rlpy_baseline(case: dict[str, Any]) -> Callable[[int], Any]:
    """Updates of d3rlpy's, batches cut from arrays."""
    import theirs

    rng, size = np.random.default_rng(0), 100_000
    widths = {"observations": OBSERVATION, "actions": ACTION, "next_observations": OBSERVATION}
    arrays = {
        name: rng.uniform(-1, 1, (size, width)).astype(np.float32) for name, width in widths.items()
    }
    arrays["rewards"], arrays["discounts"] = rng.uniform(0, 1, (2, size)).astype(np.float32)
    made = theirs.make(case["algorithm"], case["settings"], (OBSERVATION, ACTION))
    source = theirs.batches(arrays, BATCH, seed=0)

    def advance(steps: int) -> None:
        for _ in range(steps):
            made.update(next(source))

    return advance


KINDS: dict[str, Callable[[dict[str, Any]], Callable[[int], Any]]] = {
    "ours": ours_or_plain,
    "plain": ours_or_plain,
    "d3rlpy": d3rlpy,
    "baseline": baseline,
    "d3rlpy-baseline": d3rlpy_baseline,
}


def multiply() -> None:
    """GFLOP/s of 16 products of 256 x 256 matrices, with all threads, best of several calls."""
    left, right = np.random.default_rng(0).standard_normal((2, 16, 256, 256), np.float32)
    functions: dict[str, Callable[[], Any]] = {"numpy": lambda: np.matmul(left, right)}
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        import jax

        product = jax.jit(jax.numpy.matmul)
        jax_left, jax_right = jax.numpy.asarray(left), jax.numpy.asarray(right)
        functions["jax"] = lambda: jax.block_until_ready(product(jax_left, jax_right))
    else:
        torch_left, torch_right = torch.from_numpy(left), torch.from_numpy(right)
        functions["torch"] = lambda: torch.bmm(torch_left, torch_right)
    for work in functions.values():
        work()
    print(json.dumps({"libraries": list(functions)}), flush=True)
    for line in sys.stdin:
        best = dict.fromkeys(functions, float("inf"))
        end = time.perf_counter() + float(line)
        while time.perf_counter() < end:
            for name, work in functions.items():
                began = time.perf_counter()
                for _ in range(8):
                    work()
                best[name] = min(best[name], (time.perf_counter() - began) / 8)
        rates = {name: 2.0 * 16 * 256**3 / seconds / 1e9 for name, seconds in best.items()}
        print(json.dumps(rates), flush=True)


def main() -> None:
    case = json.loads(sys.argv[1])
    if case["kind"] == "matrix":
        multiply()
        return
    began = time.perf_counter()
    advance = KINDS[case["kind"]](case)
    advance(1)
    ready = time.perf_counter() - began
    print(json.dumps({"ready_s": ready}), flush=True)
    for line in sys.stdin:
        seconds, began, steps, length = float(line), time.perf_counter(), 0, 1
        while (spent := time.perf_counter() - began) < seconds:
            advance(length)
            steps += length
            # The host asks about four times in a window; that is all it costs.
            spent = time.perf_counter() - began
            length = max(1, min(2 * length, round(seconds / 4 * steps / spent)))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        print(json.dumps({"updates_per_s": steps / spent, "peak_mb": peak}), flush=True)


if __name__ == "__main__":
    main()
