"""`chary data ...`: what there is, what is in it, and how it comes and goes."""

import tyro

from chary.cli.data.catalogue import list_, show_
from chary.cli.data.check import check
from chary.cli.data.collect import collect
from chary.cli.data.download import download
from chary.cli.data.drift import drift
from chary.cli.data.transfer import export, import_

COMMANDS = {
    "list": list_,
    "show": show_,
    "check": check,
    "drift": drift,
    "collect": collect,
    "import": import_,
    "export": export,
    "download": download,
}


def main(arguments: list[str]) -> int:
    # A command that has more to say than "done" returns its exit code.
    return tyro.extras.subcommand_cli_from_dict(COMMANDS, args=arguments, prog="chary data") or 0
