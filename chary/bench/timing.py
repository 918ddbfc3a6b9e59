"""What every measurement stands on: a process of its own, random data, and a way to make updates."""

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from chary.host.machine import memory_in_use

if TYPE_CHECKING:
    from chary.algos.msg_config import MSGConfig
    from chary.data.dataset import Dataset
    from chary.execution.batches import Feed
    from chary.types import Algorithm

OBSERVATION_SIZE, ACTION_SIZE, BATCH = 29, 8, 256
TRANSITIONS = 100_000
LARGE, SMALL = (256, 256, 256), (64, 64, 64)


class Case(NamedTuple):
    """One setting to be timed."""

    members: int
    hidden: tuple[int, ...]
    alpha: float
    ensemble: str = "deep"
    samples: Literal["shared", "own"] = "own"
    """Where H is taken, as in `--regulariser-samples`; the paper's way unless said."""


def alone(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run in a fresh process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *arguments).result()


def stepper(algorithm: "Algorithm[Any]", feed: "Feed", runs: int = 1) -> Callable[[int], float]:
    """A function that makes so many updates (of all runs) and returns the seconds that each took."""
    import jax

    from chary.execution.program import initial_carry, together

    sizes = OBSERVATION_SIZE, ACTION_SIZE
    carry = together([initial_carry(algorithm, BATCH, *sizes, seed=seed) for seed in range(runs)])
    step = 0

    def advance(steps: int) -> float:
        nonlocal carry, step
        began, end = time.perf_counter(), step + steps
        while step < end:
            stop = min(end, feed.reach(step))
            carry, step = jax.block_until_ready(feed.advance(carry, step, stop)), stop
        return (time.perf_counter() - began) / steps

    return advance


def random_dataset(
    observation_size: int = OBSERVATION_SIZE,
    action_size: int = ACTION_SIZE,
    transitions: int | None = None,
) -> "Dataset":
    """Transitions that mean nothing."""
    from chary.data.dataset import Dataset

    rng, transitions = np.random.default_rng(0), transitions or TRANSITIONS

    def random(*sizes: int) -> np.ndarray:
        return rng.uniform(-1, 1, (transitions, *sizes)).astype(np.float32)

    columns = {
        "observations": random(observation_size),
        "actions": random(action_size),
        "rewards": random(),
        "next_observations": random(observation_size),
        "terminals": np.zeros(transitions, bool),
        "timeouts": np.arange(transitions) % 1000 == 999,
    }
    return Dataset.from_columns(columns, name="random")


def peak_mb() -> float:
    """The most memory that this process has held."""
    return memory_in_use() / 2**20


def config_of(case: Case) -> "MSGConfig":
    """MSG's settings, without a warm-up; a kind may end in -whole, the rows its members learn from."""
    from chary.algos.msg_config import MSGConfig

    ensemble, _, rows = case.ensemble.partition("-")
    return MSGConfig(
        members=case.members,
        hidden=case.hidden,
        alpha=case.alpha,
        regulariser_samples=case.samples,
        ensemble=ensemble,
        member_rows="whole" if rows else "auto",
        warmup_steps=0,
        batch_size=BATCH,
    )


def window_of(case: Case) -> int:
    """As many members at a time as training takes."""
    from chary.training.window_size import window_size

    return window_size(config_of(case), 1, OBSERVATION_SIZE, ACTION_SIZE)


def algorithm_of(case: Case) -> "Algorithm[Any]":
    """MSG for random data."""
    from chary import algos
    from chary.execution.config import Execution

    sizes = OBSERVATION_SIZE, ACTION_SIZE
    return algos.build("msg", config_of(case), *sizes, Execution(window=window_of(case)))


def feed_of(algorithm: "Algorithm[Any]", dataset: "Dataset", runs: int = 1) -> "Feed":
    """Batches of a dataset as it is, for so many runs."""
    from chary.data.scaling import RewardTransform, Scaling
    from chary.execution.batches import make_feed

    scaling = Scaling.of(dataset, RewardTransform(), normalise_observations=False)
    return make_feed(algorithm, dataset, scaling, BATCH, seeds=range(runs))
