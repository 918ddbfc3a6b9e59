"""`python -m chary` is `chary`."""

import signal
import sys

# Until there is somebody to answer, and after: Ctrl-C just ends the program, without a traceback.
ours = __name__ == "__main__" or sys.argv[0].endswith("chary")
if ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not under nohup
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from chary.cli import main  # noqa: E402


def run() -> None:
    """The installed command."""
    sys.exit(main())


if __name__ == "__main__":
    run()
