"""Writing a graph's operations down: simple ones as they are, those of tensors by a few simple ones."""

import math
from typing import Any, NamedTuple

import numpy as np

from chary.deploy.graph import Node, Shape
from chary.errors import CharyError


class Variable(NamedTuple):
    """A value that depends on the inputs."""

    name: str


class Emitter:
    """Operations and constants so far."""

    def __init__(self):
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray] = {}
        self._count = 0

    def variable(self, name: str | None = None) -> Variable:
        if name is None:
            name = f"v{self._count}"
            self._count += 1
        return Variable(name)

    def named(self, value: Any) -> str:
        """A value's name; numbers get one."""
        if isinstance(value, Variable):
            return value.name
        name = f"c{self._count}"
        self._count += 1
        self.constants[name] = np.asarray(value)
        return name

    def emit(self, op: str, *inputs: Any, **options: Any) -> Variable:
        output = self.variable()
        names = tuple(self.named(value) for value in inputs)
        self.nodes.append(Node(op, names, output.name, options))
        return output

    def power(self, value: Any, exponent: int) -> Any:
        if exponent < 1:
            raise unknown("a power below 1")
        result = value
        for _ in range(exponent - 1):
            result = self.emit("mul", result, value)
        return result

    def reshape(self, value: Any, shape: Shape) -> Any:
        return self.emit("reshape", value, shape=[-1 if size is None else size for size in shape])

    def broadcast(self, value: Any, before: Shape, after: Shape, places: list[int]) -> Any:
        """To the right number of axes, then to their sizes."""
        spread = tuple(
            before[places.index(axis)] if axis in places else 1 for axis in range(len(after))
        )
        if spread != before:
            value = self.reshape(value, spread)
        return (
            value if spread == after else self.emit("expand", value, shape=[s or -1 for s in after])
        )

    def slice(self, value: Any, before: Shape, params: Any) -> Any:
        starts, ends = params["start_indices"], params["limit_indices"]
        strides = params["strides"] or (1,) * len(starts)
        for axis, size in enumerate(before):
            whole = (
                size is None
                and not isinstance(ends[axis], int | np.integer)
                and int(starts[axis]) == 0
            )
            if size is None and not whole:
                raise unknown("a part of the batch")
            if whole:
                continue
            part = int(starts[axis]), int(ends[axis]), int(strides[axis])
            if part != (0, size, 1):
                value = self.emit(
                    "slice", value, axis=axis, start=part[0], end=part[1], step=part[2]
                )
        return value

    def take(self, value: Any, before: Shape, places: np.ndarray, after: Shape, params: Any) -> Any:
        """Columns at known places: what indexing becomes where the batch is of unknown size."""
        numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
        axes = tuple(map(int, numbers.start_index_map))
        if places.ndim == 1:  # one window
            for axis, start in zip(axes, places.tolist(), strict=True):
                part = start, start + int(sizes[axis])
                if part != (0, before[axis]):
                    value = self.emit("slice", value, axis=axis, start=part[0], end=part[1], step=1)
            return self.reshape(value, after)
        if places.ndim != 2 or len(axes) != 1 or tuple(numbers.collapsed_slice_dims) != axes:
            raise unknown("gather")
        taken = self.emit("take", value, axis=axes[0], places=places[:, 0].tolist())
        (goes_to,) = set(range(len(after))) - set(numbers.offset_dims)
        order = [axis for axis in range(len(after)) if axis != axes[0]]
        order.insert(goes_to, axes[0])
        return taken if order == sorted(order) else self.emit("transpose", taken, axes=order)

    def product(self, values: list[Any], before: list[Shape], after: Shape, numbers: Any) -> Any:
        """Any product of tensors as one of matrices: batch, rows, columns."""
        (left, right), (left_batch, right_batch) = (
            tuple(tuple(map(int, axes)) for axes in pair) for pair in numbers
        )
        free = [
            tuple(a for a in range(len(shape)) if a not in (*axes, *batch))
            for shape, axes, batch in (
                (before[0], left, left_batch), (before[1], right, right_batch),
            )
        ]  # fmt: skip
        lefts = self._as_matrix(values[0], before[0], left_batch, free[0], left)
        rights = self._as_matrix(values[1], before[1], right_batch, right, free[1])
        product = self.emit("matmul", lefts, rights)
        simple = all(len(axes) == 1 for axes in free)
        return product if simple else self.reshape(product, after)

    def _as_matrix(
        self, value: Any, shape: Shape, batch: tuple[int, ...], rows: tuple[int, ...],
        columns: tuple[int, ...],
    ) -> Any:  # fmt: skip
        order = [*batch, *rows, *columns]
        if order != sorted(order):
            value = self.emit("transpose", value, axes=order)
        if len(rows) == len(columns) == 1:
            return value

        def size(axes: tuple[int, ...]) -> int | None:
            known = [size for size in (shape[axis] for axis in axes) if size is not None]
            return math.prod(known) if len(known) == len(axes) else None

        return self.reshape(value, (*(shape[a] for a in batch), size(rows), size(columns)))


def unknown(what: str) -> CharyError:
    """An error for what no file can hold."""
    return CharyError(
        f"this agent cannot be exported: its networks use {what}, which no exported file has. Export "
        "to .stablehlo, which JAX reads, or write the network with other operations."
    )
