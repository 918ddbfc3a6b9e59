"""Settings: what is refused, how presets fill them in, and how they are written down."""

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any

from chary.errors import CharyError, unknown_name


def require(condition: bool, option: str, value: object, allowed: str) -> None:
    """Refuse a setting that makes no sense, or is infinite, which config.json could not say."""
    finite = not isinstance(value, float) or isfinite(value)
    if not (condition and finite):
        also = "" if finite else " and finite"
        raise CharyError(f"--{option} is {value}, but must be {allowed}{also}.")


def require_finite(option: str, value: float) -> None:
    """Refuse what is no number."""
    require(True, option, value, "a number")


def require_rate(option: str, value: float) -> None:
    """Refuse a step size that would not learn."""
    require(value > 0.0, option, value, "above 0")


def require_layers(hidden: tuple[int, ...], batch_size: int) -> None:
    """Refuse networks or batches of nothing."""
    require(min(hidden, default=0) >= 1, "hidden", hidden, "sizes of at least 1")
    require(batch_size >= 1, "batch-size", batch_size, "at least 1")


def require_backup(discount: float, tau: float) -> None:
    """Refuse a discount or a target average that is none."""
    require(0.0 <= discount <= 1.0, "discount", discount, "between 0 and 1")
    require(0.0 < tau <= 1.0, "tau", tau, "above 0 and at most 1")


def refuse_repeats(option: str, values: Sequence[Any]) -> None:
    """Nothing is to be trained twice under one name."""
    repeated = [value for value in values if list(values).count(value) > 1]
    if repeated:
        raise CharyError(f"--{option} names {repeated[0]} more than once.")


def apply(settings: dict[str, Any], algorithm: Any, run: Any, *, source: str) -> tuple[Any, Any]:
    """Both configs with the given fields replaced; each field belongs to one of them."""
    settings = run.migrated(settings)
    algorithm_fields = {f.name for f in fields(algorithm)}
    run_fields = {f.name for f in fields(run)}
    for name in settings:
        if name not in algorithm_fields | run_fields:
            raise unknown_name("setting", name, algorithm_fields | run_fields, f"(in {source})")
    mine = {k: v for k, v in settings.items() if k in algorithm_fields}
    return (
        replace(algorithm, **mine),
        replace(run, **{k: v for k, v in settings.items() if k in run_fields}),
    )


def to_json(config: Any) -> dict[str, Any]:
    """A config as plain JSON values."""
    return {
        k: str(v) if isinstance(v, Path) else list(v) if isinstance(v, tuple) else v
        for k, v in asdict(config).items()
    }


def from_json(kind: Any, record: dict[str, Any]) -> Any:
    """The config that `to_json` made; an older run did what the config says of the time before."""
    known = {f.name for f in fields(kind)}
    record = {**getattr(kind, "BEFORE", {}), **record}
    if hasattr(kind, "migrated"):
        record = kind.migrated(record)
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in record.items() if k in known}
    for path in ("run", "data_file"):
        if isinstance(values.get(path), str):
            values[path] = Path(str(values[path]))
    return kind(**values)
