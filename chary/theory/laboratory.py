"""The experiments as a user runs them: numbers and figures in a folder, and a page that sums them up."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from chary.errors import CharyError, unknown_name
from chary.machine import cores, cpu_name
from chary.report.theory import draw_chain, draw_linear, draw_width
from chary.runs import jsonable, write_whole
from chary.settings import to_json
from chary.theory import chain, linear, mdp, width, width_config
from chary.theory.chain import ChainConfig
from chary.theory.claims import claims
from chary.theory.linear import LinearConfig
from chary.theory.width_config import WidthConfig


class Outcome(NamedTuple):
    """What an experiment found: facts, a table, where its figure is, and what is not the paper's."""

    facts: dict[str, Any]
    rows: list[dict[str, Any]]
    figure: Path
    differences: str


def run_linear(config: LinearConfig, out: Path) -> Outcome:
    """The linear-Gaussian simulation of Section 3.2."""
    with _recorded(out, "linear", config) as outcome:
        result = linear.simulate(config)
        outcome["facts"] = linear.summarise(config, result)
        draw_linear(result, out / "linear.png", settings=_caption(config, without=("runs",)))
    return _outcome(out, "linear", outcome, config)


def run_chain(config: ChainConfig, out: Path) -> Outcome:
    """The five rules for targets on the chain, Appendix F.1."""
    with _recorded(out, "chain", config) as outcome:
        data, curves = chain.run_chain(config, out / "parts")
        outcome["facts"] = {"transitions": len(data.rewards)}
        outcome["rows"] = chain.rows(config, curves)
        outcome["grid"] = mdp.GRID
        outcome["curves"] = {
            c.rule: {"mean": c.mean, "std": c.std, "residuals": c.residuals} for c in curves
        }
        true = mdp.true_values(config.discount)
        settings = f"{len(data.rewards)} transitions. {_caption(config, without=('rules',))}"
        draw_chain(curves, true, out / "chain.png", settings=settings)
    return _outcome(out, "chain", outcome, config)


def run_width(config: WidthConfig, out: Path) -> Outcome:
    """Growing width against the closed forms, Appendix F.2."""
    with _recorded(out, "width", config) as outcome:
        result = width.run_width(config, out / "parts")
        outcome["facts"] = {
            "closed_form_error": result.closed_form_error,
            "ridge_spectral_radius": result.radius,
        }
        outcome["rows"] = rows = width.rows(result)
        outcome["grid"] = mdp.GRID
        outcome["curves"] = {
            "infinite": result.finite_time._asdict(),
            "infinite, ridge": result.complete._asdict(),
        } | {
            f"{name}, {size}": {"mean": values.mean(axis=0), "std": values.std(axis=0)}
            for (name, size), values in result.values.items()
        }
        true = mdp.true_values(config.discount)
        settings = _caption(config, without=("widths", "few"))
        draw_width(result, rows, true, out / "width.png", settings=settings)
    return _outcome(out, "width", outcome, config)


def run_all(preset: str, seed: int, out: Path) -> tuple[list[dict[str, Any]], Path, float]:
    """Every experiment, the claims that they were made for, and a page with both."""
    if preset not in chain.PRESETS:
        raise unknown_name("preset", preset, chain.PRESETS)
    began = time.monotonic()
    outcomes = {
        "linear": run_linear(LinearConfig(seed=seed), out),
        "chain": run_chain(ChainConfig(seed=seed, **chain.PRESETS[preset]), out),
        "width": run_width(WidthConfig(seed=seed, **width_config.PRESETS[preset]), out),
    }
    found = claims(outcomes["linear"].facts, outcomes["chain"].rows, outcomes["width"].rows)
    seconds = time.monotonic() - began
    page = out / "summary.md"
    write_whole(page, summary(found, outcomes, preset=preset, seed=seed))
    return found, page, seconds


def summary(
    found: list[dict[str, Any]], outcomes: dict[str, Outcome], *, preset: str, seed: int
) -> str:
    """One page of Markdown: claims, then each experiment's figure, settings and time."""
    lines = [
        "# The theory, measured",
        "",
        f"    chary theory all --preset {preset} --seed {seed}",
        "",
        f"Machine: {cpu_name()}, {cores()} cores.",
        "",
        "| claim | the paper | measured | agrees |",
        "|---|---|---|---|",
    ]
    for claim in found:
        cells = (
            claim["claim"],
            claim["paper"],
            claim["measured"],
            "yes" if claim["agrees"] else "no",
        )
        lines.append(f"| {' | '.join(cells)} |")
    for name, outcome in outcomes.items():
        settings = outcome.differences
        lines += [
            "", f"## {name.capitalize()}", "",
            f"{settings} Seed {seed}, {outcome.facts['seconds']:.0f} seconds.",
            "", f"![{name}]({outcome.figure.name})",
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def differences(config: Any) -> str:
    """What is not as in the paper, in a sentence."""
    paper, mine = to_json(type(config)()), to_json(config)
    other = [
        f"{name.replace('_', ' ')} {mine[name]} instead of {paper[name]}"
        for name in paper
        if mine[name] != paper[name] and name not in ("seed", "checkpoint_minutes")
    ]
    return f"Against the paper: {', '.join(other)}." if other else "All settings are the paper's."


@contextmanager
def _recorded(out: Path, name: str, config: Any) -> Iterator[dict[str, Any]]:
    """Time an experiment and write its numbers beside its figure."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CharyError(f"{out}: cannot be made ({error.strerror}).") from error
    began = time.monotonic()
    outcome: dict[str, Any] = {"facts": {}, "rows": []}
    yield outcome
    record = {
        **outcome.pop("facts"), "settings": to_json(config), "machine": cpu_name(),
        "seconds": time.monotonic() - began, **outcome,
    }  # fmt: skip
    outcome["record"] = record
    write_whole(out / f"{name}.json", json.dumps(jsonable(record)) + "\n")


def _outcome(out: Path, name: str, outcome: dict[str, Any], config: Any) -> Outcome:
    shown = ("rows", "grid", "curves")
    facts = {k: v for k, v in outcome["record"].items() if k not in shown}
    return Outcome(facts, outcome["rows"], out / f"{name}.png", differences(config))


def _caption(config: Any, *, without: tuple[str, ...]) -> str:
    """Settings in the words of their options."""
    pairs = {k: v for k, v in to_json(config).items() if k not in (*without, "checkpoint_minutes")}
    text = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in pairs.items())
    return f"{text.capitalize()}."
