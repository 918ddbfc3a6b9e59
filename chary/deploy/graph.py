"""A function of JAX as a short list of simple operations, which any format can hold.

JAX traces the function with a batch of unknown size, so whatever networks it has are covered: all
algorithms, all kinds of ensemble, users' own. What depends on no input is computed here, once.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from chary.errors import CharyError

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


def trace(function: Callable[..., dict[str, Any]], inputs: Mapping[str, Shape]) -> Graph:
    """The operations of a function of float32 arrays; it takes the inputs by name."""
    (batch,) = jax.export.symbolic_shape("batch")
    specs = {
        name: jax.ShapeDtypeStruct([batch if size is None else size for size in shape], np.float32)
        for name, shape in inputs.items()
    }
    traced = jax.jit(lambda given: function(**given)).trace(specs)
    closed: Any = traced.jaxpr
    builder = _Builder(batch)
    # Dictionaries are flattened in the order of their sorted keys.
    given = [builder.variable(name) for name in sorted(specs)]
    consts = [np.asarray(value) for value in closed.consts]
    outputs = builder.inline(closed.jaxpr, [*consts], given)
    shapes = traced.out_info
    names = sorted(shapes)
    found = {name: builder.named(value) for name, value in zip(names, outputs, strict=True)}
    nodes, constants = _needed(builder.nodes, builder.constants, found.values())
    return Graph(
        dict(inputs),
        constants,
        nodes,
        found,
        {name: builder.shape(shapes[name].shape) for name in names},
    )


class Variable(NamedTuple):
    """A value that depends on the inputs."""

    name: str


UNARY = {
    "neg": "neg", "abs": "abs", "exp": "exp", "log": "log", "sqrt": "sqrt", "tanh": "tanh",
    "logistic": "sigmoid", "sin": "sin", "cos": "cos", "floor": "floor", "sign": "sign", "not": "not",
    "is_finite": "isfinite", "atanh": "atanh", "log1p": "log1p", "expm1": "expm1",
}  # fmt: skip
BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "div", "max": "max", "min": "min", "pow": "pow",
    "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "eq": "eq", "ne": "ne", "and": "and", "or": "or",
    "add_any": "add",
}  # fmt: skip
REDUCE = {
    "reduce_sum": "sum", "reduce_max": "amax", "reduce_min": "amin", "reduce_and": "all",
    "reduce_or": "any",
}  # fmt: skip
SAME = {"stop_gradient", "copy", "copy_p", "optimization_barrier", "reduce_precision"}
INLINED = {
    "jit",
    "pjit",
    "custom_jvp_call",
    "custom_vjp_call",
    "closed_call",
    "remat",
    "checkpoint",
}


class _Builder:
    """Walks through JAX's own description and writes nodes down."""

    def __init__(self, batch: Any):
        self.batch = batch
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
        if value is None:
            raise _unknown("the places of the largest values")
        name = f"c{self._count}"
        self._count += 1
        self.constants[name] = np.asarray(value)
        return name

    def emit(self, op: str, *inputs: Any, **options: Any) -> Variable:
        output = self.variable()
        names = tuple(self.named(value) for value in inputs)
        self.nodes.append(Node(op, names, output.name, options))
        return output

    def shape(self, shape: Sequence[Any]) -> Shape:
        """A shape with None for the batch."""
        return tuple(None if size == self.batch else int(size) for size in shape)

    def inline(self, jaxpr: Any, consts: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        """Write down what a part of the program does, and return its results."""
        known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *inputs], strict=True))

        def read(atom: Any) -> Any:
            literal = hasattr(atom, "val")
            return np.asarray(atom.val, atom.aval.dtype) if literal else known[atom]

        for equation in jaxpr.eqns:
            values = [read(atom) for atom in equation.invars]
            known |= zip(equation.outvars, self._equation(equation, values), strict=True)
        return [read(atom) for atom in jaxpr.outvars]

    def _equation(self, equation: Any, values: list[Any]) -> list[Any]:
        name, params = equation.primitive.name, equation.params
        if name in INLINED:
            inner = params.get("jaxpr") or params.get("call_jaxpr") or params.get("fun_jaxpr")
            closed = hasattr(inner, "jaxpr")
            return self.inline(
                inner.jaxpr if closed else inner, inner.consts if closed else (), values
            )
        if not any(isinstance(value, Variable) for value in values):
            return self._computed(equation, values)
        if name in SAME:
            return values
        if name == "scan":
            return self._scan(params, values)
        # Of top_k only the values are there, not their places.
        others = [None] * (len(equation.outvars) - 1)
        return [self._operation(name, params, values, equation), *others]

    def _computed(self, equation: Any, values: list[Any]) -> list[Any]:
        """What no input has a part in; with a batch in its shape it is for the graph to make."""
        shapes = [self.shape(v.aval.shape) for v in equation.outvars]
        if any(None in shape for shape in shapes):
            if equation.primitive.name != "broadcast_in_dim":
                raise _unknown(equation.primitive.name)
            return [self._operation("broadcast_in_dim", equation.params, values, equation)]
        found = equation.primitive.bind(*values, **equation.params)
        return list(found) if equation.primitive.multiple_results else [found]

    def _scan(self, params: Any, values: list[Any]) -> list[Any]:
        """A loop of known length, one turn after another."""
        fixed, carried = params["num_consts"], params["num_carry"]
        consts, carry, each = (
            values[:fixed], values[fixed : fixed + carried], values[fixed + carried :],
        )  # fmt: skip
        if params["reverse"] or len(params["jaxpr"].out_avals) > carried:
            raise _unknown("scan with outputs of every turn")
        if any(isinstance(value, Variable) for value in each):
            raise _unknown("scan over an input")
        for turn in range(params["length"]):
            now = [np.asarray(value)[turn] for value in each]
            inner = params["jaxpr"]
            carry = self.inline(inner.jaxpr, inner.consts, [*consts, *carry, *now])
        return carry

    def _operation(self, name: str, params: Any, values: list[Any], equation: Any) -> Any:
        before = [self.shape(atom.aval.shape) for atom in equation.invars]
        after = self.shape(equation.outvars[0].aval.shape)
        if name in UNARY:
            return self.emit(UNARY[name], *values)
        if name in BINARY:
            return self.emit(BINARY[name], *values)
        if name in REDUCE:
            return self.emit(REDUCE[name], values[0], axes=list(map(int, params["axes"])))
        match name:
            case "square":
                return self.emit("mul", values[0], values[0])
            case "integer_pow":
                return self._power(values[0], int(params["y"]))
            case "rsqrt":
                return self.emit("div", np.float32(1.0), self.emit("sqrt", values[0]))
            case "clamp":
                return self.emit("min", self.emit("max", values[1], values[0]), values[2])
            case "select_n" if len(values) == 3:
                return self.emit("where", values[0], values[2], values[1])
            case "convert_element_type":
                return self.emit("cast", values[0], to=np.dtype(params["new_dtype"]).name)
            case "transpose":
                return self.emit("transpose", values[0], axes=list(map(int, params["permutation"])))
            case "reshape" | "squeeze" | "expand_dims":
                return self._reshape(values[0], after)
            case "broadcast_in_dim":
                places = list(map(int, params["broadcast_dimensions"]))
                return self._broadcast(values[0], before[0], after, places)
            case "concatenate":
                return self.emit("concat", *values, axis=int(params["dimension"]))
            case "slice":
                return self._slice(values[0], before[0], params)
            case "dot_general":
                return self._product(values, before, after, params["dimension_numbers"])
            case "argmin" | "argmax":
                (axis,) = params["axes"]
                place = self.emit(name, values[0], axis=int(axis))
                return self.emit("cast", place, to=np.dtype(params["index_dtype"]).name)
            case "top_k":
                return self.emit("top", values[0], count=int(params["k"]))
        raise _unknown(name)

    def _power(self, value: Any, exponent: int) -> Any:
        if exponent < 1:
            raise _unknown("a power below 1")
        result = value
        for _ in range(exponent - 1):
            result = self.emit("mul", result, value)
        return result

    def _reshape(self, value: Any, shape: Shape) -> Any:
        return self.emit("reshape", value, shape=[-1 if size is None else size for size in shape])

    def _broadcast(self, value: Any, before: Shape, after: Shape, places: list[int]) -> Any:
        """To the right number of axes, then to their sizes."""
        spread = tuple(
            before[places.index(axis)] if axis in places else 1 for axis in range(len(after))
        )
        if spread != before:
            value = self._reshape(value, spread)
        return (
            value if spread == after else self.emit("expand", value, shape=[s or -1 for s in after])
        )

    def _slice(self, value: Any, before: Shape, params: Any) -> Any:
        starts, ends = params["start_indices"], params["limit_indices"]
        strides = params["strides"] or (1,) * len(starts)
        for axis, size in enumerate(before):
            whole = size is None and self.shape([ends[axis]]) == (None,) and int(starts[axis]) == 0
            if size is None and not whole:
                raise _unknown("a part of the batch")
            if whole:
                continue
            part = int(starts[axis]), int(ends[axis]), int(strides[axis])
            if part != (0, size, 1):
                value = self.emit(
                    "slice", value, axis=axis, start=part[0], end=part[1], step=part[2]
                )
        return value

    def _product(self, values: list[Any], before: list[Shape], after: Shape, numbers: Any) -> Any:
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
        return product if simple else self._reshape(product, after)

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

        return self._reshape(value, (*(shape[a] for a in batch), size(rows), size(columns)))


def _needed(
    nodes: Sequence[Node], constants: dict[str, np.ndarray], outputs: Any
) -> tuple[tuple[Node, ...], dict[str, np.ndarray]]:
    """Only what the outputs depend on, with what no input has a part in already computed."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if node.output in wanted:
            kept.append(node)
            wanted |= set(node.inputs)
    return tuple(kept[::-1]), {name: value for name, value in constants.items() if name in wanted}


def _unknown(what: str) -> CharyError:
    return CharyError(
        f"this agent cannot be exported: its networks use {what}, which no exported file has. Export "
        "to .stablehlo, which JAX reads, or write the network with other operations."
    )
