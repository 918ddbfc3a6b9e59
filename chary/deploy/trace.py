"""A function of JAX as a graph.

JAX traces the function with a batch of unknown size, so whatever networks it has are covered: all
algorithms, all kinds of ensemble, users' own. What depends on no input is computed here, once.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from chary.deploy.emit import Emitter, Variable, unknown
from chary.deploy.graph import Graph, Node, Shape

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
SAME = {"stop_gradient", "copy", "optimization_barrier"}
INLINED = {
    "jit",
    "pjit",
    "custom_jvp_call",
    "custom_vjp_call",
    "closed_call",
    "remat",
    "checkpoint",
}


def trace(function: Callable[..., dict[str, Any]], inputs: Mapping[str, Shape]) -> Graph:
    """The operations of a function of float32 arrays; it takes the inputs by name."""
    batch, specs = specs_of(inputs)
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


def specs_of(inputs: Mapping[str, Shape]) -> tuple[Any, dict[str, jax.ShapeDtypeStruct]]:
    """The unknown size of the batch, and what JAX must know of the inputs to trace a function."""
    (batch,) = jax.export.symbolic_shape("batch")
    return batch, {
        name: jax.ShapeDtypeStruct([batch if size is None else size for size in shape], np.float32)
        for name, shape in inputs.items()
    }


class _Builder(Emitter):
    """Walks through JAX's own description and writes nodes down."""

    def __init__(self, batch: Any):
        super().__init__()
        self.batch = batch

    def shape(self, shape: Sequence[Any]) -> Shape:
        """A shape with None for the batch."""
        if any(not isinstance(size, int | np.integer) and size != self.batch for size in shape):
            raise unknown("arrays whose size depends on the batch, but is not its size")
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
        if any(value is None for value in values):
            raise unknown("the places of the largest values")
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
                raise unknown(equation.primitive.name)
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
            raise unknown("scan with outputs of every turn")
        if any(isinstance(value, Variable) for value in each):
            raise unknown("scan over an input")
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
                return self.power(values[0], int(params["y"]))
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
                return self.reshape(values[0], after)
            case "broadcast_in_dim":
                places = list(map(int, params["broadcast_dimensions"]))
                return self.broadcast(values[0], before[0], after, places)
            case "concatenate":
                return self.emit("concat", *values, axis=int(params["dimension"]))
            case "slice":
                return self.slice(values[0], before[0], params)
            case "gather" if not isinstance(values[1], Variable):
                return self.take(values[0], before[0], np.asarray(values[1]), after, params)
            case "dot_general":
                return self.product(values, before, after, params["dimension_numbers"])
            case "argmin" | "argmax":
                (axis,) = params["axes"]
                place = self.emit(name, values[0], axis=int(axis))
                return self.emit("cast", place, to=np.dtype(params["index_dtype"]).name)
            case "top_k":
                return self.emit("top", values[0], count=int(params["k"]))
        raise unknown(name)


def _needed(
    nodes: Sequence[Node], constants: dict[str, np.ndarray], outputs: Any
) -> tuple[tuple[Node, ...], dict[str, np.ndarray]]:
    """Only what the outputs depend on."""
    needed, kept = set(outputs), []
    for node in reversed(nodes):
        if node.output in needed:
            kept.append(node)
            needed |= set(node.inputs)
    return tuple(kept[::-1]), {name: value for name, value in constants.items() if name in needed}
