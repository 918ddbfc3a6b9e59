"""Kinds of ensembles side by side, and CQL and F-BRC: the paper's table of running times (Table 2).

The paper gives training iterations a second relative to no ensemble with the regulariser, on a P100.
"""

from statistics import median
from typing import TYPE_CHECKING, Any

from chary.bench import timing
from chary.bench.timing import Case
from chary.host.terminal import progress_bar

if TYPE_CHECKING:
    from chary.types import Algorithm

ALPHA = 0.1
BASELINES = ("cql", "fbrc")
"""What the table has beside kinds of ensembles: two critics each, as the MSG paper ran them."""
WHOLE = "batch-whole"
"""Batch ensembles whose members learn from all rows of a batch, beside the authors', who divide it."""
PAPER = {
    ("none", 1): 1.0, ("cql", 2): 0.27, ("fbrc", 2): 0.22,
    ("deep", 4): 0.64, ("multihead", 4): 0.92, ("mimo", 4): 0.90, ("batch", 4): 0.72,
    ("deep", 64): 0.11, ("multihead", 64): 0.88, ("mimo", 64): 0.61, ("batch", 64): 0.29,
}  # fmt: skip


def time_ensembles(
    kinds: list[str],
    members: tuple[int, ...],
    hidden: tuple[int, ...],
    *,
    repeats: int,
    seconds: float,
) -> list[dict[str, Any]]:
    """A row for no ensemble, one for each of the baselines among the kinds, and one for every other kind
    and number of members.

    Every round measures each of them once, so that a machine that changes speed is fair to all, and
    ratios are taken within a round. Each measurement has a process, and so a peak of memory, of its own.
    """
    alone = Case(1, hidden, ALPHA, "none")
    baselines = [Case(2, hidden, ALPHA, kind) for kind in kinds if kind in BASELINES]
    kinds = [kind for kind in kinds if kind not in ("none", *BASELINES)]
    others = [Case(n, hidden, ALPHA, kind) for n in members for kind in kinds]
    cases = [alone, *baselines, *others]
    measured: dict[Case, list[dict[str, Any]]] = {case: [] for case in cases}
    for case in (alone, *others):
        timing.alone(timing.window_of, case)
    with progress_bar("timing ensembles", total=repeats * len(cases)) as advance:
        for _ in range(repeats):
            for case in cases:
                measured[case].append(timing.alone(time_once, case, seconds))
                advance(1)
    speeds = {case: [m["updates_per_s"] for m in rounds] for case, rounds in measured.items()}
    return [
        {
            "ensemble": case.ensemble,
            "members": case.members,
            "hidden": list(hidden),
            "alpha": None if case in baselines else case.alpha,
            "parameters": rounds[0]["parameters"],
            "updates_per_s": median(speeds[case]),
            "updates_per_s_rounds": speeds[case],
            "relative": median(ratios := ratios_of(speeds[case], speeds[alone])),
            "relative_low": min(ratios),
            "relative_high": max(ratios),
            "paper": PAPER.get((case.ensemble, case.members)),
            "peak_mb": max(m["peak_mb"] for m in rounds),
        }
        for case, rounds in measured.items()
    ]


def ratios_of(speeds: list[float], reference: list[float]) -> list[float]:
    """Speed as a share of the reference's in the same round."""
    return [mine / other for mine, other in zip(speeds, reference, strict=True)]


def time_once(case: Case, seconds: float) -> dict[str, Any]:
    """Compile, then make updates for about so long."""
    from chary.algos.size import critic_size

    baseline = case.ensemble in BASELINES
    algorithm = baseline_of(case) if baseline else timing.algorithm_of(case)
    advance = timing.stepper(algorithm, timing.feed_of(algorithm, timing.random_dataset()))
    advance(1)  # compiles
    steps = max(2, round(seconds / advance(1)))
    return {
        "updates_per_s": 1.0 / advance(steps),
        "parameters": critic_size(
            algorithm, timing.OBSERVATION_SIZE, timing.ACTION_SIZE
        ).parameters,
        "peak_mb": timing.peak_mb(),
    }


def baseline_of(case: Case) -> "Algorithm[Any]":
    """CQL or F-BRC as the MSG paper ran them, for random data, with the shortest warm-up."""
    from chary import algos
    from chary import config as settings
    from chary.training.run_config import RunConfig

    entry = algos.entry(case.ensemble)
    changes = {"hidden": case.hidden, "batch_size": timing.BATCH, "warmup_steps": 1}
    preset = {**entry.presets["msg-paper-antmaze"], **changes}
    config, _ = settings.apply(preset, entry.config(), RunConfig(), source=case.ensemble)
    return algos.build(case.ensemble, config, timing.OBSERVATION_SIZE, timing.ACTION_SIZE)
