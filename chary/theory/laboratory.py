"""The experiments as a user runs them: numbers and figures in a folder, and a page that sums them up."""

import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from chary.config import to_json
from chary.errors import CharyError, unknown_name
from chary.host.files import jsonable, write_whole
from chary.host.machine import cores, cpu_name
from chary.host.terminal import duration
from chary.report.tables import markdown_table, write_page
from chary.theory import chain, linear, mdp, width, width_config
from chary.theory.chain import ChainConfig
from chary.theory.claims import claims
from chary.theory.figures import draw_chain, draw_linear, draw_width
from chary.theory.linear import LinearConfig
from chary.theory.width_config import WidthConfig

Columns = dict[str, str]
Row = dict[str, Any]

LINEAR: Columns = {"quantity": "", "value": "measured"}
CHAIN: Columns = {
    "rule": "targets", "left": "std left of the gap", "right": "right of it", "ratio": "left / right",
    "rises": "rises through the gap", "bound_gap": "bound from independent's",
    "residual": "Bellman residual", "residual_change": "its change in the last tenth",
}  # fmt: skip
WIDTH: Columns = {
    "network": "network", "width": "width", "members": "members", "error": "distance from infinite",
    "error_interval": "95%", "std_error": "of the std", "std_error_interval": "95%",
    "left": "std left of the gap", "ratio": "left / right", "ratio_interval": "95%",
    "rises": "rises through the gap",
}  # fmt: skip
CONSTANTS: Columns = {
    "weight_std": "sigma_w", "bias_std": "sigma_b", "left": "std left of the gap",
    "ratio": "left / right", "value_error": "mean from true value", "radius": "spectral radius, ridge",
    "ridge_left": "std left, ridge", "ridge_ratio": "left / right, ridge",
    "ridge_value_error": "mean from true value, ridge",
}  # fmt: skip
CONSTANTS_TITLE = "Infinite width in closed form, for other sigma_w and sigma_b"
CLAIMS: Columns = {
    "claim": "claim", "paper": "the paper", "measured": "measured", "agrees": "agrees"
}  # fmt: skip


class Outcome(NamedTuple):
    """What an experiment found."""

    facts: Row
    """Single numbers, the settings, and what it took."""
    rows: list[Row]
    columns: Columns
    figure: Path
    notes: str
    """Sentences that belong to the table: which settings are not the paper's, and what it took."""


def run_linear(config: LinearConfig, out: Path) -> Outcome:
    """The linear-Gaussian simulation of Section 3.2."""
    began = _begin(out, "linear")
    result = linear.simulate(config)
    facts = linear.summarise(config, result)
    outcome = _record(out, "linear", config, began, facts, [], LINEAR)
    draw_linear(result, outcome.figure, settings=_caption(config, without=("runs",)))
    return outcome


def run_chain(config: ChainConfig, out: Path) -> Outcome:
    """The five rules for targets on the chain, Appendix F.1."""
    began = _begin(out, "chain")
    data, curves = chain.run_chain(config, out / "parts")
    facts = {"transitions": len(data.rewards)}
    shapes = {c.rule: {"mean": c.mean, "std": c.std, "residuals": c.residuals} for c in curves}
    outcome = _record(
        out, "chain", config, began, facts, chain.rows(config, curves), CHAIN, shapes
    )  # fmt: skip
    settings = f"{len(data.rewards)} transitions. {_caption(config, without=('rules',))}"
    draw_chain(curves, mdp.true_values(config.discount), outcome.figure, settings=settings)
    return outcome


def run_width(config: WidthConfig, out: Path) -> Outcome:
    """Growing width against the closed forms, Appendix F.2."""
    began = _begin(out, "width")
    result = width.run_width(config, out / "parts")
    facts = {"closed_form_error": result.closed_form_error, "constants": result.constants}
    shapes = {f"{e.network}, {e.width}": width.Curve.of(e.values) for e in result.ensembles}
    shapes |= {"infinite": result.infinite, "infinite, ridge": result.complete}
    curves = {name: curve._asdict() for name, curve in shapes.items()}
    outcome = _record(out, "width", config, began, facts, width.rows(result), WIDTH, curves)
    draw_width(
        result, outcome.rows, mdp.true_values(config.discount), outcome.figure,
        settings=_caption(config, without=("widths", "trained", "members", "few", "few_from")),
    )  # fmt: skip
    return outcome


def run_all(preset: str, seed: int, out: Path) -> tuple[list[Row], Path, Row]:
    """Every experiment, the claims that they were made for, and a page with both."""
    if preset not in chain.PRESETS:
        raise unknown_name("preset", preset, chain.PRESETS)
    began = Clock.now(resumed=False)
    outcomes = {
        "linear": run_linear(LinearConfig(seed=seed), out),
        "chain": run_chain(ChainConfig(seed=seed, **chain.PRESETS[preset]), out),
        "width": run_width(WidthConfig(seed=seed, **width_config.PRESETS[preset]), out),
    }
    found = claims(
        outcomes["linear"].facts, outcomes["chain"].rows, outcomes["width"].rows,
        outcomes["width"].facts["constants"],
    )  # fmt: skip
    page, spent = out / "summary.md", began.spent()
    spent["resumed"] = any(outcome.facts["resumed"] for outcome in outcomes.values())
    machine = f"Seed {seed}. Machine: {cpu_name()}, {cores()} cores. {_took(spent)}"
    sections = [_section(name, outcome) for name, outcome in outcomes.items()]
    write_page(
        page, "The theory, measured", found, CLAIMS, notes=[machine], after="\n".join(sections)
    )
    return found, page, spent


def _section(name: str, outcome: Outcome) -> str:
    """An experiment in Markdown: its settings, its tables, its figure."""
    parts = [f"## {name.capitalize()}", outcome.notes]
    parts.append(markdown_table(readable(outcome), outcome.columns))
    if "constants" in outcome.facts:
        parts += [f"{CONSTANTS_TITLE}.", markdown_table(constants(outcome), CONSTANTS)]
    return "\n\n".join([part.rstrip() for part in parts] + [f"![{name}]({outcome.figure.name})\n"])


def _took(spent: Row) -> str:
    wall, cpu = duration(spent["seconds"]), duration(spent["cpu_seconds"])
    resumed = " beside what was read back from an earlier run" if spent["resumed"] else ""
    return f"It took {wall}, and {cpu} of processor time{resumed}."


def readable(outcome: Outcome) -> list[Row]:
    """The table for people: three digits, intervals as words, and single numbers where no rows are."""
    about = ("settings", "machine", "seconds", "cpu_seconds", "resumed")
    rows = outcome.rows or [
        {"quantity": key.replace("_", " "), "value": value}
        for key, value in outcome.facts.items()
        if key not in about
    ]
    return [{key: _text(value) for key, value in row.items()} for row in rows]


def constants(outcome: Outcome) -> list[Row]:
    """The table of closed forms for several sigma_w and sigma_b, for people."""
    return [{key: _text(value) for key, value in row.items()} for row in outcome.facts["constants"]]


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return " to ".join(str(_text(item)) for item in value)
    return f"{value:.3g}" if isinstance(value, float) else value


def differences(config: Any) -> str:
    """What is not as in the paper, in a sentence."""
    paper, mine = to_json(type(config)()), to_json(config)
    other = [
        f"{name.replace('_', ' ')} {mine[name]} instead of {paper[name]}"
        for name in paper
        if mine[name] != paper[name] and name not in ("seed", "checkpoint_minutes")
    ]
    text = f"Against the paper: {', '.join(other)}." if other else "All settings are the paper's."
    if isinstance(config, WidthConfig):
        text += (
            f" It gives no sigma_w and sigma_b, here {config.weight_std:g} and {config.bias_std:g}."
        )
    return text


class Clock(NamedTuple):
    """When an experiment began, on the wall and for the processors."""

    seconds: float
    cpu_seconds: float
    resumed: bool
    """Whether parts of it were there before."""

    @classmethod
    def now(cls, *, resumed: bool) -> "Clock":
        mine_and_my_workers = sum(os.times()[:4])
        return cls(time.monotonic(), mine_and_my_workers, resumed)

    def spent(self) -> Row:
        """Since then; on a machine with other work the processors' time says more."""
        now = Clock.now(resumed=self.resumed)
        return {
            "seconds": now.seconds - self.seconds,
            "cpu_seconds": now.cpu_seconds - self.cpu_seconds,
            "resumed": self.resumed,
        }


def _begin(out: Path, name: str) -> Clock:
    """Make the folder before the work, and look at the clock."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CharyError(f"{out}: cannot be made ({error.strerror}).") from error
    return Clock.now(resumed=any((out / "parts").glob(f"{name}-*/checkpoints/*")))


def _record(
    out: Path, name: str, config: Any, began: Clock, facts: Row, rows: list[Row], columns: Columns,
    curves: Row | None = None,
) -> Outcome:  # fmt: skip
    """Write an experiment's numbers to the place beside its figure."""
    about = {"settings": to_json(config), "machine": cpu_name(), **began.spent()}
    record = {**facts, **about, "rows": rows}
    if curves is not None:
        record |= {"grid": mdp.GRID, "curves": curves}
    write_whole(out / f"{name}.json", json.dumps(jsonable(record)) + "\n")
    notes = f"{differences(config)} {_took(about)}"
    if "closed_form_error" in facts:
        notes += (
            " Gradient descent at infinite width in closed form differs from the same, step by step, "
            f"by at most {facts['closed_form_error']:.1g}."
        )
    return Outcome({**facts, **about}, rows, columns, out / f"{name}.png", notes)


def _caption(config: Any, *, without: tuple[str, ...]) -> str:
    """Settings in the words of their options."""
    pairs = {k: v for k, v in to_json(config).items() if k not in (*without, "checkpoint_minutes")}
    text = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in pairs.items())
    return f"{text.capitalize()}."
