"""`chary watch`: a page in the browser that follows runs as they train."""

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import tyro

from chary.config import require
from chary.errors import CharyError
from chary.host.terminal import say


def main(arguments: list[str]) -> int:
    def watch(
        folder: Annotated[Path, tyro.conf.Positional] = Path("runs"),
        /,
        port: int = 0,
        open: bool = True,
    ) -> None:
        """A page that follows the runs below a folder as they train. Only this machine can see it, at an
        address with a secret in it, and nothing can be changed through it. Ctrl-C ends it.

        Args:
            folder: Where to look; runs that appear later are shown too.
            port: Port on this machine; 0 takes any that is free.
            open: Open the page in a browser, where a person at a desktop has asked.
        """
        require(port == 0 or 1024 <= port < 65536, "port", port, "0, or from 1024 to 65535")
        if not folder.is_dir():
            raise CharyError(f"{folder}: no such folder. Name the one that holds your runs.")
        from chary.report.watch import make_live

        live = make_live(folder, port=port)
        print(live.address, flush=True)
        say(f"Watching {folder}. Ctrl-C ends it.")
        if open and _at_a_desktop():
            webbrowser.open(live.address)
        live.run()

    tyro.cli(watch, args=arguments, prog="chary watch")
    return 0


def _at_a_desktop() -> bool:
    """Whether somebody is there to see a browser; elsewhere one that needs no display would take over
    the terminal."""
    screen = sys.platform != "linux" or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    return screen and sys.stdin.isatty() and sys.stdout.isatty()
