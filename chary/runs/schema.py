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


LONGEST_NAME = 4096
SHOWN = 200
"""Characters of a name that pages show."""


def is_text(value: Any) -> TypeGuard[str]:
    """Whether it is a text that can be a name or a path: not endless, without NUL, and writable as the
    bytes it came from."""
    if not isinstance(value, str) or "\0" in value or len(value) > LONGEST_NAME:
        return False
    try:
        value.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def is_count(value: Any) -> TypeGuard[int]:
    """Whether it is a whole number from 0 on, which a float could hold."""
    return type(value) is int and 0 <= value <= sys.float_info.max


def is_divergence(record: Any) -> bool:
    """Whether it says when and why training diverged."""
    return (
        isinstance(record, dict) and is_count(record.get("step")) and is_text(record.get("reason"))
    )


SECTIONS = (
    "settings", "run", "execution", "dataset", "scaling", "columns", "layout", "versions", "source",
    "held_out", "online",
)  # fmt: skip
"""Of config.json; each is an object."""
WIDEST = 10**6
"""Columns of observations or actions."""


def require_config(config: Record) -> None:
    """Refuse a config.json from which no run could be opened: a section of another kind, or missing."""
    for name in SECTIONS:
        found = config.get(name, {})
        absent = name == "source" and found is None  # made by chary that is no checkout
        if not isinstance(found, dict) and not absent:
            raise ValueError(f"its {name} is not an object")
    described, run = config.get("dataset", {}), config.get("run", {})
    for name, value in (
        *((name, described.get(name)) for name in ("name", "fingerprint")),
        ("dataset", run.get("dataset")),
        *((name, run[name]) for name in ("run", "data_file", "env") if run.get(name) is not None),
    ):
        if not is_text(value):
            raise ValueError(f"its {name} is not a name")
    sizes = described.get("observation_size"), described.get("action_size")
    if not all(is_count(size) and 1 <= size <= WIDEST for size in sizes):
        raise ValueError("its sizes of observations and actions are not sizes")
    scaling, rewards = config.get("scaling", {}), config.get("scaling", {}).get("reward")
    for name, size in zip(
        ("observation_mean", "observation_std", "action_low", "action_high"),
        (sizes[0], sizes[0], sizes[1], sizes[1]),
        strict=True,
    ):
        if not are_numbers(scaling.get(name)) or len(scaling[name]) != size:
            raise ValueError(f"its {name} does not have a number for every column")
    if not isinstance(rewards, dict) or not all(map(is_number, rewards.values())):
        raise ValueError("its scaling of rewards is not of numbers")
    for names in config.get("columns", {}).values():
        if names is not None and not (isinstance(names, list) and all(map(is_text, names))):
            raise ValueError("its columns are not names")
    population_of(config)


def population_of(config: Record) -> tuple[list[str], int] | None:
    """The names of the runs that one is trained with, and its place among them; None if it is alone."""
    layout = config.get("layout", {})
    population = layout.get("population") if isinstance(layout, dict) else None
    if population is None:
        return None
    record: Record = population if isinstance(population, dict) else {}
    names, index = record.get("names"), record.get("index")
    if not isinstance(names, list) or not is_count(index) or not all(map(is_plain, names)):
        raise ValueError("its group is not one of runs")
    if index >= len(names) or len(set(names)) < len(names):
        raise ValueError("its group is not one of runs")
    return names, index


def is_plain(name: Any) -> bool:
    """Whether it is the name of something in a folder, and leads nowhere else."""
    return is_text(name) and name not in ("", ".", "..") and not {"/", "\\"} & set(name)


def is_valid(log: str, record: Record) -> bool:
    """Whether a line has what lines of its log are read for."""
    step = record.get("step")
    if not is_count(step):
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
