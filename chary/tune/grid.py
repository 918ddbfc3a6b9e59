"""Grids: `--grid beta=-4,-8 hidden=64x64,256x256x256 ensemble=deep,tree`, every combination of them."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from chary import config as settings
from chary.config import refuse_repeats, require
from chary.errors import CharyError, unknown_name
from chary.training import population
from chary.training.run_config import RunSpec

OWN = ("seed", "run", "dataset", "data_file")
"""Settings that a grid does not vary: the sweep has options of its own for them."""


def parse(words: Sequence[str], spec: RunSpec) -> dict[str, tuple[Any, ...]]:
    """The values of each setting; a word without `=` is one of the paper's search grids."""
    return population.parse(
        words, spec.algorithm, spec.config, option="--grid", read=partial(_value, spec)
    )


def combinations(
    spec: RunSpec, below: Path, varied: Mapping[str, Sequence[Any]], seeds: Sequence[int]
) -> list[RunSpec]:
    """A run for every combination in every seed, in folders below one, named by what they are.

    Every combination of the first seed comes first: an unfinished sweep still compares them.
    """
    require(len(seeds) > 0, "seeds", "empty", "at least one number")
    refuse_repeats("seeds", seeds)
    specs: list[RunSpec] = []
    for seed in seeds:
        for values in product(*varied.values()):
            changes = dict(zip(varied, values, strict=True))
            config, run, execution = settings.apply(
                changes, spec.config, spec.run, spec.execution, source="--grid"
            )
            words = [f"{name.replace('_', '-')}{_text(value)}" for name, value in changes.items()]
            folder = below / "-".join([*(words or [spec.algorithm]), f"seed{seed}"])
            run = replace(run, seed=seed, run=folder)
            specs.append(RunSpec(spec.algorithm, config, run, execution, spec.preset))
    return specs


def _value(spec: RunSpec, name: str, text: str) -> Any:
    """What a word of the grid means for a setting: as its present value is, or as it looks."""
    owners = [part for part in (spec.config, spec.run, spec.execution) if hasattr(part, name)]
    known = {f.name for part in (spec.config, spec.run, spec.execution) for f in fields(part)}
    if not owners or name in OWN:
        raise unknown_name("setting", name, known - set(OWN), "(in --grid)")
    now = getattr(owners[0], name)
    try:
        if isinstance(now, bool):
            return {"true": True, "false": False}[text.lower()]
        if isinstance(now, tuple):
            return tuple(int(part) for part in text.split("x"))
        if isinstance(now, str):
            return text
        if isinstance(now, int):
            return int(text)
        if now is None:  # of a kind that only its values tell
            return None if text.lower() == "none" else _number(text)
        return float(text)
    except (ValueError, KeyError):
        kind = {bool: "true or false", tuple: "sizes such as 256x256"}.get(type(now), "a number")
        raise CharyError(f"--grid {name}={text}: must be {kind}.") from None


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdecimal() else float(text)


def _text(value: Any) -> str:
    """A value in the name of a folder."""
    if isinstance(value, float):
        return f"{value:.9g}"
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value).replace("/", "-")
