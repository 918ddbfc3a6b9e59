"""Act by an exported agent with NumPy alone. Copied beside every .npz file; needs nothing else.

    agent = Agent("agent.npz")
    decision = agent.decide(observations)         # action, mean, std, lcb, outside_data, ...
    judged = agent.decide(observations, actions)  # the same of somebody else's actions

Observations and actions are in the environment's units: (batch, size), or one row of that size.
"""

import json

import numpy as np

OPERATIONS = {
    "neg": np.negative, "abs": np.abs, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "sin": np.sin, "cos": np.cos, "floor": np.floor,
    "sign": np.sign, "not": np.logical_not, "isfinite": np.isfinite, "atanh": np.arctanh,
    "log1p": np.log1p, "expm1": np.expm1, "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "div": np.divide, "pow": np.power, "max": np.maximum, "min": np.minimum, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or, "where": np.where, "matmul": np.matmul,
    "transpose": lambda x, axes: np.transpose(x, axes),
    "reshape": lambda x, shape: np.reshape(x, shape),
    "concat": lambda *x, axis: np.concatenate(x, axis),
    "slice": lambda x, axis, start, end, step: x[(slice(None),) * axis + (slice(start, end, step),)],
    "take": lambda x, axis, places: np.take(x, places, axis),
    "sum": lambda x, axes: x.sum(tuple(axes)), "amax": lambda x, axes: x.max(tuple(axes)),
    "amin": lambda x, axes: x.min(tuple(axes)), "all": lambda x, axes: x.all(tuple(axes)),
    "argmin": lambda x, axis: x.argmin(axis), "argmax": lambda x, axis: x.argmax(axis),
    "any": lambda x, axes: x.any(tuple(axes)), "cast": lambda x, to: x.astype(to),
    "top": lambda x, count: -np.sort(np.partition(-x, count - 1, -1)[..., :count], -1),
}  # fmt: skip


class Agent:
    """An exported policy with its critics."""

    def __init__(self, path):
        with np.load(path, allow_pickle=False) as file:
            self._constants = {key: file[key] for key in file.files if key != "agent.json"}
            described = json.loads(str(file["agent.json"]))
        self.metadata, self._graphs = described["metadata"], described["graphs"]

    def decide(self, observations, actions=None, noise=None):
        """A dict of arrays, one row for each observation (`members` has one column for each).

        `noise`, N(0, 1), is for policies that turn noise into actions.
        """
        if actions is not None and "judge" not in self._graphs:
            raise ValueError("this agent has no critics to judge actions by")
        graph = self._graphs["decide" if actions is None else "judge"]
        given = {"observations": observations, "actions": actions, "noise": noise}
        known = {
            name: _rows(name, given[name], shape[1]) for name, shape in graph["inputs"].items()
        }
        size = len(known["observations"])
        for name, rows in known.items():
            if len(rows) != size:
                raise ValueError(f"{size} observation(s) but {len(rows)} row(s) of {name}")
        known.update(self._constants)
        with np.errstate(all="ignore"):
            for op, inputs, output, options in graph["nodes"]:
                values = [known[name] for name in inputs]
                if op == "expand":
                    shape = [size if length == -1 else length for length in options["shape"]]
                    known[output] = np.broadcast_to(values[0], shape)
                else:
                    known[output] = OPERATIONS[op](*values, **options)
        return {name: known[inner] for name, inner in graph["outputs"].items()}


def _rows(name, values, size):
    if values is None:
        raise ValueError(f"this agent needs {name} of {size} columns")
    rows = np.atleast_2d(np.asarray(values, np.float32))
    if rows.ndim != 2 or rows.shape[1] != size:
        raise ValueError(f"{name} must have {size} columns, not shape {np.shape(values)}")
    return rows
