"""What a run's files must hold to be read; what does not is passed over, with a warning."""

import numpy as np

from chary.runs.lines import Record, are_numbers, is_number

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
}
"""Of the arrays that are read of a run's diagnostics; axes of one name are equally long in a file."""
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


def require_shapes(arrays: dict[str, np.ndarray]) -> None:
    """Refuse arrays that are not what a run's diagnostics hold."""
    sizes: dict[str, int] = {}
    for name, array in arrays.items():
        if array.dtype.kind not in "fiu":
            raise ValueError(f"{name} holds no numbers")
        if array.ndim != len(AXES[name]):
            raise ValueError(f"{name} has other axes")
        for axis, size in zip(AXES[name], array.shape, strict=True):
            if sizes.setdefault(axis, size) != size or (size == 0 and axis not in MAY_BE_EMPTY):
                raise ValueError(f"{name} has not as many of its {axis}")
