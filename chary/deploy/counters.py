"""What a server counts, in Prometheus' text format."""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import inf

LIMITS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, inf)
"""Seconds, of the histogram's buckets."""
KIND = "text/plain; version=0.0.4; charset=utf-8"


class Counters:
    """Since the server started."""

    def __init__(self) -> None:
        self._answers: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._buckets = dict.fromkeys(LIMITS, 0)
        self._seconds = 0.0
        self._rows = 0

    def answered(self, status: int) -> None:
        self._answers[str(status)] += 1

    def decided(self, reasons: list[str], seconds: float) -> None:
        """Count the rows of a request by why they are outside the data; empty is inside."""
        self._rows += len(reasons)
        self._reasons.update(reason for reason in reasons if reason)
        self._seconds += seconds
        for limit in LIMITS:
            self._buckets[limit] += seconds <= limit

    def text(self, calls: int) -> str:
        """All counters, with the number of calls that decided the rows."""
        bucket = {f"{limit:g}".replace("inf", "+Inf"): n for limit, n in self._buckets.items()}
        lines = [
            *_counter("chary_responses_total", "Answers by status.", _by("status", self._answers)),
            *_counter("chary_rows_total", "Rows decided.", {"": self._rows}),
            *_counter(
                "chary_flagged_rows_total", "Rows outside the data.", _by("reason", self._reasons)
            ),
            *_counter(
                "chary_calls_total", "Calls of the policy; each decides a batch.", {"": calls}
            ),
            "# HELP chary_decide_seconds Time from a request's arrival to its decisions.",
            "# TYPE chary_decide_seconds histogram",
            *(f"chary_decide_seconds_bucket{k} {n}" for k, n in _by("le", bucket).items()),
            f"chary_decide_seconds_sum {self._seconds:.6f}",
            f"chary_decide_seconds_count {self._buckets[inf]}",
        ]
        return "\n".join(lines) + "\n"


def _by(label: str, counts: Mapping[str, int]) -> dict[str, int]:
    return {f'{{{label}="{value}"}}': count for value, count in counts.items()}


def _counter(name: str, about: str, counts: Mapping[str, int]) -> Iterable[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} counter"
    for label, count in counts.items():
        yield f"{name}{label} {count}"
