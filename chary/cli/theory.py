"""`chary theory linear | chain | width | all`: the paper's analyses, to be run and looked at."""

import argparse
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import tyro

from chary.cli.output import Flag, show
from chary.errors import unknown_name
from chary.progress import say

LINEAR_COLUMNS = {"quantity": "", "value": "measured"}
CHAIN_COLUMNS = {
    "rule": "targets", "left": "std left of the gap", "right": "right of it", "ratio": "left / right",
    "rises": "rises through the gap", "bound_gap": "bound from independent's",
    "residual": "Bellman residual", "residual_change": "its change in the last tenth",
}  # fmt: skip
WIDTH_COLUMNS = {
    "network": "network", "width": "width", "members": "members", "error": "distance from infinite",
    "error_interval": "95%", "std_error": "of the std", "ratio": "std left / right",
    "ratio_interval": "95%", "rises": "rises through the gap",
}  # fmt: skip
CLAIM_COLUMNS = {"claim": "claim", "paper": "the paper", "measured": "measured", "agrees": "agrees"}
SUMMARIES = {
    "linear": "Theorem 3.1 in a linear-Gaussian MDP: how often shared targets are optimistic",
    "chain": "five rules for targets on a chain with a gap in the data",
    "width": "NTK and maximal-update networks of growing width against infinite width",
    "all": "all three, and a page that sums them up",
}
Out = Annotated[Path, tyro.conf.arg(help="Folder for figures (.png) and numbers (.json).")]
Json = Annotated[Flag, tyro.conf.arg(help="Print the result as one JSON object.")]


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        names = "\n".join(f"  {name:<7} {text}" for name, text in SUMMARIES.items())
        print(f"usage: chary theory EXPERIMENT [OPTIONS]\n\n{names}\n")
        print("`chary theory EXPERIMENT --help` lists every setting with its default.")
        return 0
    name, *options = arguments
    if name not in SUMMARIES:
        raise unknown_name("experiment", name, SUMMARIES)
    {"linear": linear, "chain": chain, "width": width, "all": all_}[name](options)
    return 0


class Options(NamedTuple):
    """What the command line of an experiment says."""

    config: Any
    preset: str
    out: Path
    json: bool


def linear(options: list[str]) -> None:
    from chary.theory.laboratory import run_linear
    from chary.theory.linear import LinearConfig

    given = _parse("linear", LinearConfig, {}, options)
    outcome = run_linear(given.config, given.out)
    known = [key for key in outcome.facts if key not in ("settings", "machine", "seconds")]
    rows = [{"quantity": k.replace("_", " "), "value": _number(outcome.facts[k])} for k in known]
    # Programs want names, people lines.
    _show("linear", given, outcome, [] if given.json else rows, LINEAR_COLUMNS)


def chain(options: list[str]) -> None:
    from chary.theory.chain import PRESETS, ChainConfig
    from chary.theory.laboratory import differences, run_chain

    given = _parse("chain", ChainConfig, PRESETS, options)
    say(differences(given.config))  # before hours are spent
    outcome = run_chain(given.config, given.out)
    _show("chain", given, outcome, outcome.rows, CHAIN_COLUMNS)


def width(options: list[str]) -> None:
    from chary.theory.laboratory import differences, run_width
    from chary.theory.width_config import PRESETS, WidthConfig

    given = _parse("width", WidthConfig, PRESETS, options)
    say(differences(given.config))  # before hours are spent
    outcome = run_width(given.config, given.out)
    _show("width", given, outcome, outcome.rows, WIDTH_COLUMNS)


def all_(options: list[str]) -> None:
    from chary.theory.laboratory import run_all

    def everything(
        out: Path = Path("theory"), preset: str = "quick", seed: int = 0, json: Flag = False
    ) -> None:
        """Run the linear, chain and width experiments and write a page that sums them up.

        Args:
            out: Folder for figures (.png), numbers (.json) and the page (summary.md).
            preset: Sizes: quick, or paper, which is meant for a GPU.
            seed: Seed of everything random.
            json: Print the claims as one JSON object.
        """
        claims, page, seconds = run_all(preset, seed, out)
        title = "What the paper says, and what was measured"
        facts = {"preset": preset, "seed": seed, "seconds": seconds, "page": str(page)}
        show(claims, CLAIM_COLUMNS, as_json=json, title=title, **facts)
        if not json:
            print(f"page: {page}")

    tyro.cli(everything, args=options, prog="chary theory all")


def _parse(
    name: str, config: type, presets: dict[str, dict[str, Any]], options: list[str]
) -> Options:
    """Every setting is an option, with the preset's value as its default."""
    # The preset decides the defaults of all other options, so it is looked up first.
    scan = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    scan.add_argument("--preset", default="quick" if presets else "")
    preset = scan.parse_known_args(options)[0].preset if presets else ""
    if presets and preset not in presets:
        raise unknown_name("preset", preset, presets)
    fields: list[Any] = [
        ("config", config, field(default=config(**presets.get(preset, {})))),
        ("out", Out, field(default=Path("theory"))),
        ("json", Json, field(default=False)),
    ]
    if presets:
        help = f"Settings to start from: {', '.join(presets)}."
        fields.append(("preset", Annotated[str, tyro.conf.arg(help=help)], field(default="quick")))
    parsed = tyro.cli(
        make_dataclass(name.capitalize(), fields),
        args=options,
        prog=f"chary theory {name}",
        description=f"{SUMMARIES[name].capitalize()}.",
        config=(tyro.conf.OmitArgPrefixes,),
    )
    return Options(parsed.config, preset, parsed.out, parsed.json)


def _show(
    name: str,
    given: Options,
    outcome: Any,
    rows: list[dict[str, Any]],
    columns: dict[str, str],
) -> None:
    if not given.json:
        rows = [{key: _number(value) for key, value in row.items()} for row in rows]
    facts = {"figure": str(outcome.figure)}
    show(rows, columns, as_json=given.json, title=SUMMARIES[name], **outcome.facts, **facts)
    if not given.json:
        print(f"figure: {outcome.figure}")


def _number(value: Any) -> Any:
    """Small numbers with their digits, intervals as words."""
    if isinstance(value, list):
        return " to ".join(str(_number(item)) for item in value)
    return f"{value:.3g}" if isinstance(value, float) else value
