"""`chary train ALGORITHM`: every setting is an option, with the preset's value as its default."""

import argparse
from dataclasses import field, make_dataclass, replace
from typing import Annotated

import tyro

from chary import algos
from chary.cli.output import Flag
from chary.cli.runs import show_run
from chary.errors import CharyError
from chary.settings import RunConfig
from chary.training import configure, start

PRESET_HELP = (
    "Settings to start from: auto (what suits the dataset), none (the paper's defaults), or one of "
)


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        names = "\n".join(f"  {n:<6} {e.summary}" for n, e in algos.ALGORITHMS.items())
        print(f"usage: chary train ALGORITHM --dataset NAME [OPTIONS]\n\n{names}\n")
        print("`chary train ALGORITHM --help` lists every setting with its default.")
        return 0
    algorithm, *options = arguments
    entry = algos.entry(algorithm)
    # The preset decides the defaults of all other options, so it is looked up first.
    scan = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    scan.add_argument("--preset", default="auto")
    scan.add_argument("--dataset", default="")
    early, _ = scan.parse_known_args(options)
    config, run = configure(algorithm, early.preset, early.dataset)
    command = make_dataclass(
        f"Train{algorithm.upper()}",
        [
            ("run", RunConfig, field(default=replace(run, dataset=tyro.MISSING))),
            ("algorithm", entry.config, field(default=config)),
            (
                "preset",
                Annotated[str, tyro.conf.arg(help=PRESET_HELP + ", ".join(entry.presets) + ".")],
                field(default="auto"),
            ),
            (
                "json",
                Annotated[Flag, tyro.conf.arg(help="Print the result as one JSON object.")],
                field(default=False),
            ),
        ],
    )
    parsed = tyro.cli(
        command,
        args=options,
        prog=f"chary train {algorithm}",
        description=f"Train {algorithm} ({entry.summary}) on a dataset.",
        config=(tyro.conf.OmitArgPrefixes,),
    )
    if not parsed.run.dataset:
        raise CharyError("--dataset is empty. `chary data list` shows the names.")
    agent = start(
        algorithm, parsed.algorithm, parsed.run, dataset=parsed.run.dataset, preset=parsed.preset
    )
    show_run(agent.folder, as_json=parsed.json)
    return 0
