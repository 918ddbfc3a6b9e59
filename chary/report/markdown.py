"""The report for a paper or a README: tables in Markdown, figures as pictures beside it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chary.host.files import refuse_folder
from chary.host.terminal import duration
from chary.report.export import Table, budget_tables, critics, reproduction, selected
from chary.report.figures import (
    LABELS,
    MOST_BANDS,
    as_text,
    palette,
    save_figure,
    speed_label,
    step_label,
)
from chary.report.statistics import LEVEL
from chary.report.tables import markdown_table, write_page
from chary.runs.schema import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = {
    "algorithm": "algorithm", "setting": "setting", "dataset": "dataset", "seeds": "seeds",
    "last": "last", "sampled": "sampled", "best": "best", "steps": "steps", "speed": "updates/s",
    "time": "time a run", "verdict": "critics",
}  # fmt: skip


def write_markdown(data: Record, destination: Path) -> None:
    """Write the page, and its figures beside it as <name>-<figure>.png."""
    import matplotlib

    refuse_folder(destination)
    matplotlib.use("Agg")
    shown: list[str] = []
    for name, title, draw in (
        ("curves", "Learning curves", _curves),
        ("online", "Learning in the task", _online),
        ("statistics", "Across seeds and tasks", _statistics),
        ("budget", "Choosing a policy", _budget),
        ("health", "Disagreement and calibration", _health),
    ):
        figure = draw(data)
        if figure is not None:
            path = destination.with_name(f"{destination.stem}-{name}.png")
            save_figure(figure, path)
            words = "\n".join(_results(data)) + "\n\n" if name == "online" else ""
            shown.append(f"## {title}\n\n{words}![{title}]({path.name})")
    budget = [
        *map(_section, budget_tables(data)),
        *(data["budget"] or {"left_out": []})["left_out"],
    ]
    after = [
        *shown,
        *([_section(selected(data))] if data["selections"] else []),
        *budget,
        _section(critics(data)),
        _section(reproduction(data)),
        _warnings(data),
    ]
    notes = [
        f"Last and best evaluation of each run, as means over seeds with {LEVEL:.0%} bootstrap "
        f"intervals ({', '.join(_measures(data)) or 'nothing was evaluated'}). The last column is the "
        "gravest verdict on the critics of these runs."
    ]
    columns = {**COLUMNS, "speed": speed_label(data["groups"])}
    if any(group["sampled"] for group in data["groups"]):
        notes.append(
            "Policies act by their mode; `sampled` is the last evaluation with sampled actions."
        )
    else:
        del columns["sampled"]
    if any(group["diverged"] for group in data["groups"]):
        notes.append(
            "A diverged run counts as the worst possible score in `last`, in curves and in "
            "statistics (docs/report.md)."
        )
    write_page(
        destination,
        "Report",
        [_row(group) for group in data["groups"]],
        columns,
        notes=notes,
        after="\n\n".join(part for part in after if part),
    )


def _row(group: Record) -> Record:
    return {
        **group,
        "setting": ", ".join(f"{key} {value}" for key, value in group["changes"].items()) or None,
        "seeds": " ".join(map(str, group["seeds"]))
        + (f" ({group['diverged']} diverged)" if group["diverged"] else ""),
        "sampled": group["sampled"] and _estimate(group["sampled"]),
        "last": _estimate(group["last"]),
        "best": _estimate(group["best"]),
        "steps": group["step"],
        "time": None if group["seconds"] is None else duration(group["seconds"]),
        "verdict": group["verdict"]["title"],
    }


def _estimate(found: Record) -> str | None:
    if found["mean"] is None:
        return None
    low, high = found["low"], found["high"]
    interval = "" if low is None or high is None else f" ({low:.4g} to {high:.4g})"
    return f"{found['mean']:.4g}{interval}"


def _measures(data: Record) -> list[str]:
    return sorted({LABELS[group["measure"]] for group in data["groups"] if group["measure"]})


def _section(table: Table) -> str:
    if not table.rows:
        return ""
    note = f"{table.note}\n\n" if table.note else ""
    return f"## {table.title}\n\n{note}{markdown_table(_rows(table), table.columns).rstrip()}"


def _rows(table: Table) -> list[Record]:
    return [
        {key: _cell(row.get(key), key in table.code) for key in table.columns} for row in table.rows
    ]


def _cell(value: Any, code: bool) -> Any:
    if isinstance(value, dict):
        return _estimate(value)
    return f"`{value}`" if code else None if value == "" else value


def _warnings(data: Record) -> str:
    lines = [f"- {w['run'] + ': ' if w['run'] else ''}{w['message']}" for w in data["warnings"]]
    return "## Warnings\n\n" + "\n".join(lines) if lines else ""


def _curves(data: Record) -> Any:
    """A panel for each dataset: means over seeds with their intervals."""
    panels: dict[str, list[int]] = {}
    for index, group in enumerate(data["groups"]):
        if group["measure"] in data["learning"][index]:  # not where all diverged before
            panels.setdefault(group["dataset"], []).append(index)
    if not panels:
        return None
    figure, axes = _panels(len(panels))
    colours = _colours(data)
    for axis, (dataset, members) in zip(axes, panels.items(), strict=True):
        for index in members:
            group = data["groups"][index]
            colour = colours[group["method"]]
            curve = data["learning"][index][group["measure"]]
            steps, mean, low, high = (
                np.array(curve[key], np.float64) for key in ("step", "mean", "low", "high")
            )
            label = as_text(group["method"])
            axis.plot(steps, mean, "o-", color=colour, markersize=3, label=label)
            if len(members) <= MOST_BANDS:
                axis.fill_between(steps, low, high, color=colour, alpha=0.13, linewidth=0)
        axis.set(
            title=as_text(dataset),
            xlabel=step_label(data["groups"][index] for index in members),
            ylabel=LABELS[data["groups"][members[0]]["measure"]],
        )
        axis.legend(fontsize=7, frameon=False)
    return figure


def _results(data: Record) -> list[str]:
    """A sentence for each run that learns in its task."""
    return [
        f"- `{run['name']}`: {run['online']['sentence']}" for run in data["runs"] if run["online"]
    ]


def _online(data: Record) -> Any:
    """For each dataset, the results and the critics' spread of each method's first run in its task."""
    seen: dict[tuple[str, str], Record] = {}
    for run in data["runs"]:
        if run["online"]:
            seen.setdefault((run["dataset"], data["groups"][run["group"]]["method"]), run)
    datasets = list(dict.fromkeys(dataset for dataset, _ in seen))
    if not seen:
        return None
    figure, axes = _panels(2 * len(datasets))
    colours = _colours(data)
    for left, right, dataset in zip(axes[::2], axes[1::2], datasets, strict=True):
        mine = {method: run for (where, method), run in seen.items() if where == dataset}
        for method, run in mine.items():
            found, colour = run["online"], colours[method]
            evaluated, acted = found["evaluations"], found["acted"]
            left.plot(
                evaluated["step"], evaluated["value"], "o-", color=colour, markersize=3,
                label=as_text(method),
            )  # fmt: skip
            left.plot(acted["step"], acted["value"], ":", color=colour, linewidth=1.2)
            for start, stop in found["guarded"]:
                left.axvspan(start, stop, color=colour, alpha=0.13, linewidth=0)
            if "online/std" in run["metrics"]:
                spread = np.array(run["metrics"]["online/std"], np.float64)
                right.plot(run["metrics"]["step"], spread, color=colour)
        measures = dict.fromkeys(LABELS[run["online"]["measure"]] for run in mine.values())
        title = as_text(f"{dataset}: evaluations, acted episodes (dotted), guard (shaded)")
        left.set(title=title, xlabel=step_label(mine.values()), ylabel=" or ".join(measures))
        title = as_text(f"{dataset}: std at the actions taken")
        right.set(title=title, xlabel=step_label(mine.values()), ylabel="learner's reward units")
        left.legend(fontsize=7, frameon=False)
    return figure


def _statistics(data: Record) -> Any:
    """Interquartile means, and the profiles of the best methods."""
    found = data["statistics"]
    if found is None:
        return None
    figure, (left, right) = _panels(2)
    rows = found["methods"][::-1]
    colours = _colours(data)
    for place, row in enumerate(rows):
        left.plot(row["mean"], place, "o", color=colours[row["name"]])
        if row["low"] is not None:
            left.plot(
                [row["low"], row["high"]], [place] * 2, color=colours[row["name"]], linewidth=1.2
            )
    left.set_yticks(range(len(rows)), [as_text(row["name"]) for row in rows])
    left.set(title=f"interquartile mean, {LEVEL:.0%} interval", xlabel=LABELS[found["measure"]])
    for name in found["compared"]:
        mean, low, high = np.array(found["profiles"][name], np.float64).T
        right.plot(found["thresholds"], mean, color=colours[name], label=as_text(name))
        if len(found["compared"]) <= MOST_BANDS:
            right.fill_between(
                found["thresholds"], low, high, color=colours[name], alpha=0.13, linewidth=0
            )
    right.set(
        title="share of runs above a score", xlabel=LABELS[found["measure"]], ylim=(-0.03, 1.03)
    )
    right.legend(fontsize=7, frameon=False)
    return figure


def _budget(data: Record) -> Any:
    """For each dataset, what a budget of episodes buys and what more policies buy."""
    from matplotlib.ticker import MaxNLocator

    found = data["budget"]
    pools = [pool for pool in found["pools"] if "method" in pool["views"]] if found else []
    datasets = list(dict.fromkeys(pool["dataset"] for pool in pools))
    if not pools:
        return None
    figure, axes = _panels(2 * len(datasets))
    colours = _colours(data)
    panels = [(dataset, kind) for dataset in datasets for kind in ("bandit", "maximum")]
    for axis, (dataset, kind) in zip(axes, panels, strict=True):
        mine = [pool for pool in pools if pool["dataset"] == dataset]
        budget = {"bandit": "episodes", "maximum": "policies"}[kind]
        for pool in mine:
            if curve := pool[kind]:
                keys = (budget, "mean", "low", "high")
                budgets, mean, low, high = (np.array(curve[key], np.float64) for key in keys)
                colour = colours[pool["method"]]
                axis.plot(budgets, mean, color=colour, label=as_text(pool["method"]))
                if len(mine) <= MOST_BANDS:
                    axis.fill_between(budgets, low, high, color=colour, alpha=0.13, linewidth=0)
        words = {"bandit": "chosen after so many", "maximum": "best of so many"}[kind]
        title, measure = f"{words} {budget}: {dataset}", LABELS[mine[0]["measure"]]
        axis.set(title=as_text(title), xlabel=budget, ylabel=measure)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        if axis.lines:
            axis.legend(fontsize=7, frameon=False)
    return figure


def _health(data: Record) -> Any:
    """Disagreement and calibration of each method's first run that has critics."""
    seen: dict[str, Record] = {}
    for run in data["runs"]:
        if run["health"]:
            seen.setdefault(data["groups"][run["group"]]["method"], run)
    if not seen:
        return None
    figure, (left, right) = _panels(2)
    colours = _colours(data)
    for method, run in seen.items():
        found, colour, label = run["health"], colours[method], as_text(method)
        steps = found["step"]
        left.plot(steps, found["relative"]["data"], color=colour, label=label)
        left.plot(steps, found["relative"]["random"], color=colour, linestyle=":")
        if kept := found["calibration"]:
            right.plot(kept["step"], kept["mean"], color=colour, label=label)
            right.plot(kept["step"], kept["achieved"], color=colour, linestyle=":")
    left.set_title("std, action-dependent part: logged, random (dotted)")
    right.set_title("expected at the start, achieved (dotted)")
    for axis in (left, right):
        axis.set_xlabel(step_label(seen.values()))
        axis.set_ylabel("learner's reward units", fontsize=9)
    left.legend(fontsize=7, frameon=False)
    return figure


def _colours(data: Record) -> dict[str, Any]:
    """A method's own, the same in all figures."""
    return dict(zip(data["methods"], palette(len(data["methods"])), strict=True))


def _panels(count: int) -> "tuple[Any, list[Axes]]":
    import matplotlib.pyplot as plt

    columns = min(count, 2)
    rows = -(-count // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(5.8 * columns, 3.9 * rows), layout="constrained", squeeze=False
    )
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(linewidth=0.4, alpha=0.6)
        axis.tick_params(labelsize=8)
        axis.title.set_fontsize(10)
    for axis in axes.flat[count:]:
        axis.set_visible(False)
    return figure, list(axes.flat[:count])
