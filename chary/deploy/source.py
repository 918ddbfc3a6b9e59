"""What a server decides by: a run folder or an exported file, as one function of rows.

Exported files are read without JAX.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chary.errors import CharyError
from chary.evaluation.limits import FLAG_RATE, check_rate, reasons_of
from chary.host.machine import cores

FIELDS = ("action", "mean", "std", "lcb", "outside_data", "reason", "distance")
SIZES = (16, 32, 64, 128, 256)
"""Rows of a run's compiled programs; fewer are padded. What is more than the last is cut into pieces, of
files too: the distances to all logged states are a large array."""
Rows = np.ndarray
Decide = Callable[[Rows, Rows | None], dict[str, np.ndarray]]


class Source(NamedTuple):
    """A policy that is ready to decide."""

    function: Decide
    """Of a few rows: observations and, to be judged, actions, in the environment's units."""
    judges: bool
    """Whether actions may be given."""
    metadata: dict[str, Any]
    """As in exported files."""

    def size(self, what: str) -> int:
        """Columns of `observations` or `actions`."""
        column = {"observations": "observation_mean", "actions": "action_low"}[what]
        return len(self.metadata["scaling"][column])

    def decide(self, observations: Rows, actions: Rows | None = None) -> dict[str, np.ndarray]:
        """`FIELDS` for any number of rows. Invalid rows are flagged, never refused."""
        places = range(0, len(observations), SIZES[-1])
        pieces = [slice(place, place + SIZES[-1]) for place in places]
        found = [
            self.function(observations[piece], None if actions is None else actions[piece])
            for piece in pieces
        ]
        return {name: np.concatenate([each[name] for each in found]) for name in FIELDS}

    def warm_up(self) -> None:
        """Compile what will be needed, so that no request waits for it."""
        for size in SIZES:
            observations = np.zeros((size, self.size("observations")), np.float32)
            self.function(observations, None)
            if self.judges:
                self.function(observations, np.zeros((size, self.size("actions")), np.float32))


def open_source(path: Path, flag_rate: float | None = None) -> Source:
    """A run folder, or a file of `chary export` that ends in .onnx or .npz."""
    if path.is_dir():
        return _of_run(path, FLAG_RATE if flag_rate is None else flag_rate)
    if path.suffix not in (".onnx", ".npz"):
        raise CharyError(
            f"{path}: neither a run folder nor an exported agent.onnx or agent.npz. `chary export` "
            "writes these."
        )
    if flag_rate is not None:
        raise CharyError(
            f"{path}: its flag rate was chosen when it was exported. Leave --flag-rate out, serve the "
            "run folder, or export it again with another --flag-rate."
        )
    return _of_file(path)


def _of_run(path: Path, flag_rate: float) -> Source:
    check_rate(flag_rate)
    from chary.deploy.export import describe, open_to_export

    agent = open_to_export(path, "last")

    def decide(observations: Rows, actions: Rows | None) -> dict[str, np.ndarray]:
        count = len(observations)
        size = next(size for size in SIZES if size >= count)

        def padded(rows: Rows) -> Rows:
            return np.concatenate([rows, rows[:1].repeat(size - count, axis=0)])

        judged = None if actions is None else padded(actions)
        with np.errstate(over="ignore"):  # numbers that are too large are flagged
            decided = agent.decide(
                padded(observations), judged, flag_rate=flag_rate, invalid="outside"
            )
        return {name: value[:count] for name, value in decided._asdict().items()}

    metadata = describe(agent, agent.known_limits(), flag_rate)
    return Source(decide, agent.algorithm.values is not None, metadata)


def _of_file(path: Path) -> Source:
    run, metadata = _read(path)
    beside = path.with_name(f"{path.stem}-judge{path.suffix}")
    judge = run
    if path.suffix == ".onnx" and beside.exists():
        judge, described = _read(beside)
        if described != metadata:
            raise CharyError(f"{beside}: not of the same export as {path.name}. Export both again.")
    source = Source(lambda *_: {}, False, metadata)  # for its sizes
    sizes = source.size("observations"), source.size("actions")
    random = np.random.default_rng()

    def call(observations: Rows, actions: Rows | None) -> dict[str, np.ndarray]:
        """With noise, for policies that turn noise into actions."""
        noise = random.standard_normal((len(observations), sizes[1]), np.float32)
        if actions is None:
            return run(observations=observations, noise=noise)
        return judge(observations=observations, actions=actions, noise=noise)

    critics = "mean" in call(np.zeros((1, sizes[0]), np.float32), None)

    def decide(observations: Rows, actions: Rows | None) -> dict[str, np.ndarray]:
        found: dict[str, Any] = call(observations, actions)
        if critics:
            sound = np.isfinite(found["std"])
        else:
            sound = np.asarray(np.isfinite(observations).all(axis=1))
            unknown = np.full(len(sound), np.nan, np.float32)
            found |= {"mean": unknown, "std": unknown, "lcb": unknown, "doubted": ~sound}
        reason = reasons_of(sound, found["doubted"], found["far"])
        return {name: (found | {"reason": reason})[name] for name in FIELDS}

    judges = critics and (path.suffix == ".npz" or beside.exists())
    return Source(decide, judges, metadata)


def _read(path: Path) -> tuple[Callable[..., dict[str, np.ndarray]], dict[str, Any]]:
    from chary.deploy import npz_file, onnx_file

    # One core stays with the connections.
    threads = max(1, min(4, cores() - 1))
    read = npz_file.read if path.suffix == ".npz" else partial(onnx_file.read, threads=threads)
    try:
        return read(path)
    except (CharyError, OSError):
        raise
    except Exception as error:  # zip files, JSON, ONNX: each has errors of its own
        raise CharyError(f"{path}: not a file of `chary export` ({error}).") from error
