"""What lines of a run's logs must hold to be read; others are passed over."""

import sys
from typing import Any, TypeGuard

Record = dict[str, Any]


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether one can reckon with what JSON holds: no bool, and nothing that a float cannot hold."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def means_something(log: str, record: Record) -> bool:
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
