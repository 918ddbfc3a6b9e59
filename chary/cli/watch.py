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
        """Serve a live page about the runs in a folder.

        The page is read-only. Only this machine can open it, at an address with a secret. Ctrl-C stops
        the server.

        Args:
            folder: Folder with run folders. Runs that start later appear too.
            port: Port on this machine; 0 takes any free port.
            open: Open the page in a browser, if the command runs in a terminal on a desktop.
        """
        require(port == 0 or 1024 <= port < 65536, "port", port, "0, or from 1024 to 65535")
        if not folder.is_dir():
            raise CharyError(f"{folder}: no such folder. Name the one that holds your runs.")
        from chary.report.watch import make_live

        live = make_live(folder, port=port)
        print(live.address, flush=True)
        say(f"Watching {folder}. Ctrl-C stops the server.")
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
