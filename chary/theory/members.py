"""Fits of an ensemble's members that have nothing to do with each other."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import jax

from chary.execution.program import compiler_options, one_of, together
from chary.host.machine import cores

Fitted = TypeVar("Fitted")


def for_every_member(fit: Callable[..., Fitted]) -> Callable[..., Fitted]:
    """`fit` for all members, whose arguments and results have a leading axis of them.

    A processor runs the program of one network for each member, a thread a core: a network's activations
    stay in the cache, and no core waits for another. An accelerator runs all members in one program.
    """
    if jax.default_backend() != "cpu":
        return jax.jit(jax.vmap(fit))
    alone = jax.jit(fit, compiler_options=compiler_options())

    def every(*arguments: Any) -> Fitted:
        count = len(jax.tree.leaves(arguments)[0])

        def one(member: int) -> Fitted:
            return jax.block_until_ready(alone(*(one_of(a, member, count) for a in arguments)))

        with ThreadPoolExecutor(cores()) as threads:
            return together(list(threads.map(one, range(count))))

    return every
