"""An agent as JAX's own portable program, for those who have JAX but not chary.

exported = jax.export.deserialize(bytearray(open("agent.stablehlo", "rb").read()))
decision = exported.call({"observations": observations})
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import export

from chary.deploy.graph import Shape
from chary.deploy.trace import specs_of


def write(path: Path, function: Callable[..., dict[str, Any]], inputs: Mapping[str, Shape]) -> None:
    """Write the program; it takes a dictionary of all inputs."""
    _, specs = specs_of(inputs)
    program = export.export(jax.jit(lambda given: function(**given)))(specs)
    path.write_bytes(program.serialize())


def read(path: Path) -> Callable[..., dict[str, np.ndarray]]:
    """A function of the inputs by name."""
    program: Any = export.deserialize(bytearray(path.read_bytes()))

    def run(**inputs: np.ndarray) -> dict[str, np.ndarray]:
        return {name: np.asarray(value) for name, value in program.call(inputs).items()}

    return run
