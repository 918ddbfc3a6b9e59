"""What agree.py has measured, as a table, numbers and a figure."""

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from chary.errors import CharyError
from chary.host.files import write_whole
from chary.host.machine import command_line, cores, cpu_name, versions
from chary.report.tables import write_page

PINNED = Path(__file__).with_name("d3rlpy.txt")
MEASURES = {"success": "success", "score": "normalised score"}
"""The first of these that a dataset's task has is what it is judged by."""
COLUMNS = {
    "dataset": "dataset", "algorithm": "algorithm", "steps": "steps", "ours": "ours, by seed",
    "d3rlpy": "d3rlpy, by seed", "ours_mean": "ours", "d3rlpy_mean": "d3rlpy",
    "verdict": "ours is", "ours_updates_per_s": "ours, updates/s",
    "d3rlpy_updates_per_s": "d3rlpy, updates/s", "ratio": "ratio",
}  # fmt: skip


def read(
    work: Path, names: list[tuple[str, str]], seeds: list[int], *, timed: str
) -> list[dict[str, Any]]:
    """A row for each dataset and algorithm of which every seed is done on both sides; speeds stand with
    the dataset whose networks were timed."""
    rows: list[dict[str, Any]] = []
    speeds = read_speeds(work)
    for dataset, algorithm in names:
        files = {
            library: [work / f"{library}-{algorithm}-{dataset}-seed{s}.json" for s in seeds]
            for library in ("ours", "d3rlpy")
        }
        if not all(file.exists() for each in files.values() for file in each):
            continue
        found = {name: [json.loads(f.read_text()) for f in each] for name, each in files.items()}
        measure = next(m for m in MEASURES if found["ours"][0][m] is not None)
        scores = {name: [result[measure] for result in each] for name, each in found.items()}
        rows.append(
            {
                "dataset": dataset,
                "algorithm": algorithm,
                "measure": measure,
                "steps": found["ours"][0]["steps"],
                "seeds": seeds,
                **scores,
                "verdict": verdict(scores["ours"], scores["d3rlpy"]),
                **(speeds.get(algorithm, {}) if dataset == timed else {}),
            }
        )
    return rows


def read_speeds(work: Path) -> dict[str, Any]:
    """What was timed so far, by algorithm."""
    file = work / "speed.json"
    return json.loads(file.read_text()) if file.exists() else {}


def verdict(ours: list[float], theirs: list[float]) -> str:
    """Whether the means differ by more than the seeds of one library do."""
    spread = max(stdev(ours), stdev(theirs)) if len(ours) > 1 else 0.0
    difference = fmean(ours) - fmean(theirs)
    if abs(difference) <= spread:
        return "within the spread"
    return "better" if difference > 0 else "worse"


def write(rows: list[dict[str, Any]], out: Path, notes: list[str]) -> None:
    """agree.md, agree.json and agree.png."""
    if not rows:
        raise CharyError(
            "nothing is trained in every seed by both libraries yet, so there is no page to write. Run "
            "`python benchmarks/agree.py train` first, with the same --work, --datasets, --algorithms "
            "and --seeds."
        )
    theirs = dict(line.split("==") for line in PINNED.read_text().split())
    machine = f"Machine: {cpu_name()}, {cores()} cores; jax {versions()['jax']}"
    write_page(
        out / "agree.md",
        "Our baselines and d3rlpy's",
        [{**row, **_texts(row)} for row in rows],
        COLUMNS,
        notes=[*notes, f"{machine}, d3rlpy {theirs['d3rlpy']}."],
        after="![scores of every seed](agree.png)",
    )
    numbers = {"command": command_line(), "rows": rows}
    write_whole(out / "agree.json", json.dumps(numbers, indent=1) + "\n")
    _draw(rows, out / "agree.png")


def _texts(row: dict[str, Any]) -> dict[str, str]:
    digits = 2 if row["measure"] == "success" else 1
    texts: dict[str, str] = {}
    for name in ("ours", "d3rlpy"):
        scores = row[name]
        texts[name] = ", ".join(f"{score:.{digits}f}" for score in scores)
        spread = f" ± {stdev(scores):.{digits}f}" if len(scores) > 1 else ""
        texts[f"{name}_mean"] = f"{fmean(scores):.{digits}f}{spread}"
    return texts


def _draw(rows: list[dict[str, Any]], file: Path) -> None:
    """Every seed a point, the mean a bar."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    figure, axes = plt.subplots(
        1, len(datasets), figsize=(4.6 * len(datasets), 3.4), layout="constrained", squeeze=False
    )
    for axis, dataset in zip(axes[0], datasets, strict=True):
        mine = [row for row in rows if row["dataset"] == dataset]
        for name, shift, colour in (("ours", -0.18, "tab:blue"), ("d3rlpy", 0.18, "tab:orange")):
            places = [place + shift for place in range(len(mine))]
            axis.bar(places, [fmean(row[name]) for row in mine], 0.32, color=colour, alpha=0.35)
            for place, row in zip(places, mine, strict=True):
                axis.plot([place] * len(row[name]), row[name], "o", color=colour, markersize=4)
            axis.plot([], [], "o", color=colour, label=name)
        axis.set_xticks(range(len(mine)), [f"{r['algorithm']}\n{r['steps']:,}" for r in mine])
        axis.set_title(dataset, fontsize=10)
        axis.set_ylabel(MEASURES[mine[0]["measure"]])
        axis.grid(axis="y", linewidth=0.4, alpha=0.6)
    axes[0, 0].legend(frameon=False)
    figure.savefig(file, dpi=130)
    plt.close(figure)
