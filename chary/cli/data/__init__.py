"""`chary data ...`: what there is, what is in it, and how it comes and goes."""

import tyro

from chary.cli.data.catalogue import list_, show_
from chary.cli.data.collect import collect

COMMANDS = {"list": list_, "show": show_, "collect": collect}


def main(arguments: list[str]) -> int:
    tyro.extras.subcommand_cli_from_dict(COMMANDS, args=arguments, prog="chary data")
    return 0
