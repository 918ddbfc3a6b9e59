"""Some members at a time: a window over the first axis of their arrays.

What a large ensemble needs for an update does not fit into a processor's cache; what a few members need
does. Going from window to window, a step reads and writes every parameter once.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
from jaxtyping import Array, Int

Tree = TypeVar("Tree")


class Window(NamedTuple):
    """A few members that stand side by side, or all of them."""

    start: Int[Array, ""] | int
    size: int
    whole: bool

    def of(self, tree: Tree) -> Tree:
        """These members' part of every array."""
        if self.whole:
            return tree
        return jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, self.start, self.size), tree)

    def put(self, tree: Tree, part: Tree) -> Tree:
        """Every array with these members' part replaced."""
        if self.whole:
            return part
        return jax.tree.map(
            lambda x, new: jax.lax.dynamic_update_slice_in_dim(x, new, self.start, 0), tree, part
        )


def through_windows(
    work: Callable[[Window, Tree], Tree], carry: Tree, *, members: int, size: int
) -> Tree:
    """`work(window, carry)` for one window after the other; the carry is updated in place."""
    if size == members:
        return work(Window(0, members, whole=True), carry)
    return jax.lax.fori_loop(
        0,
        members // size,
        lambda i, carry: work(Window(i * size, size, whole=False), carry),
        carry,
    )
