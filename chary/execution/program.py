"""The compiled program: many steps of learning without a word to the host.

Every step takes its randomness from `fold_in(key, step)`, and the carry holds the running sums of the
metrics, so the result does not depend on where the loop is cut into chunks: stopping anywhere and
resuming gives the same bits. The number of steps in a chunk is an argument of the program.

One program trains one run or several. Everything that is a run's own (its carry and its key) then has a
leading axis of runs; one run alone has none, and is the plain program.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from chary.errors import CharyError, reason
from chary.execution.cost import cost_of
from chary.host.machine import available_memory, cores
from chary.types import Algorithm, Batch, PyTree

Tree = TypeVar("Tree", bound=PyTree)

COMPILED = 8
"""Programs of which a process keeps the latest, for its next run of the same settings."""


class Carry(NamedTuple):
    """What goes from step to step, and into checkpoints."""

    state: Any
    sums: dict[str, Float[Array, "*run"]]
    """Metrics summed since the last log line."""
    steps: Int[Array, "*run"]
    """Steps since the last log line."""

    def fresh(self) -> "Carry":
        """The same state, with nothing summed yet."""
        sums, steps = jax.tree.map(jnp.zeros_like, (self.sums, self.steps))
        return Carry(self.state, sums, steps)

    def means(self) -> list[dict[str, float]]:
        """Each run's mean metrics since the last log line; none where it has not learned since."""
        steps = np.atleast_1d(np.asarray(self.steps, np.float32))
        if not steps.all():
            return [{} for _ in steps]
        means = {name: np.atleast_1d(np.asarray(s)) / steps for name, s in self.sums.items()}
        return [{name: float(m[run]) for name, m in means.items()} for run in range(len(steps))]


def together(trees: Sequence[Tree]) -> Tree:
    """What several runs have, along a leading axis; what one has, as it is."""
    return trees[0] if len(trees) == 1 else _stack(*trees)


def one_of(tree: Tree, run: int, runs: int) -> Tree:
    """What one of so many runs has."""
    return tree if runs == 1 else _take(tree, run)


@jax.jit
def _stack(*trees: Any) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


@jax.jit
def _take(tree: Any, run: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[run], tree)


def side_by_side(work: Callable[..., Any], runs: int, axes: tuple[int | None, ...]) -> Any:
    """The same work for so many runs; `axes` says which arguments are each run's own."""
    return work if runs == 1 else jax.vmap(work, in_axes=axes)


@jax.jit
def keys(seed: Any) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    """The key of the initial parameters, and the key that steps are folded into."""
    init_key, step_key = jax.random.split(jax.random.key(seed))
    return init_key, step_key


def trace_update(
    algorithm: Algorithm[Any], batch_size: int, observation_size: int, action_size: int
) -> jax.stages.Traced:
    """One update as JAX sees it: what it computes, and the shapes of the state and metrics."""

    def shape(*sizes: int) -> Any:
        return jax.ShapeDtypeStruct((batch_size, *sizes), jnp.float32)

    observations, actions, numbers = shape(observation_size), shape(action_size), shape()
    next_actions = actions if algorithm.wants_next_actions else None
    returns = numbers if algorithm.wants_returns else None
    batch = Batch(observations, actions, numbers, numbers, observations, next_actions, returns)
    key, state = _shapes(algorithm)
    return _traced_once(algorithm).trace(state, batch, key)


@lru_cache(maxsize=COMPILED)
def _shapes(algorithm: Algorithm[Any]) -> tuple[Any, Any]:
    """Of a key and of the state. Asked once: JAX would keep a little of every time."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    return key, jax.eval_shape(algorithm.init, key)


def refuse_too_large(
    algorithm: Algorithm[Any], batch_size: int, observation_size: int, action_size: int
) -> None:
    """Refuse networks that do not fit memory, before anything is allocated."""
    try:
        needed = cost_of(trace_update(algorithm, batch_size, observation_size, action_size)).memory
    except (OverflowError, TypeError, ValueError) as error:
        raise CharyError(f"networks of this size cannot be made ({reason(error)}).") from error
    free = available_memory()
    if needed > free:
        raise CharyError(
            f"an update takes about {needed / 1e9:.3g} GB of memory, but {free / 1e9:.3g} GB are free. "
            "Choose smaller --hidden, fewer --members or a smaller --batch-size."
        )


def initial_carry(
    algorithm: Algorithm[Any],
    batch_size: int,
    observation_size: int,
    action_size: int,
    *,
    seed: int,
) -> Carry:
    """The state before the first step; the metrics' names come from tracing one update."""
    update = trace_update(algorithm, batch_size, observation_size, action_size)
    metrics = update.out_info[1]
    state = _initial_state(algorithm)(keys(seed)[0])
    # Arrays of NumPy go to the device as they are, where jnp.zeros would be a program of its own.
    zeros = jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), (metrics, np.int32(0)))
    return Carry(state, *jax.device_put(zeros))


@lru_cache(maxsize=COMPILED)
def _initial_state(algorithm: Algorithm[Any]) -> Callable[[PRNGKeyArray], Any]:
    """`begin(key)`: the state before the first step. Its continuous settings come from a program of
    their own: all else is one program for every value of them, which is compiled once and then found
    in the cache."""
    fields = getattr(_shapes(algorithm)[1], "_fields", ())
    if "hyper" not in fields or algorithm.spread is not None:
        return jax.jit(algorithm.init)
    rest = jax.jit(lambda key: algorithm.init(key)._replace(hyper=None))
    hyper = jax.jit(lambda key: algorithm.init(key).hyper)
    return lambda key: rest(key)._replace(hyper=hyper(key))


def draw(key: PRNGKeyArray, step: Any, batch_size: int, size: int) -> tuple[Any, PRNGKeyArray]:
    """The rows of a step's batch, and the key of its update."""
    sample_key, update_key = jax.random.split(jax.random.fold_in(key, step))
    return jax.random.randint(sample_key, (batch_size,), 0, size), update_key


@lru_cache(maxsize=COMPILED)
def compile_chunk(
    algorithm: Algorithm[Any], batch_size: int, runs: int = 1
) -> Callable[[Carry, Batch, Any, Any, PRNGKeyArray], Carry]:
    """`chunk(carry, transitions, start, stop, key)`: steps start to stop - 1, as one program."""

    def chunk(
        carry: Carry, transitions: Batch, start: jax.Array, stop: jax.Array, key: PRNGKeyArray
    ) -> Carry:
        size = transitions.rewards.shape[0]

        def one_step(step: jax.Array, carry: Carry) -> Carry:
            rows, update_key = draw(key, step, batch_size, size)
            batch = jax.tree.map(lambda column: column[rows], transitions)
            return _update(algorithm, carry, batch, update_key)

        return jax.lax.fori_loop(start, stop, one_step, carry)

    return _for_all(chunk, algorithm, runs, (0, None, None, None, 0))


@lru_cache(maxsize=COMPILED)
def compile_fed_chunk(
    algorithm: Algorithm[Any], batch_size: int, runs: int = 1
) -> Callable[[Carry, Batch, Any, Any, Any, PRNGKeyArray], Carry]:
    """`chunk(carry, batches, first, start, stop, key)`: the same, with the batches already drawn.

    `batches` has a leading axis of steps, the first of which is step `first`.
    """

    def chunk(
        carry: Carry,
        batches: Any,
        first: jax.Array,
        start: jax.Array,
        stop: jax.Array,
        key: PRNGKeyArray,
    ) -> Carry:
        def one_step(step: jax.Array, carry: Carry) -> Carry:
            _, update_key = draw(key, step, batch_size, 1)
            batch = jax.tree.map(lambda column: column[step - first], batches)
            return _update(algorithm, carry, batch, update_key)

        return jax.lax.fori_loop(start, stop, one_step, carry)

    return _for_all(chunk, algorithm, runs, (0, 0, None, None, None, 0))


def in_one_program(algorithm: Algorithm[Any]) -> bool:
    """Whether several runs go through one program at the same time, step by step.

    An accelerator gains from that. A processor does not, as products of more members are no faster
    there: it does the program of a single run for each of them, a thread a core, so that what small
    networks leave idle is used, and every run has the bits that it would have alone.
    """
    return algorithm.spread is not None or jax.default_backend() != "cpu"


def _for_all(
    chunk: Callable[..., Carry],
    algorithm: Algorithm[Any],
    runs: int,
    axes: tuple[int | None, ...],
) -> Callable[..., Carry]:
    """The compiled chunk of so many runs; `axes` says which arguments are each run's own."""
    options: dict[str, Any] = {"donate_argnums": 0, "compiler_options": compiler_options()}
    if runs == 1 or in_one_program(algorithm):
        return jax.jit(side_by_side(chunk, runs, axes), **options)
    alone, threads = jax.jit(chunk, **options), ThreadPoolExecutor(cores())

    def all_runs(*arguments: Any) -> Carry:
        def of_run(run: int) -> Carry:
            own = [
                x if axis is None else one_of(x, run, runs)
                for x, axis in zip(arguments, axes, strict=True)
            ]
            return jax.block_until_ready(alone(*own))

        return together(list(threads.map(of_run, range(runs))))

    return all_runs


def _update(algorithm: Algorithm[Any], carry: Carry, batch: Batch, key: PRNGKeyArray) -> Carry:
    state, metrics = _traced_once(algorithm)(carry.state, batch, key)
    return Carry(state, jax.tree.map(jnp.add, carry.sums, metrics), carry.steps + 1)


@lru_cache(maxsize=COMPILED)
def _traced_once(algorithm: Algorithm[Any]) -> Any:
    """The update; JAX remembers its trace, and inlines it into the program as if it stood there.

    Made once for an algorithm, because JAX remembers each function that it makes of an update.
    """
    return jax.jit(algorithm.update, inline=True)


@cache
def compiler_options() -> dict[str, str]:
    """On CPUs, XLA's newer matrix kernels are slower than Eigen's at our sizes."""
    options = {"xla_cpu_experimental_ynn_fusion_type": ""}
    if jax.default_backend() != "cpu":
        return {}
    try:
        jax.jit(jnp.negative, compiler_options=options)(0.0)
    except RuntimeError:  # an experimental option: a version of XLA may do without it
        return {}
    return options
