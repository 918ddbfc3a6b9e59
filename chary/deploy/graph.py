"""A short list of simple operations, which any format can hold."""

from typing import Any, NamedTuple

import numpy as np

Shape = tuple[int | None, ...]
"""None is the batch, of any size."""


class Node(NamedTuple):
    """An operation; `reader.py` says what each does."""

    op: str
    inputs: tuple[str, ...]
    output: str
    options: dict[str, Any]


class Graph(NamedTuple):
    """Operations in an order in which they can be computed."""

    inputs: dict[str, Shape]
    constants: dict[str, np.ndarray]
    nodes: tuple[Node, ...]
    outputs: dict[str, str]
    """What each output is called among the nodes' outputs."""
    shapes: dict[str, Shape]
    """Of the outputs."""
