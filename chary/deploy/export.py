"""Export an agent: trace it, write it, and compare the file with the agent before it appears."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chary import __version__
from chary.deploy import npz_file, onnx_file, stablehlo_file
from chary.deploy.decision import decision_of, inputs_of, settled_noise
from chary.deploy.trace import trace
from chary.errors import CharyError
from chary.evaluation.agent import Agent
from chary.evaluation.limits import FLAG_RATE, Limits
from chary.host.files import jsonable, whole
from chary.host.machine import versions
from chary.runs.folder import RunFolder
from chary.training.learned_from import set_limits
from chary.training.start import open_run

ENDINGS = (".onnx", ".npz", ".stablehlo")
CHECKED = 1_000
"""Logged states at which a file is compared with the agent."""
ACTIONS, VALUES = 1e-6, 1e-4
"""Largest differences: of actions as a share of their range, of values relative to their size."""
FLAGS = 0.002
"""Share of flags that may differ: doubt at the very threshold may be rounded to either side."""
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.995, 0.999)
Run = Callable[..., dict[str, np.ndarray]]


class Exported(NamedTuple):
    """Files that were written and compared."""

    paths: tuple[Path, ...]
    rows: int
    """At which they were compared."""
    action_error: float
    """Largest difference of actions, as a share of their range."""
    value_error: float
    """Largest difference of values, relative to their size; 0 without critics."""


def export(agent: Agent, out: Path, *, flag_rate: float = FLAG_RATE) -> Exported:
    """Write an agent with its scalers, critics and limits to a file that acts without chary.

    The ending says which: .onnx (onnxruntime), .npz (NumPy, with a reader beside it) or .stablehlo
    (JAX). Nothing is written unless the file's decisions on logged states are the agent's.
    """
    check_out(out)
    limits = agent.known_limits()
    function = decision_of(agent, limits, limits.thresholds(flag_rate))
    entries = {"decide": inputs_of(agent, judge=False)}
    if agent.algorithm.values is not None:
        entries["judge"] = inputs_of(agent, judge=True)
    metadata = describe(agent, limits, flag_rate)
    if out.suffix == ".npz":
        graphs = {entry: trace(function, inputs) for entry, inputs in entries.items()}
        with whole(out) as temporary:
            npz_file.write(temporary, graphs, metadata)
            run, _ = npz_file.read(temporary)
            errors = [compare(agent, limits, run, flag_rate, entry) for entry in entries]
            npz_file.write_reader(out)
    else:
        errors = []
        with ExitStack() as files:  # both appear, or none
            for entry, inputs in entries.items():
                temporary = files.enter_context(whole(file_of(out, entry)))
                if out.suffix == ".onnx":
                    onnx_file.write(temporary, trace(function, inputs), metadata)
                    run, _ = onnx_file.read(temporary)
                else:
                    stablehlo_file.write(temporary, function, inputs)
                    run = stablehlo_file.read(temporary)
                errors.append(compare(agent, limits, run, flag_rate, entry))
    return Exported(
        tuple(dict.fromkeys([out, *(file_of(out, entry) for entry in entries)])),
        *(max(each) for each in zip(*errors, strict=True)),
    )


def open_to_export(run: Path, which: str, data_file: Path | None = None) -> Agent:
    """A run's agent, with the limits of its data: recorded, or taken from the data once more."""
    agent = open_run(run, which=which)
    if agent.limits is None:
        set_limits(agent, data_file)
    return agent


def check_out(out: Path) -> None:
    """Refuse a file that cannot be an export."""
    if out.suffix not in ENDINGS:
        raise CharyError(f"{out}: exports end in {', '.join(ENDINGS)}, not '{out.suffix}'.")


def file_of(out: Path, entry: str) -> Path:
    """The file of an entry: an npz holds both, of the other formats judging is a file of its own."""
    own = entry == "decide" or out.suffix == ".npz"
    return out if own else out.with_name(f"{out.stem}-{entry}{out.suffix}")


def files_of(out: Path) -> list[Path]:
    """All files that an export may write."""
    beside = npz_file.reader_of(out) if out.suffix == ".npz" else file_of(out, "judge")
    return [out, beside]


def compare(
    agent: Agent, limits: Limits, run: Run, flag_rate: float, entry: str
) -> tuple[int, float, float]:
    """Rows that were compared and the largest differences; refuses what is not the agent."""
    logged = limits.logged()
    observations = logged[:: max(1, len(logged) // CHECKED)][:CHECKED]
    # States beyond the data and one that is no number are part of it.
    beyond = observations[:8] + 10.0 * limits.scale
    broken = np.full_like(observations[:1], np.nan)
    rows = np.concatenate([observations, beyond, broken]).astype(np.float32)
    low, high = agent.scaling.action_low, agent.scaling.action_high
    given = {}
    if entry == "judge":
        size = len(rows), len(low)
        given["actions"] = np.random.default_rng(0).uniform(low, high, size).astype(np.float32)
    own = agent.decide(rows, given.get("actions"), invalid="outside", flag_rate=flag_rate)
    found = run(observations=rows, **given, **settled_noise(agent, rows))
    action_error = _largest(np.abs(found["action"] - own.action) / (high - low))
    value_error = 0.0
    if agent.algorithm.values is not None:
        scale = max(_largest(np.abs(own.mean)), _largest(own.std[:-1]), 1e-9)
        for name, value in (("mean", own.mean), ("std", own.std), ("lcb", own.lcb)):
            value_error = max(value_error, _largest(np.abs(found[name][:-1] - value[:-1]) / scale))
    flags = float((found["outside_data"] != own.outside_data).mean())
    if action_error > ACTIONS or value_error > VALUES or flags > FLAGS:
        raise CharyError(
            f"the exported file is not the agent: on {len(rows)} logged states actions differ by up to "
            f"{action_error:.2g} of their range, values by {value_error:.2g}, flags in {flags:.1%}. "
            "Nothing was written."
        )
    return len(rows), action_error, value_error


def describe(agent: Agent, limits: Limits, flag_rate: float) -> dict[str, Any]:
    """What a file says of itself: units, bounds, thresholds, and where it comes from."""
    config = RunFolder.open(agent.folder).config
    thresholds = limits.thresholds(flag_rate)
    measures = {"spread": limits.spreads, "distance": limits.distances}
    record = {
        "format": 1,
        "chary": __version__,
        "algorithm": config["algorithm"],
        "settings": config["settings"],
        "step": limits.step,
        "dataset": config["dataset"],
        "columns": agent.names._asdict(),
        "scaling": agent.scaling.to_json(),
        "flag_rate": flag_rate,
        "thresholds": thresholds._asdict(),
        "limits": {
            "rows": len(limits.distances),
            "held_out": limits.held_out,
            "states": len(limits.states),
            "quantiles": {
                name: dict(
                    zip(
                        map(str, QUANTILES),
                        np.quantile(values, QUANTILES, method="higher").tolist(),
                        strict=True,
                    )
                )
                for name, values in measures.items()
                if len(values)
            },
        },
        "versions": versions(),
    }
    return jsonable(record)


def _largest(differences: np.ndarray) -> float:
    """But for what is no number on both sides."""
    return float(np.nanmax(differences, initial=0.0))
