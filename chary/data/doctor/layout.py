"""Rules about columns as they stand in the file: names, types, shapes, lengths, numbers."""

import numpy as np

from chary.data.columns import COLUMNS, extra_columns
from chary.data.doctor.finding import NO_FACTS, Facts, Finding, Table, first, listed
from chary.data.names import Places

VECTORS = ("observations", "actions", "next_observations")
FLAGS = ("terminals", "timeouts")
MOST_NAMES = 30
"""Columns of a file that a finding lists."""
# Minari's (and Gymnasium's) words for the same two flags.
OTHER_NAMES = {"terminations": "terminals", "truncations": "timeouts"}


def arrange(
    columns: dict[str, np.ndarray], facts: Facts = NO_FACTS
) -> tuple[Table | None, list[Finding]]:
    """The columns as a table, as far as they can be arranged, and what was wrong with them."""
    findings: list[Finding] = []
    arrays = _named(columns, facts, findings)
    arrays = {key: _shaped(key, array, findings) for key, array in arrays.items()}
    bad = {key for key, array in arrays.items() if array is None}
    sound = {key: array for key, array in arrays.items() if array is not None}
    _check_lengths(sound, findings)
    needed = set(COLUMNS) - {"next_observations"}
    if bad or not needed <= set(sound) or any(f.rule in STOPPING for f in findings):
        return None, findings
    _note_types(columns, findings)
    for key in FLAGS:
        sound[key] = _flags(key, sound[key], findings)
    broken = {}
    for key in set(sound) - set(FLAGS):
        sound[key], broken[key] = _finite(key, sound[key], findings)
    infos = {
        key: array
        for key, array in columns.items()
        if key.startswith("infos/")
        and array.dtype.kind in "biuf"
        and array.shape[:1] == sound["rewards"].shape
        and array.ndim in (1, 2)
    }
    after = sound.pop("next_observations", None)
    bounds = _bounds(columns, sound["actions"].shape[1], findings)
    extras = extra_columns(columns, len(sound["rewards"]))
    table = Table(
        **sound,
        **bounds,
        next_observations=after,
        infos=infos,
        broken=broken,
        times=extras.get("times"),
        places=Places(extras.get("source_rows"), facts.files),
        facts=facts,
    )
    return table, findings


STOPPING = {"unequal-lengths", "minari-layout", "no-transitions"}
"""Rules after which rows of different columns no longer belong together."""


def _named(
    columns: dict[str, np.ndarray], facts: Facts, findings: list[Finding]
) -> dict[str, np.ndarray]:
    """The known columns; flags may be under Minari's names."""
    arrays = {key: np.asarray(columns[key]) for key in COLUMNS if key in columns}
    renamed = {
        other: name
        for other, name in OTHER_NAMES.items()
        if name not in columns and other in columns
    }
    if renamed:
        arrays |= {name: np.asarray(columns[other]) for other, name in renamed.items()}
        message = f"{' and '.join(renamed)} are Minari's names; loading looks for D4RL's."
        fix = f"Rename them to {' and '.join(renamed.values())}."
        findings.append(Finding("error", "minari-names", message, (), fix))
    missing = [c for c in COLUMNS if c not in arrays and c != "next_observations"]
    if missing:
        has = ", ".join(sorted(facts.there or columns)[:MOST_NAMES]) or "nothing"
        fix = f"Add {', '.join(missing)}."
        if set(missing) & set(FLAGS):
            fix += (
                " terminals is True where the task itself ended, timeouts where an episode was only"
                " cut; write a column of False if there were none."
            )
        message = f"{', '.join(missing)} missing; the file has {has}."
        findings.append(Finding("error", "missing-column", message, (), fix))
    return arrays


def _shaped(key: str, array: np.ndarray, findings: list[Finding]) -> np.ndarray | None:
    if array.dtype.kind not in "biuf":
        message = f"{key} holds {array.dtype}, not numbers."
        findings.append(Finding("error", "not-numbers", message, (), f"Store {key} as float32."))
        return None
    width = 2 if key in VECTORS else 1
    if width == 1 and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != width or 0 in array.shape[1:]:
        needed = "(transition, dimension)" if width == 2 else "(transition,)"
        message = f"{key} has shape {array.shape}, but must be {needed}."
        fix = "Observations and actions are vectors: flatten them. " + (
            "Images and discrete actions are not supported."
            if width == 2
            else "The rest is scalar."
        )
        findings.append(Finding("error", "shape", message, (), fix))
        return None
    return array


def _check_lengths(arrays: dict[str, np.ndarray], findings: list[Finding]) -> None:
    rows = {key: len(array) for key, array in arrays.items()}
    if not any(rows.values()):
        if rows:
            message, fix = "The file holds no transitions.", "Check how it was written."
            findings.append(Finding("error", "no-transitions", message, (), fix))
        return
    if len(set(rows.values())) > 1:
        counts = ", ".join(f"{key} {count:,}" for key, count in rows.items())
        extra = rows.get("observations", 0) - rows.get("rewards", 0)
        others = {count for key, count in rows.items() if key != "observations"}
        ends = sum(int(np.count_nonzero(arrays[key])) for key in FLAGS if key in arrays)
        if len(others) == 1 and extra > 0 and extra in (1, ends):
            message = (
                f"There are {extra} more observations than rewards ({counts}): Minari's layout, "
                "with the observation after the last step of each episode kept in the same column."
            )
            fix = (
                "In each episode write observations[:-1] as observations and observations[1:] as "
                "next_observations."
            )
            findings.append(Finding("error", "minari-layout", message, (), fix))
        else:
            message = f"The columns are of unequal length ({counts}); every row needs all of them."
            fix = "Find the column that lost or gained rows; cutting the ends off would misalign them."
            findings.append(Finding("error", "unequal-lengths", message, (), fix))
    here, after = (arrays[k].shape[1:] if k in arrays else None for k in VECTORS[::2])
    if after is not None and here is not None and here != after:
        message = f"observations have {here[0]} dimensions, next_observations {after[0]}."
        fix = "Write both alike, or leave next_observations out."
        findings.append(Finding("error", "unequal-lengths", message, (), fix))


def _note_types(columns: dict[str, np.ndarray], findings: list[Finding]) -> None:
    wide = [key for key in VECTORS if key in columns and columns[key].dtype == np.float64]
    if wide:
        message = f"{', '.join(wide)}: float64. Learning uses float32, as D4RL's files do."
        fix = "Nothing to do; stored as float32 the file is half as large."
        findings.append(Finding("note", "float64", message, (), fix))


def _flags(key: str, array: np.ndarray, findings: list[Finding]) -> np.ndarray:
    odd = np.flatnonzero((array != 0) & (array != 1))
    if odd.size:
        message = f"{key} must be True/False or 0/1, but row {odd[0]} is {array[odd[0]]}."
        fix = f"Write 1 where {key} holds and 0 elsewhere."
        findings.append(Finding("error", "odd-flags", message, first(odd), fix))
    return (array != 0) & (array == array)


def _finite(key: str, array: np.ndarray, findings: list[Finding]) -> tuple[np.ndarray, np.ndarray]:
    """The column as float32, with the value before in place of one that is no number."""
    with np.errstate(over="ignore"):  # too large for float32 is infinite too
        array = np.ascontiguousarray(array, np.float32)
    flat = array.reshape(len(array), -1)
    rows = np.flatnonzero(~np.isfinite(flat).all(axis=1))
    if rows.size:
        dimensions = np.flatnonzero(~np.isfinite(flat[rows]).all(axis=0))
        where = f" (dimension {listed(dimensions)})" if array.ndim == 2 else ""
        message = (
            f"{key} is NaN, infinite or beyond float32 in {rows.size:,} row(s), first in row "
            f"{rows[0]}{where}. One such number spreads to every weight."
        )
        fix = "Drop or repair these rows, and look for what wrote them."
        findings.append(Finding("error", "not-finite", message, first(rows), fix))
        array = array.copy()  # the caller's own stays as it is
        flat = array.reshape(len(array), -1)
        for dimension in dimensions:
            column = flat[:, dimension]
            sound = np.isfinite(column)
            before = np.maximum.accumulate(np.where(sound, np.arange(len(column)), 0))
            column[:] = np.where(sound[before], column[before], 0.0)
    return array, rows


def _bounds(
    columns: dict[str, np.ndarray], size: int, findings: list[Finding]
) -> dict[str, np.ndarray]:
    """The bounds in the file, or [-1, 1] where it has none; none at all if they make no sense."""
    given = {
        "action_low": np.asarray(columns.get("action_low", -1.0)),
        "action_high": np.asarray(columns.get("action_high", 1.0)),
    }
    if all(b.dtype.kind in "biuf" and b.shape in ((), (size,)) for b in given.values()):
        bounds = {
            key: np.broadcast_to(bound, (size,)).astype(np.float32) for key, bound in given.items()
        }
        low, high = bounds.values()
        if np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all():
            return bounds
    values = " and ".join(str(bound.tolist())[:60] for bound in given.values())
    message = f"action_low and action_high do not bound the actions: {values}."
    fix = f"Store one finite number for each of {size} action dimension(s), low below high."
    findings.append(Finding("error", "action-bounds", message, (), fix))
    return {"action_low": np.full(size, -np.inf), "action_high": np.full(size, np.inf)}
