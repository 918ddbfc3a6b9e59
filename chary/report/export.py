"""Every table of the report, in plain values, and as files: LaTeX for papers, CSV for programs."""

import csv
import io
import re
from pathlib import Path
from typing import Any, Literal, NamedTuple

from chary.host.files import refuse_folder, write_result
from chary.report.figures import LABELS, speed_label, step_label
from chary.runs.schema import Record

EPISODES = (0, 10, 25, 50, 100)
POLICIES = (1, 2, 4, 8, 16, 32, 64)
"""Budgets that tables show; JSON has all."""
LONG = 50
"""Characters from which LaTeX breaks a column's lines."""


class Table(NamedTuple):
    """Rows of text, numbers and estimates (mean, low, high), all as they are in the page's JSON."""

    name: str
    title: str
    columns: dict[str, str]
    """Keys and headings, with units."""
    rows: list[Record]
    code: tuple[str, ...] = ()
    """Keys of columns that are to be read letter by letter."""
    note: str = ""
    """What the numbers are, where headings cannot say it."""


def report_tables(data: Record) -> list[Table]:
    """All that have rows, from the page's data."""
    tables = [_summary(data), _online(data), *_statistics(data), selected(data)]
    tables += budget_tables(data)
    tables.append(critics(data))
    return [table for table in [*tables, reproduction(data)] if table.rows]


def _summary(data: Record) -> Table:
    rows = [
        {
            **group,
            "setting": ", ".join(f"{key} {value}" for key, value in group["changes"].items()),
            "seeds": " ".join("?" if seed is None else str(seed) for seed in group["seeds"]),
            "measure": LABELS.get(group["measure"]),
            "verdict": group["verdict"]["title"],
        }
        for group in data["groups"]
    ]
    columns = {
        "algorithm": "algorithm", "setting": "setting", "dataset": "dataset", "seeds": "seeds",
        "diverged": "diverged runs", "measure": "measure", "last": "last", "sampled": "sampled",
        "best": "best", "step": step_label(data["groups"]), "speed": speed_label(data["groups"]),
        "seconds": "time a run (s)", "verdict": "critics",
    }  # fmt: skip
    if not any(group["sampled"] for group in data["groups"]):
        del columns["sampled"]
    return Table("summary", "Summary", columns, rows)


def _online(data: Record) -> Table:
    """What came of learning in the task."""
    rows = [
        {
            "run": run["name"],
            **found,
            "measure": LABELS[found["measure"]],
            "lowest": found["lowest"] and found["lowest"]["value"],
        }
        for run in data["runs"]
        if (found := run["online"])
    ]
    columns = {
        "run": "run", "measure": "measure", "before": "before", "after": "after", "regret": "regret",
        "lowest": "lowest evaluation", "episodes": "acted episodes",
        "succeeded": "succeeded (share of episodes)", "guard": "guard up (share of episodes)",
    }  # fmt: skip
    return Table("online", "Learning in the task", columns, rows)


def _statistics(data: Record) -> list[Table]:
    found = data["statistics"]
    if found is None:
        return []
    means = [{"method": row["name"], "mean": row} for row in found["methods"]]
    chances = [
        {"ours": ours, "theirs": theirs, "chance": dict(zip(("mean", "low", "high"), cell, strict=True))}
        for ours, row in zip(found["compared"], found["improvement"], strict=True)
        for theirs, cell in zip(found["compared"], row, strict=True)
        if cell
    ]  # fmt: skip
    middle = f"interquartile mean, {LABELS[found['measure']]}"
    improvement = {"ours": "method", "theirs": "beats", "chance": "probability"}
    return [
        Table("iqm", "Interquartile means", {"method": "method", "mean": middle}, means),
        Table("improvement", "Probability of improvement", improvement, chances),
    ]


def selected(data: Record) -> Table:
    """How `chary select` ranked policies without a simulator."""
    rows = [
        {
            **row,
            "value": {"mean": row["value"], "low": row["value_low"], "high": row["value_high"]}
            if row["value"] is not None
            else None,
        }
        for selection in data["selections"]
        for row in selection["rows"]
    ]
    columns = {
        "name": "run", "place": "place", "best": "P(first)", "value": "FQE value",
        "bound": "gain, lower bound", "outside": "outside data", "action_error": "action error",
        "td_error": "TD error",
    }  # fmt: skip
    verdicts = " ".join(selection["sentence"] for selection in data["selections"])
    return Table("selection", "Ranked without a simulator", columns, rows, note=verdicts)


def budget_tables(data: Record) -> list[Table]:
    """What a budget of episodes buys, and what more policies buy."""
    pools = data["budget"]["pools"] if data["budget"] else []
    named = {"method": "method", "dataset": "dataset", "measure": "measure", "policies": "policies"}
    by_episodes: list[Record] = []
    by_policies: list[Record] = []
    for pool in pools:
        together = "" if "method" in pool["views"] else ", all settings"
        row = {**pool, "method": pool["method"] + together, "measure": LABELS[pool["measure"]]}
        if curve := pool["bandit"]:
            found = {f"after {n}": _at(curve, curve["episodes"], n) for n in EPISODES}
            by_episodes.append({**row, "among": curve["policies"], **found})
        curve = pool["maximum"]
        found = {f"best {n}": _at(curve, curve["policies"], n) for n in POLICIES}
        paper = dict(zip(curve["policies"], curve["with_replacement"], strict=True))
        by_policies.append({**row, **found, **{f"paper {n}": paper.get(n) for n in POLICIES}})
    known = [n for n in POLICIES if any(row[f"best {n}"] for row in by_policies)]
    episodes = {f"after {n}": f"after {n} episodes" for n in EPISODES}
    best = {f"best {n}": f"best of {n}" for n in known}
    paper = {f"paper {n}": f"best of {n}, with replacement" for n in known if n > 1}
    return [
        Table(
            "episodes",
            "What a budget of episodes buys",
            {**named, "among": "chosen among", **episodes},
            by_episodes,
            note="How good the policy is that a UCB bandit recommends after so many episodes in all "
            "(Jackson et al. 2025).",
        ),
        Table(
            "policies",
            "What more policies buy",
            {**named, **best, **paper},
            by_policies,
            note="How good the best of so many policies is, drawn without replacement; and with it, as "
            "Kurenkov and Kolesnikov 2022 draw them.",
        ),
    ]


def _at(curve: Record, budgets: list[int], budget: int) -> Record | None:
    """A curve's estimate at a budget that it has."""
    if budget not in budgets:
        return None
    place = budgets.index(budget)
    return {key: curve[key][place] for key in ("mean", "low", "high")}


def critics(data: Record) -> Table:
    """How far the critics of each run can be believed."""
    rows = [
        {
            "run": run["name"],
            "members": run["health"] and run["health"]["members"],
            "effective": run["health"] and run["health"]["effective"][-1],
            "area": run["health"] and run["health"]["told_apart"]["random"][-1],
            "held": _held(run["health"]),
            "verdict": " ".join(f"{v['title']}." for v in run["verdicts"]),
        }
        for run in data["runs"]
    ]
    columns = {
        "run": "run", "members": "members", "effective": "count as",
        "area": "tell random actions (area under ROC)", "held": "bound held (share of episodes)",
        "verdict": "verdicts",
    }  # fmt: skip
    return Table("critics", "Can the critics be believed?", columns, rows)


def _held(found: Record | None) -> float | None:
    return found["calibration"]["held"][-1] if found and found["calibration"] else None


def reproduction(data: Record) -> Table:
    """How to repeat each run."""
    rows = [
        {
            "run": run["name"],
            # As text, whatever a config that someone changed has there.
            "command": str(run["made_by"]["command"]),
            "data": run["made_by"]["fingerprint"][:12],
            "machine": str(run["made_by"]["layout"].get("cpu") or ""),
            "chary": str(run["made_by"]["chary"]),
        }
        for run in data["runs"]
    ]
    columns = {
        "run": "run", "command": "command", "data": "data fingerprint", "machine": "machine",
        "chary": "chary",
    }  # fmt: skip
    return Table("reproduction", "Reproduction", columns, rows, ("command", "data"))


def write_tables(data: Record, destination: Path, kind: Literal["tex", "csv"]) -> list[Path]:
    """Write each table to its own file, <name>-<table>.<kind>, and return their paths."""
    refuse_folder(destination)
    stem = destination.name.removesuffix(f".{kind}")
    texts = {
        destination.with_name(f"{stem}-{table.name}.{kind}"): as_csv(table)
        if kind == "csv"
        else as_tex(table)
        for table in report_tables(data)
    }
    for path, text in texts.items():
        write_result(path, text)
    return list(texts)


def as_csv(table: Table) -> str:
    """Plain numbers, nothing where there is none; an estimate has three columns."""
    estimates = {key for key in table.columns if _holds(table, key, dict)}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    headings: list[str] = []
    for key, heading in table.columns.items():
        headings += (
            [heading, f"{heading} low", f"{heading} high"] if key in estimates else [heading]
        )
    writer.writerow(headings)
    for row in table.rows:
        cells: list[Any] = []
        for key in table.columns:
            value = row.get(key)
            if key in estimates:
                cells += [value and value[part] for part in ("mean", "low", "high")]
            else:
                cells.append(value)
        writer.writerow(cells)
    return out.getvalue()


def as_tex(table: Table) -> str:
    """A tabular with booktabs' rules; caption, label and float are the paper's own."""
    from chary.host.machine import command_line, program

    made = " ".join(f"{table.title}. {command_line()} ({program()})".split())
    align = "".join(_alignment(table, key) for key in table.columns)
    lines = [[escaped(heading) for heading in table.columns.values()]]
    for row in table.rows:
        lines.append([_in_tex(row.get(key), key in table.code) for key in table.columns])
    head, *body = [f"{' & '.join(line)} \\\\" for line in lines]
    rules = [f"\\begin{{tabular}}{{{align}}}", "\\toprule", head, "\\midrule", *body]
    end = ["\\bottomrule", "\\end{tabular}"]
    note = " ".join(table.note.split())  # a comment ends with its line
    notes = [f"% {made}", *([f"% {note}"] if note else []), "% Needs booktabs."]
    return "\n".join([*notes, *rules, *end]) + "\n"


def _holds(table: Table, key: str, *kinds: type) -> bool:
    return any(isinstance(row.get(key), kinds) for row in table.rows)


def _alignment(table: Table, key: str) -> str:
    if _holds(table, key, int, float, dict):
        return "r"
    longest = max(len(str(row.get(key))) for row in table.rows)
    return "p{0.4\\linewidth}" if longest > LONG else "l"


def _in_tex(value: Any, code: bool) -> str:
    """A cell."""
    if isinstance(value, dict):
        mean, low, high = (value[part] for part in ("mean", "low", "high"))
        interval = "" if low is None or high is None else f" [{_number(low)}, {_number(high)}]"
        return "--" if mean is None else f"{_number(mean)}{interval}"
    if isinstance(value, int | float):
        return _number(value)
    if not value:
        return "--"
    return f"\\texttt{{{escaped(str(value))}}}" if code else escaped(str(value))


def _number(value: int | float) -> str:
    """Four digits as a paper writes them; whole numbers entirely."""
    if isinstance(value, int) or 1e4 <= abs(value) < 1e9:
        return f"${value:.0f}$"
    digits, _, power = f"{value:.4g}".partition("e")
    return f"${digits} \\times 10^{{{int(power)}}}$" if power else f"${digits}$"


SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    **{letter: f"\\{letter}" for letter in "{}$&#_%"},
    # At the beginning of a row these would belong to the end of the row before.
    "[": "{[}", "*": "{*}",
}  # fmt: skip


def escaped(text: str) -> str:
    """Text that LaTeX shows as it is."""
    words = re.sub(r"[\x00-\x20\x7f]+", " ", text)
    shown = "".join(SPECIAL.get(letter, letter) for letter in words)
    return shown.replace("--", "-{}-").replace("--", "-{}-")  # two would become one longer dash
