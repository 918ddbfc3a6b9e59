"""Every setting of an algorithm and of a run as an option, with the preset's value as its default."""

import argparse
from collections.abc import Sequence
from dataclasses import field, fields, make_dataclass
from typing import Annotated, Any, NamedTuple

import tyro

from chary import algos
from chary import config as settings
from chary.algos import paper
from chary.cli.output import Flag
from chary.errors import CharyError
from chary.execution.config import DEFAULT, Execution
from chary.training.resolve import configure
from chary.training.run_config import RunConfig, RunSpec

PRESET_HELP = (
    "Settings to start from: auto (chosen by the dataset's name), none (the algorithm's defaults), "
    "paper (the paper's settings for this dataset and number of members), or one of "
)

Option = tuple[str, Any, Any]


class Parsed(NamedTuple):
    """What a user asked for, the presets' values filled in."""

    spec: RunSpec
    json: bool
    own: Any
    """Has the command's own options as attributes."""


def option(name: str, type: Any, default: Any, text: str) -> Option:
    """An option that only one command has."""
    return name, Annotated[type, tyro.conf.arg(help=text)], field(default=default)


def parse(
    algorithm: str,
    arguments: list[str],
    *,
    prog: str,
    description: str,
    own: Sequence[Option] = (),
    hidden: frozenset[str] = frozenset(),
    defaults: dict[str, Any] | None = None,
    needs_data: bool = True,
) -> Parsed:
    """Read a command line; `hidden` settings are the command's to choose, `defaults` go over presets."""
    entry = algos.entry(algorithm)
    # The preset decides the defaults of all other options, so it is looked up first.
    scan = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    scan.add_argument("--preset", default="auto")
    scan.add_argument("--dataset", default="")
    for name in paper.DECIDING:
        scan.add_argument(f"--{name}")
    early, _ = scan.parse_known_args(arguments)
    config, run = configure(algorithm, early.preset, early.dataset, _deciding(early))
    config, run = settings.apply(defaults or {}, config, run, source=prog)
    run_options, algorithm_options = hide(RunConfig, hidden), hide(entry.config, hidden)
    execution_options = hide(Execution, hidden)
    dataset = tyro.MISSING if needs_data else ""
    presets = PRESET_HELP + ", ".join(entry.presets) + "."
    command = make_dataclass(
        algorithm.upper(),
        [
            *own,
            ("run", run_options, field(default=filled(run_options, run, dataset=dataset))),
            ("algorithm", algorithm_options, field(default=filled(algorithm_options, config))),
            ("execution", execution_options, field(default=filled(execution_options, DEFAULT))),
            option("preset", str, "auto", presets),
            option("json", Flag, False, "Print the result as one JSON object."),
        ],
    )
    parsed: Any = tyro.cli(
        command,
        args=_in_words(arguments),
        prog=prog,
        description=description,
        config=(tyro.conf.OmitArgPrefixes,),
    )
    if needs_data and not parsed.run.dataset:
        raise CharyError("--dataset is empty. `chary data list` shows the names.")
    spec = RunSpec(
        algorithm,
        filled(entry.config, parsed.algorithm),
        filled(RunConfig, parsed.run),
        filled(Execution, parsed.execution),
        parsed.preset,
    )
    return Parsed(spec, parsed.json, parsed)


NORMALISE = "--normalise-observations"


def _in_words(arguments: list[str]) -> list[str]:
    """The command line in today's words: options that were renamed, or were once only yes or no."""
    words: list[str] = []
    for word, following in zip(arguments, [*arguments, "--"][1:], strict=True):
        if word.partition("=")[0] == "--chunk":  # its name before 0.2
            words.append(word.replace("--chunk", "--window", 1))
        elif word == "--tensorboard":  # the same
            words += ["--track", "tensorboard"]
        elif word == NORMALISE and following.startswith("--"):
            words += [NORMALISE, "moments"]
        elif word == NORMALISE.replace("--", "--no-"):
            words += [NORMALISE, "none"]
        else:
            words.append(word)
    return words


def _deciding(early: argparse.Namespace) -> dict[str, Any]:
    """The settings on the command line that a preset depends on; what is no number is refused later."""
    given = {name: getattr(early, name) for name in paper.DECIDING}
    try:
        given["members"] = int(given["members"])
    except (TypeError, ValueError):
        given["members"] = None
    return {name: value for name, value in given.items() if value is not None}


def hide(kind: Any, hidden: frozenset[str]) -> Any:
    """The same settings, some of which are not options."""
    covered = [
        (f.name, tyro.conf.Suppress[f.type], field(default=f.default))
        for f in fields(kind)
        if f.name in hidden
    ]
    return make_dataclass(kind.__name__, covered, bases=(kind,), frozen=True)


def filled(kind: Any, config: Any, **changes: Any) -> Any:
    """The same values in another class."""
    return kind(**{f.name: getattr(config, f.name) for f in fields(kind)} | changes)
