"""An agent as an npz file, with a reader that needs NumPy alone written beside it."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chary.deploy import reader

if TYPE_CHECKING:  # it imports JAX, which reading does not need
    from chary.deploy.graph import Graph, Node


def write(path: Path, graphs: Mapping[str, "Graph"], metadata: dict[str, Any]) -> None:
    """Write the constants as arrays, equal ones once, and everything else as JSON among them."""
    arrays: dict[str, np.ndarray] = {}
    described = {
        name: {
            "inputs": graph.inputs,
            "nodes": _with_shared(graph, arrays),
            "outputs": graph.outputs,
        }
        for name, graph in graphs.items()
    }
    arrays["agent.json"] = np.array(json.dumps({"metadata": metadata, "graphs": described}))
    with open(path, "wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def _with_shared(graph: "Graph", arrays: dict[str, np.ndarray]) -> "list[Node]":
    """The nodes with constants by names that equal ones of all graphs share."""
    names: dict[str, str] = {}
    for name, value in graph.constants.items():
        array = np.asarray(value)
        content = array.tobytes() + str((array.dtype, array.shape)).encode()
        names[name] = hashlib.sha256(content).hexdigest()[:16]
        arrays[names[name]] = array
    return [
        node._replace(inputs=tuple(names.get(name, name) for name in node.inputs))
        for node in graph.nodes
    ]


def read(path: Path) -> tuple[Callable[..., dict[str, np.ndarray]], dict[str, Any]]:
    """A function of the inputs by name, computed by the reader, and the metadata."""
    agent = reader.Agent(path)
    return agent.decide, agent.metadata


def reader_of(path: Path) -> Path:
    """Where the reader of a file is written."""
    return path.with_name(f"{path.stem}_reader.py")


def write_reader(path: Path) -> None:
    reader_of(path).write_text(Path(reader.__file__).read_text())
