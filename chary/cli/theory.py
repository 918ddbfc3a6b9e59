"""`chary theory linear | chain | width | all`: the paper's analyses, to be run and looked at."""

import argparse
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import tyro

from chary.cli.output import Flag, show
from chary.errors import unknown_name
from chary.host.terminal import say

if TYPE_CHECKING:
    from chary.theory.laboratory import Outcome

SUMMARIES = {
    "linear": "Theorem 3.1 in a linear-Gaussian MDP: how often shared targets are optimistic",
    "chain": "five kinds of targets on a chain with a gap in the data",
    "width": "NTK and maximal-update networks of growing width against infinite width",
    "all": "all three, and a summary page",
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
    out: Path
    json: bool


def linear(options: list[str]) -> None:
    from chary.theory.laboratory import run_linear
    from chary.theory.linear import LinearConfig

    given = _parse("linear", LinearConfig, {}, options)
    _show("linear", run_linear(given.config, given.out), as_json=given.json)


def chain(options: list[str]) -> None:
    from chary.theory.chain import PRESETS, ChainConfig
    from chary.theory.laboratory import differences, run_chain

    given = _parse("chain", ChainConfig, PRESETS, options)
    say(differences(given.config))  # before hours are spent
    _show("chain", run_chain(given.config, given.out), as_json=given.json)


def width(options: list[str]) -> None:
    from chary.theory.laboratory import differences, run_width
    from chary.theory.width_config import PRESETS, WidthConfig

    given = _parse("width", WidthConfig, PRESETS, options)
    say(differences(given.config))  # before hours are spent
    _show("width", run_width(given.config, given.out), as_json=given.json)


def all_(options: list[str]) -> None:
    from chary.theory.laboratory import CLAIMS, run_all

    def everything(
        out: Path = Path("theory"), preset: str = "quick", seed: int = 0, json: Flag = False
    ) -> None:
        """Run the linear, chain and width experiments and write a summary page.

        Args:
            out: Folder for figures (.png), numbers (.json) and the page (summary.md).
            preset: quick, or paper, which needs a GPU.
            seed: Seed of all random numbers.
            json: Print the claims as one JSON object.
        """
        claims, page, spent = run_all(preset, seed, out)
        title = "What the paper says, and what was measured"
        facts = {"preset": preset, "seed": seed, **spent, "page": str(page)}
        show(claims, CLAIMS, as_json=json, title=title, **facts)
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
        description=f"{SUMMARIES[name][0].upper()}{SUMMARIES[name][1:]}.",
        config=(tyro.conf.OmitArgPrefixes,),
    )
    return Options(parsed.config, parsed.out, parsed.json)


def _show(name: str, outcome: "Outcome", *, as_json: bool) -> None:
    from chary.theory.laboratory import CONSTANTS, CONSTANTS_TITLE, constants, readable

    rows = outcome.rows if as_json else readable(outcome)
    facts = {**outcome.facts, "figure": str(outcome.figure)}
    show(rows, outcome.columns, as_json=as_json, title=SUMMARIES[name], **facts)
    if as_json:
        return
    if "constants" in outcome.facts:
        show(constants(outcome), CONSTANTS, as_json=False, title=CONSTANTS_TITLE)
    print(f"figure: {outcome.figure}")
