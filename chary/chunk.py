"""The compiled program: many steps of learning without a word to the host.

Every step takes its randomness from `fold_in(key, step)`, and the carry holds the running sums of the
metrics, so the result does not depend on where the loop is cut into chunks: stopping anywhere and
going on gives the same bits. The number of steps in a chunk is an argument of the program.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from chary.types import Algorithm, Batch, Metrics


class Carry(NamedTuple):
    """What goes from step to step, and into checkpoints."""

    state: Any
    sums: Metrics
    """Metrics summed since the last log line."""
    steps: Int[Array, ""]
    """Steps since the last log line."""

    def fresh(self) -> "Carry":
        """The same state, with nothing summed yet."""
        return Carry(self.state, jax.tree.map(jnp.zeros_like, self.sums), jnp.int32(0))


def keys(seed: int) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    """The key of the initial parameters, and the key that steps are folded into."""
    init_key, step_key = jax.random.split(jax.random.key(seed))
    return init_key, step_key


def initial_carry(
    algorithm: Algorithm[Any],
    batch_size: int,
    observation_size: int,
    action_size: int,
    *,
    seed: int,
) -> Carry:
    """The state before the first step; the metrics' names come from tracing one update."""

    def shape(*sizes: int) -> Any:
        return jax.ShapeDtypeStruct((batch_size, *sizes), jnp.float32)

    observations, actions, numbers = shape(observation_size), shape(action_size), shape()
    next_actions = actions if algorithm.wants_next_actions else None
    batch = Batch(observations, actions, numbers, numbers, observations, next_actions)
    state = jax.jit(algorithm.init)(keys(seed)[0])
    metrics = jax.eval_shape(algorithm.update, state, batch, jax.random.key(0))[1]
    sums = {name: jnp.zeros(s.shape, s.dtype) for name, s in metrics.items()}
    return Carry(state, sums, jnp.int32(0))


def draw(key: PRNGKeyArray, step: Any, batch_size: int, size: int) -> tuple[Any, PRNGKeyArray]:
    """The rows of a step's batch, and the key of its update."""
    sample_key, update_key = jax.random.split(jax.random.fold_in(key, step))
    return jax.random.randint(sample_key, (batch_size,), 0, size), update_key


def compile_chunk(
    algorithm: Algorithm[Any], batch_size: int
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

    return jax.jit(chunk, donate_argnums=0, compiler_options=compiler_options())


def compile_fed_chunk(
    algorithm: Algorithm[Any], batch_size: int
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

    return jax.jit(chunk, donate_argnums=0, compiler_options=compiler_options())


def _update(algorithm: Algorithm[Any], carry: Carry, batch: Batch, key: PRNGKeyArray) -> Carry:
    state, metrics = algorithm.update(carry.state, batch, key)
    return Carry(state, jax.tree.map(jnp.add, carry.sums, metrics), carry.steps + 1)


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
