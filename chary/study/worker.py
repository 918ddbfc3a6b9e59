"""One run of a study in a process of its own: `python -m chary.study.worker`.

The first line of standard input is the job. The input stays open as long as the study lives. When it
closes, the study has been killed, and the run ends too: its folder is free, and can be resumed.
"""

import json
import os
import sys
import threading
from typing import Any

from chary.errors import CharyError, DivergedError
from chary.host.terminal import show_warnings_plainly


def main() -> int:
    """Train one run to its end; errors go to the log that is our standard error."""
    job: dict[str, Any] = json.loads(sys.stdin.readline())
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, job["cores"])  # before XLA counts the cores and makes its threads
    threading.Thread(target=_end_with_the_study, daemon=True).start()
    sys.argv = job["command"]
    show_warnings_plainly()

    from chary import algos
    from chary import config as settings
    from chary.execution.config import Execution
    from chary.training.run_config import RunConfig, RunSpec
    from chary.training.start import start

    try:
        run = settings.from_json(RunConfig, job["run"])
        algorithm = job["algorithm"]
        config = settings.from_json(algos.entry(algorithm).config, job["settings"])
        execution = settings.from_json(Execution, job["execution"])
        spec = RunSpec(algorithm, config, run, execution, job["preset"])
        start(spec, run.dataset, resume=True)
    except DivergedError as error:  # the folder remembers it; to a study it is a result
        print(error, file=sys.stderr)
    except CharyError as error:
        print(f"chary: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(f"chary: interrupted. {stop}", file=sys.stderr)
        return 130
    return 0


def _end_with_the_study() -> None:
    # Read from the descriptor: a thread that waits in sys.stdin would be in the way of a normal end.
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
