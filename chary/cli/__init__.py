"""The command line: a light table of commands, each in a module that is imported when called."""

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from chary.errors import CharyError, unknown_name
from chary.host.machine import share_heaps
from chary.host.terminal import say, show_warnings_plainly
from chary.version import __version__

COMMANDS = {
    "train": "train an algorithm on a dataset: chary train msg --dataset pointmaze-umaze",
    "resume": "resume an interrupted run; the result is bit-identical",
    "finetune": "let a trained run learn on in its task: chary finetune runs/x --steps 100000",
    "train-online": "learn in a task from nothing: chary train-online msg --env Pendulum-v1",
    "sweep": "train every combination of settings and seeds: chary sweep msg --grid beta=-4,-8",
    "select": "rank trained policies without a simulator: chary select sweeps/a",
    "tune": "choose beta and alpha as the MSG paper advises: chary tune msg --dataset D",
    "eval": "run a trained policy in its task",
    "export": "a policy with its doubt, for use without chary: chary export runs/x --out agent.onnx",
    "serve": "a policy with its doubt, over HTTP: chary serve agent.onnx",
    "runs": "table of run folders with last and best scores",
    "report": "one HTML page about run folders: curves, ensemble health, mazes: chary report runs",
    "track": "logs of runs for TensorBoard, W&B, MLflow or trackio: chary track runs/x --to mlflow",
    "watch": "a live page in the browser about runs in training: chary watch runs",
    "study": "train variants with several seeds and compare them: chary study targets",
    "reproduce": "repeat the project's own results: chary reproduce antmaze --dry-run",
    "data": "list, show, check, compare, import, export, download and collect datasets",
    "demo": "collect a small maze's data, train, evaluate, draw and report",
    "theory": "the paper's analyses: linear, chain, width, all",
    "bench": "speed of training on this machine, in updates a second: chary bench updates",
}

TRUST = "--trust-environment"


def usage() -> str:
    """What `chary --help` prints."""
    lines = "\n".join(f"  {name:<12} {text}" for name, text in COMMANDS.items())
    return (
        f"chary {__version__}: offline reinforcement learning that knows where the data ends\n\n"
        f"usage: chary COMMAND [OPTIONS]\n\n{lines}\n\n"
        "`chary COMMAND --help` explains a command. Results go to standard output (--json: as JSON),\n"
        "progress to standard error. Exit codes: 0 done, 1 `data check` found errors or `data drift\n"
        "--fail-on-drift` a reason to retrain, 2 wrong input, 130 interrupted. With any command,\n"
        "--trust-environment lets a Minari dataset name any environment to import and make."
    )


def main(arguments: list[str] | None = None) -> int:
    """Run one command; errors that a user can fix become one message and exit code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    show_warnings_plainly()
    if TRUST in arguments:  # for every command, and for the processes that it starts
        arguments = [word for word in arguments if word != TRUST]
        os.environ["CHARY_TRUST_ENVIRONMENT"] = "1"
    with _interrupts() as seen:
        return _run(arguments, seen)


def _run(arguments: list[str], interrupts: list[int]) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of files need not be text in any language
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        if not arguments or arguments[0] in ("-h", "--help", "help"):
            print(usage(), flush=True)
            return 0
        if arguments[0] == "--version":
            print(f"chary {__version__}")
            return 0
        if arguments[0] not in COMMANDS:
            raise unknown_name("command", arguments[0], COMMANDS, "See `chary --help`.")
        share_heaps()
        module = arguments[0].replace("-", "_")
        return import_module(f"chary.cli.{module}").main(arguments[1:])
    except CharyError as error:
        say(f"chary: error: {error}")
        return 2
    except KeyboardInterrupt as stop:
        say(f"chary: interrupted. {stop}".rstrip())
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as with `| head`
        sys.stderr.close()
        return 141
    except OSError as error:  # no room, no permission, a name too long: the user's to fix
        where = f"{error.filename}: " if error.filename else ""
        say(f"chary: error: {where}{error.strerror or error}.")
        return 2
    except Exception as error:
        if interrupts:  # packages that are interrupted while they are imported fail in other ways
            say("chary: interrupted.")
            return 130
        # JAX has an error of its own for memory.
        if not isinstance(error, MemoryError) and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        say(
            "chary: error: out of memory. Choose smaller networks or batches, or fewer runs at once."
        )
        return 2


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """A list that Ctrl-C adds to before it interrupts as usual."""
    seen: list[int] = []

    def note(number: int, frame: Any) -> None:
        seen.append(number)
        signal.default_int_handler(number, frame)

    before = signal.getsignal(signal.SIGINT)
    usual = before in (signal.default_int_handler, signal.SIG_DFL)
    if not usual or threading.current_thread() is not threading.main_thread():
        yield seen
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)
