"""What the files of a run must hold to be read: lines of logs, the summary of the data, diagnostics.

Readers skip what does not fit, with a warning. No JAX or NumPy is imported here, because every command
that lists runs needs it.
"""

import sys
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    import numpy as np

Record = dict[str, Any]


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether one can reckon with what JSON holds: no bool, and nothing that a float cannot hold."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def is_valid(log: str, record: Record) -> bool:
    """Whether a line has what lines of its log are read for."""
    step = record.get("step")
    if type(step) is not int or not 0 <= step <= sys.float_info.max:
        return False
    if log == "timing":
        speed = record.get("steps_per_s")
        return step > 0 and is_number(speed) and speed > 0 and _if_any(record, "time")
    if log == "evals":
        sampled = record.get("sampled")
        sound = sampled is None or (isinstance(sampled, dict) and _is_measured(sampled))
        return sound and _is_measured(record) and isinstance(record.get("act", ""), str)
    if log == "episodes":
        return is_number(record.get("return")) and is_number(record.get("length"))
    return True


def _is_measured(record: Record) -> bool:
    """Whether these are the numbers of an evaluation."""
    measured = is_number(record.get("return")) and are_numbers(record.get("returns"))
    return measured and _if_any(record, "score", "success", "length")


def way_of(evaluation: Record) -> str:
    """How the policy acted for a line's main numbers; older lines do not say, and are by the mode."""
    return evaluation.get("act", "mode")


def _if_any(record: Record, *names: str) -> bool:
    """Whether these are numbers where they are known."""
    return all(value is None or is_number(value) for value in map(record.get, names))


def are_numbers(value: Any) -> bool:
    """Whether it is a list of such."""
    return isinstance(value, list) and all(map(is_number, value))


AXES = {
    **dict.fromkeys(
        (f"values_{kind}" for kind in ("data", "policy", "perturbed", "random", "off")),
        ("member", "state"),
    ),
    **dict.fromkeys(("probe_actions", "policy_actions"), ("state", "action")),
    **dict.fromkeys(("column_values", "column_std", "column_counts"), ("column", "point")),
    "start_values": ("member", "episode"),
    "discounted_returns": ("episode",),
    "beta": (),
    **dict.fromkeys(("map_mean", "map_std", "map_lcb"), ("y", "x")),
    "map_x": ("x",),
    "map_y": ("y",),
    "paths": ("place", "coordinate"),
    "path_lengths": ("path",),
    "observations": ("row", "observation"),
    **dict.fromkeys(("rewards", "terminals", "timeouts"), ("row",)),
}
"""Of the arrays that are read of diagnostics and rows; axes of one name are equally long in a file."""
MAY_BE_EMPTY = {"place", "coordinate", "path"}


def require_summary(data: Record) -> None:
    """Refuse what is not as `chary.data.summary` writes it, as far as reports read it."""
    rows = [data[key][part] for key in ("returns", "lengths") for part in ("edges", "counts")]
    rows += [data["rewards"][kind] or [] for kind in ("going_on", "ending")]
    if data["coverage"]:
        rows += [data["coverage"]["extent"], *data["coverage"]["counts"]]
    found = [isinstance(finding, dict) for finding in data["findings"]]
    if not (is_number(data["episodes"]) and all(map(are_numbers, rows)) and all(found)):
        raise ValueError("no summary of data")


def require_shapes(arrays: "dict[str, np.ndarray]") -> None:
    """Refuse arrays that are not what a run's diagnostics, or its rows, hold."""
    sizes: dict[str, int] = {}
    for name, array in arrays.items():
        if array.dtype.kind not in "fiu":
            raise ValueError(f"{name} holds no numbers")
        if array.ndim != len(AXES[name]):
            raise ValueError(f"{name} has other axes")
        for axis, size in zip(AXES[name], array.shape, strict=True):
            if sizes.setdefault(axis, size) != size or (size == 0 and axis not in MAY_BE_EMPTY):
                raise ValueError(f"{name} has not as many of its {axis}")
