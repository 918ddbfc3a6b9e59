"""`python -m chary` is `chary`."""

import sys

from chary.cli import main


def run() -> None:
    """The installed command."""
    sys.exit(main())


if __name__ == "__main__":
    run()
