"""An agent as an ONNX file, for onnxruntime and whatever else reads ONNX."""

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chary.errors import CharyError

if TYPE_CHECKING:  # it imports JAX, which reading does not need
    from chary.deploy.graph import Graph, Node, Shape

OPSET, IR = 18, 9
"""Of 2022: what has been released since reads it."""
SAME = {
    "neg": "Neg", "abs": "Abs", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "tanh": "Tanh",
    "sigmoid": "Sigmoid", "sin": "Sin", "cos": "Cos", "floor": "Floor", "sign": "Sign", "not": "Not",
    "atanh": "Atanh", "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow",
    "max": "Max", "min": "Min", "lt": "Less", "le": "LessOrEqual", "gt": "Greater",
    "ge": "GreaterOrEqual", "eq": "Equal", "and": "And", "or": "Or", "where": "Where",
    "matmul": "MatMul",
}  # fmt: skip
REDUCED = {"sum": "ReduceSum", "amax": "ReduceMax", "amin": "ReduceMin"}


def write(path: Path, graph: "Graph", metadata: dict[str, Any]) -> None:
    """Write the graph with its metadata as a property `chary`."""
    onnx = _import("onnx")
    model = _model(onnx, graph)
    onnx.helper.set_model_props(model, {"chary": json.dumps(metadata)})
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString())


def read(
    path: Path, *, threads: int = 1
) -> tuple[Callable[..., dict[str, np.ndarray]], dict[str, Any]]:
    """A function of the inputs by name, computed by onnxruntime, and the metadata.

    Noise is left out where the file takes none.
    """
    session = session_of(path, threads=threads)
    names = [output.name for output in session.get_outputs()]
    metadata = json.loads(session.get_modelmeta().custom_metadata_map["chary"])

    noisy = "noise" in {each.name for each in session.get_inputs()}

    def run(**inputs: np.ndarray) -> dict[str, np.ndarray]:
        given = {name: rows for name, rows in inputs.items() if noisy or name != "noise"}
        return dict(zip(names, session.run(names, given), strict=True))

    return run, metadata


def session_of(path: Path, *, threads: int = 1) -> Any:
    """An ONNX file in onnxruntime."""
    onnxruntime = _import("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    # Threads that wait for work would otherwise turn on their cores.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(
        path.read_bytes(), options, providers=["CPUExecutionProvider"]
    )


def _import(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise CharyError(
            f"ONNX files need another package ({error.name}): pip install 'chary[export]'"
        ) from error


def _model(onnx: Any, graph: "Graph") -> Any:
    make, types = onnx.helper, onnx.TensorProto
    writer = _Writer(onnx)
    for name, value in graph.constants.items():
        writer.constant(name, value)
    for node in graph.nodes:
        writer.node(node)
    inputs = [
        make.make_tensor_value_info(name, types.FLOAT, _named(shape))
        for name, shape in graph.inputs.items()
    ]
    outputs = []
    flags = {"far", "doubted", "outside_data"}
    for name, inner in graph.outputs.items():
        writer.emit("Identity", [inner], name)
        kind = types.BOOL if name in flags else types.FLOAT
        outputs.append(make.make_tensor_value_info(name, kind, _named(graph.shapes[name])))
    used = {name for node in writer.nodes for name in node.input}
    tensors = [tensor for tensor in writer.tensors if tensor.name in used]
    body = make.make_graph(writer.nodes, "agent", inputs, outputs, tensors)
    return make.make_model(
        body, ir_version=IR, opset_imports=[make.make_opsetid("", OPSET)], producer_name="chary"
    )


def _named(shape: "Shape") -> list[int | str]:
    return ["batch" if size is None else size for size in shape]


class _Writer:
    """Collects nodes and tensors of ONNX's own kind."""

    def __init__(self, onnx: Any):
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []
        self._onnx = onnx
        self._batch = ""
        self._zeros: set[str] = set()
        self._shapes: dict[tuple[int, ...], str] = {}

    def constant(self, name: str, value: np.ndarray) -> str:
        array = np.ascontiguousarray(value) if np.ndim(value) else np.asarray(value)
        if array.shape == () and array == 0:
            self._zeros.add(name)
        self.tensors.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def emit(self, op: str, inputs: list[str], output: str, **options: Any) -> str:
        self.nodes.append(self._onnx.helper.make_node(op, inputs, [output], **options))
        return output

    def node(self, node: "Node") -> None:
        """Write one of the graph's operations, as one of ONNX's or a few."""
        op, inputs, output, options = node.op, list(node.inputs), node.output, node.options
        positive = [name for name in inputs if name not in self._zeros]
        if op == "max" and len(positive) == 1:  # runtimes join this with the layer before
            self.emit("Relu", positive, output)
        elif op in SAME:
            self.emit(SAME[op], inputs, output)
        elif op in REDUCED:
            axes = self.integers(output, options["axes"])
            self.emit(REDUCED[op], [*inputs, axes], output, keepdims=0)
        else:
            getattr(self, f"_{op}")(inputs, output, **options)

    def integers(self, name: str, values: list[int], what: str = "axes") -> str:
        return self.constant(f"{name}.{what}", np.array(values, np.int64))

    def _ne(self, inputs: list[str], output: str) -> None:
        self.emit("Not", [self.emit("Equal", inputs, f"{output}.equal")], output)

    def _log1p(self, inputs: list[str], output: str) -> None:
        one = self.constant(f"{output}.one", np.array(1.0, np.float32))
        self.emit("Log", [self.emit("Add", [*inputs, one], f"{output}.sum")], output)

    def _expm1(self, inputs: list[str], output: str) -> None:
        one = self.constant(f"{output}.one", np.array(1.0, np.float32))
        self.emit("Sub", [self.emit("Exp", inputs, f"{output}.exp"), one], output)

    def _isfinite(self, inputs: list[str], output: str) -> None:
        nan = self.emit("IsNaN", inputs, f"{output}.nan")
        inf = self.emit("IsInf", inputs, f"{output}.inf")
        self.emit("Not", [self.emit("Or", [nan, inf], f"{output}.either")], output)

    def _all(
        self, inputs: list[str], output: str, *, axes: list[int], by: str = "ReduceMin"
    ) -> None:
        types = self._onnx.TensorProto
        numbers = self.emit("Cast", inputs, f"{output}.numbers", to=types.INT32)
        reduced = self.emit(
            by, [numbers, self.integers(output, axes)], f"{output}.reduced", keepdims=0
        )
        self.emit("Cast", [reduced], output, to=types.BOOL)

    def _any(self, inputs: list[str], output: str, *, axes: list[int]) -> None:
        self._all(inputs, output, axes=axes, by="ReduceMax")

    def _argmin(self, inputs: list[str], output: str, *, axis: int) -> None:
        self.emit("ArgMin", inputs, output, axis=axis, keepdims=0)

    def _argmax(self, inputs: list[str], output: str, *, axis: int) -> None:
        self.emit("ArgMax", inputs, output, axis=axis, keepdims=0)

    def _cast(self, inputs: list[str], output: str, *, to: str) -> None:
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to))
        self.emit("Cast", inputs, output, to=kind)

    def _transpose(self, inputs: list[str], output: str, *, axes: list[int]) -> None:
        self.emit("Transpose", inputs, output, perm=axes)

    def _reshape(self, inputs: list[str], output: str, *, shape: list[int]) -> None:
        self.emit("Reshape", [*inputs, self.integers(output, shape, "shape")], output)

    def _concat(self, inputs: list[str], output: str, *, axis: int) -> None:
        self.emit("Concat", inputs, output, axis=axis)

    def _slice(
        self, inputs: list[str], output: str, *, axis: int, start: int, end: int, step: int
    ) -> None:
        parts = {"starts": start, "ends": end, "axes": axis, "steps": step}
        numbers = [self.integers(output, [value], what) for what, value in parts.items()]
        self.emit("Slice", [*inputs, *numbers], output)

    def _take(self, inputs: list[str], output: str, *, axis: int, places: list[int]) -> None:
        self.emit("Gather", [*inputs, self.integers(output, places, "places")], output, axis=axis)

    def _top(self, inputs: list[str], output: str, *, count: int) -> None:
        number = self.integers(output, [count], "count")
        self.nodes.append(
            self._onnx.helper.make_node("TopK", [*inputs, number], [output, f"{output}.places"])
        )

    def _expand(self, inputs: list[str], output: str, *, shape: list[int]) -> None:
        self.emit("Expand", [*inputs, self._size(tuple(shape))], output)

    def _size(self, shape: tuple[int, ...]) -> str:
        """A shape as a tensor, with the size of this batch in place of -1."""
        if shape in self._shapes:
            return self._shapes[shape]
        name = f"shape{len(self._shapes)}"
        self._shapes[shape] = name
        if -1 not in shape:
            return self.constant(name, np.array(shape, np.int64))
        if not self._batch:
            all_sizes = self.emit("Shape", ["observations"], "batch.shape")
            first = self.constant("batch.first", np.array([0], np.int64))
            self._batch = self.emit("Gather", [all_sizes, first], "batch.size", axis=0)
        place = shape.index(-1)
        parts = [
            self.integers(name, list(shape[:place]), "before"),
            self._batch,
            self.integers(name, list(shape[place + 1 :]), "after"),
        ]
        return self.emit("Concat", parts, name, axis=0)
