"""Part (b): damaged run folders. Every command that reads one answers, refuses or skips: no traceback,
no hang, no control characters on the terminal, nothing written elsewhere, no log line lost.

Commands are called in this process, because starting one takes longer than what it does here.
"""

import io
import json
import os
import random
import resource
import shutil
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.torture import parts
from tests.torture.parts import Budget, Check

MAIN, WANTED, LANES = "damaged run folders", 10_500, 2
HANG = 30
"""Seconds of the processor; of the clock, which others slow down, several times as many."""
TIMERS = (
    (signal.SIGPROF, signal.ITIMER_PROF, HANG),
    (signal.SIGALRM, signal.ITIMER_REAL, 6 * HANG),
)
MEMORY = 2**30
"""Bytes that a command may take more than all before it."""
OUTCOMES = {0: "answered", 1: "found something", 2: "refused"}
HEAVY = 0.06
"""Share of the cases that are also resumed, opened, exported and ranked, which takes longer."""

ODD: list[Any] = [
    None, True, False, 0, -1, 1.5, 10**400, -(10**30), float("nan"), float("inf"), 1e308, "", "x", "\0",
    "\ud800", "\udcff", "[/red]", "[bold]x", "\x1b[2J\x1b]52;c;aGk=\x07", "../../elsewhere",
    "/etc/passwd", "evil_module:Name", "a\nb", "x" * 100_000, "\u202egnp", [], {}, [[]], [None],
    [1, "2", {}], {"step": -1}, {"": {"": None}},
]  # fmt: skip
"""What nobody expects in a file of JSON."""
NAMES = [
    b"\xff\xfe.npz", b"999.npz", "٣.npz".encode(), b"-1.npz", b"1e3.npz", b"[red].npz",
    b"\x1b[31m.npz", b"a\nb.npz", b"x" * 200 + b".npz", b"9" * 200 + b".npz",
]  # fmt: skip
"""Of files and folders that do not belong there."""


class Case(NamedTuple):
    """A damaged folder: where, and what was done to it."""

    run: Path
    what: str


@contextmanager
def torture(budget: Budget, seed: int, folder: Path) -> Iterator[parts.Case]:
    """Damage folders in many ways and call the commands on each."""
    del budget
    whole = _runs(folder)

    def case(number: int) -> list[Check]:
        dice = random.Random(f"{seed}/{number}")
        made = _damaged(whole, folder / "here", dice)
        commands = COMMANDS | HEAVY_COMMANDS if dice.random() < HEAVY else COMMANDS
        checks: list[Check] = []
        for command, work in commands.items():
            outcome, problem = _tried(made, work, dice)
            checks.append(Check(command, outcome, problem and f"{made.what}: {problem}"))
        wrong = [f"{check.what}: {check.problem}" for check in checks if check.problem]
        return [Check(MAIN, "", "; ".join(wrong)), *checks]

    yield case


def _runs(folder: Path) -> list[Path]:
    """Folders to be damaged: some that were trained, with checkpoints, and one that only looks so."""
    import chary
    from chary.data import formats
    from chary.data.dataset import Dataset
    from tests.conftest import make_columns
    from tests.synthetic import synthetic_run

    data = folder / "d.npz"
    if not data.exists():
        formats.write(Dataset.from_columns(make_columns(episodes=24), name="tiny"), data)
    trained = {"alone": {}, "group": {"seeds": [0, 1]}}
    small = {"hidden": (8, 8), "batch_size": 16, "log_every": 5, "eval_every": 10, "holdout": 0.3}
    for name, more in trained.items():
        if not (folder / "whole" / name).exists():
            train: Callable[..., Any] = chary.train_population if more else chary.train
            steps = {"steps": 20, "validation": 0.0 if more else 0.2, "checkpoint_minutes": 0.0}
            train("bc", data, run=folder / "making", **small, **steps, **more)
            if more:
                shutil.rmtree(folder / "whole" / name, ignore_errors=True)
            (folder / "whole").mkdir(exist_ok=True)
            (folder / "making").rename(folder / "whole" / name)
    if not (folder / "whole" / "drawn").exists():
        synthetic_run(folder / "whole" / "drawn", lines=20, evaluations=3)
    return [folder / "whole" / name for name in (*trained, "drawn")]


def _damaged(whole: list[Path], here: Path, dice: random.Random) -> Case:
    """A copy of a folder with one to three things wrong with it, beside one that is as it should be."""
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir()
    (here / "victim").write_text("mine\n")
    source = dice.choices(whole, [5, 2, 3])[0]
    shutil.copytree(source, here / "runs" / "bad", symlinks=True)
    shutil.copytree(whole[0], here / "runs" / "good")
    run = here / "runs" / "bad"
    if source.name == "group":
        run = run / dice.choice(["seed0", "seed1"])
    done = [_harm(run, dice) for _ in range(dice.choice([1, 1, 1, 2, 3]))]
    return Case(run, ", ".join(done))


def _harm(run: Path, dice: random.Random) -> str:
    """Damage one file, or add something that does not belong there."""
    files = [path for path in sorted(run.rglob("*")) if path.is_file() and not path.is_symlink()]
    texts = [path for path in files if path.suffix in (".json", ".jsonl")]
    kind = dice.choices(["json", "bytes", "place", "stranger", "lose"], [10, 5, 4, 2, 1])[0]
    if kind == "json" and texts:
        # Every kind of file as often as another, however many there are of it.
        name = dice.choice(sorted({path.name for path in texts}))
        path = dice.choice([path for path in texts if path.name == name])
        how = dice.choice(JSON_HARMS)
    elif kind == "bytes" and files:
        path, how = dice.choice(files), dice.choice(BYTE_HARMS)
    elif kind == "place":
        places = [*files, *(path for path in sorted(run.iterdir()) if path.is_dir())]
        named = [run / name for name in ("diverged.json", "select.json", ".lock", "limits.npz")]
        path, how = dice.choice([*places, *named]), dice.choice(PLACE_HARMS)
    elif kind == "stranger":
        path = dice.choice([run, run / "diagnostics", run / "checkpoints"])
        how = _stranger
    else:
        path, how = run / "checkpoints", _lost
    # A second harm may not be possible after the first.
    with suppress(OSError, ValueError, RecursionError):
        how(path, dice)
    return f"{how.__name__.strip('_')} {path.relative_to(run)}"


def _bytes(change: Callable[[bytearray, random.Random], bytes | bytearray]) -> Callable[..., None]:
    def harm(path: Path, dice: random.Random) -> None:
        path.write_bytes(change(bytearray(path.read_bytes()), dice))
        if "arrays" in path.parts and dice.random() < 0.5:  # as somebody would who means harm
            _sum_again(path)

    harm.__name__ = change.__name__
    return harm


def _sum_again(path: Path) -> None:
    """Make the manifest say that a damaged checkpoint is sound."""
    from chary.runs import checkpoints

    above = next(p for p in path.parents if (p / checkpoints.MANIFEST).exists())
    sums = checkpoints._sums(above)  # pyright: ignore[reportPrivateUsage]
    (above / checkpoints.MANIFEST).write_text(json.dumps(sums))


def flipped(content: bytearray, dice: random.Random) -> bytearray:
    for _ in range(dice.choice([1, 1, 8]) if content else 0):
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    return content


def cut(content: bytearray, dice: random.Random) -> bytearray:
    return content[: dice.randrange(len(content) + 1)]


def emptied(content: bytearray, dice: random.Random) -> bytes:
    del content, dice
    return b""


def zeroed(content: bytearray, dice: random.Random) -> bytes:
    del dice
    return bytes(len(content))


def lengthened(content: bytearray, dice: random.Random) -> bytes:
    return bytes(content) + dice.randbytes(dice.choice([1, 100, 10_000]))


def doubled(content: bytearray, dice: random.Random) -> bytes:
    del dice
    return bytes(content) * 2


def swapped(content: bytearray, dice: random.Random) -> bytes:
    place = dice.randrange(len(content) + 1)
    return bytes(content[place:] + content[:place])


BYTE_HARMS = [_bytes(c) for c in (flipped, cut, emptied, zeroed, lengthened, doubled, swapped)]


def odd_value(path: Path, dice: random.Random) -> None:
    """Somewhere in the JSON, something else."""
    _rewrite(path, dice, lambda value: _changed(value, dice))


def other_kind(path: Path, dice: random.Random) -> None:
    _rewrite(path, dice, lambda _: dice.choice(ODD))


def deep(path: Path, dice: random.Random) -> None:
    depth = dice.choice([40, 500, 900, 5_000, 100_000])
    opened, closed = dice.choice([("[", "]"), ('{"a":', "}")])
    text = opened * depth + "1" + closed * depth
    if dice.random() < 0.5:  # within what is otherwise sound
        whole = path.read_text().rstrip().rstrip("}")
        text = f'{whole}, "deep": {text}}}'
    path.write_text(text + "\n")


def large(path: Path, dice: random.Random) -> None:
    """Many gigabytes that take no room on the disk."""
    with open(path, "ab") as file:
        file.truncate(dice.choice([2**27, 2**28]))


def _rewrite(path: Path, dice: random.Random, change: Callable[[Any], Any]) -> None:
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    place = dice.randrange(len(lines))
    lines[place] = json.dumps(change(json.loads(lines[place])))
    path.write_text("\n".join(lines) + "\n")


def _changed(value: Any, dice: random.Random) -> Any:
    """The same, with one odd value at any depth, or without one, or with one more."""
    if isinstance(value, dict | list) and value and dice.random() < 0.8:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = dice.choice(keys)
        if dice.random() < 0.15:
            del value[key]
        elif dice.random() < 0.05 and isinstance(value, dict):
            value[dice.choice(["", "step", "\x1b[31m", "[/x]", "population"])] = dice.choice(ODD)
        else:
            value[key] = _changed(value[key], dice)
        return value
    return dice.choice(ODD)


JSON_HARMS = [odd_value] * 8 + [other_kind] * 2 + [deep] * 2 + [large]


def gone(path: Path, dice: random.Random) -> None:
    del dice
    _away(path)


def folder_instead(path: Path, dice: random.Random) -> None:
    del dice
    _away(path)
    path.mkdir()


def file_instead(path: Path, dice: random.Random) -> None:
    _away(path)
    path.write_bytes(dice.choice([b"", b"{}", b"null", b"PK\x03\x04", b"\x80\x04."]))


def pipe(path: Path, dice: random.Random) -> None:
    del dice
    _away(path)
    os.mkfifo(path)


def link(path: Path, dice: random.Random) -> None:
    _away(path)
    above = next(p for p in path.parents if p.name == "here")
    targets = [
        "nowhere",
        path.name,
        above / "victim",
        "/dev/zero",
        "/etc/passwd",
        above,
        "/proc/self",
    ]
    path.symlink_to(dice.choice(targets))


PLACE_HARMS = [gone, folder_instead, file_instead, pipe, link]


def _away(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)


def _stranger(path: Path, dice: random.Random) -> None:
    """Something with an odd name that nobody put there."""
    path.mkdir(exist_ok=True)
    name = os.path.join(os.fsencode(path), dice.choice(NAMES))
    if dice.random() < 0.5:
        name = name.removesuffix(b".npz")
    if dice.random() < 0.3:
        os.mkdir(name)
    else:
        with open(name, "wb") as file:
            file.write(dice.randbytes(20))


def _lost(path: Path, dice: random.Random) -> None:
    """Checkpoints on a disk that is not there."""
    dice.choice([gone, folder_instead, file_instead, link])(path, dice)


def _quiet(*words: object) -> Callable[[Case, random.Random], int]:
    """A command on the folder above the damaged run."""
    return lambda *_: _chary(*words)


def _chary(*words: object) -> int:
    from chary.cli import main

    return main([str(word) for word in words])


def _watch(case: Case, dice: random.Random) -> int:
    del dice
    from chary.report.follow import Follower

    above = next(p for p in case.run.parents if p.name == "runs")
    follower = Follower(above)
    while (changes := follower.changes(0)) and changes["unread"]:  # large files take their time
        time.sleep(0.6)
    json.dumps(changes, allow_nan=False)
    assert changes is not None and "good" in changes["names"], "the sound run is not on the page"
    return 0


def _listed(case: Case, dice: random.Random) -> int:
    del case, dice
    out = io.StringIO()
    with redirect_stdout(out):
        code = _chary("runs", "runs", "--json")
    names = [row["run"] for row in json.loads(out.getvalue())["rows"]]
    assert "runs/good" in names, "the sound run is not in the table"
    return code


def _report(case: Case, dice: random.Random) -> int:
    del case
    kind = dice.choices(["html", "md", "csv", "tex"], [4, 1, 2, 2])[0]  # md draws figures
    return _chary("report", "runs", "--format", kind, "--out", f"page.{kind}")


def _resume(case: Case, dice: random.Random) -> int:
    before = _lines(case.run)
    again = ["--from-start"] if dice.random() < 0.3 else []
    code = _chary("resume", case.run, *again)
    if code == 0:
        missing = before - _lines(case.run)
        assert not missing, f"{len(missing)} log lines are lost, such as {sorted(missing)[0]!r}"
    return code


def _lines(run: Path) -> set[tuple[str, bytes]]:
    """All lines of logs, of the run and of what it put aside; the clock's are always other ones."""
    found = [*run.glob("*.jsonl"), *run.glob("aside/*/*.jsonl")]
    return {
        (path.name, line)
        for path in found
        if path.is_file() and path.stat().st_size < 2**24 and path.stem != "timing"
        for line in path.read_bytes().split(b"\n")
        if line
    }


def _open(case: Case, dice: random.Random) -> int:
    import numpy as np

    import chary

    del dice
    try:
        chary.open_run(case.run).act(np.zeros((1, 3), np.float32))
    except chary.CharyError:
        return 2
    return 0


def _select(case: Case, dice: random.Random) -> int:
    del case, dice
    return _chary("select", "runs", "--steps", 5)


COMMANDS: dict[str, Callable[[Case, random.Random], int]] = {
    "chary runs": _listed,
    "chary runs, as a table": _quiet("runs", "runs"),
    "chary report": _report,
    "chary watch": _watch,
}
WALK = ("--env", "tests.online.walk:make")  # the data has no simulator
HEAVY_COMMANDS: dict[str, Callable[[Case, random.Random], int]] = {
    "chary eval": lambda case, _: _chary("eval", case.run, "--episodes", 1, *WALK),
    "chary.open_run": _open,
    "chary export": lambda case, _: _chary("export", case.run, "--out", "a.npz", "--overwrite"),
    "chary data drift": lambda case, _: _chary("data", "drift", case.run, "../d.npz"),
    "chary select": _select,
    "chary resume": _resume,
}


class Hang(BaseException):
    """Raised by the clock: nothing that catches exceptions may catch it."""


def _tried(
    case: Case, work: Callable[[Case, random.Random], int], dice: random.Random
) -> tuple[str, str]:
    """How a command took it, and what is wrong with that; nothing where all is well."""
    here = next(p for p in case.run.parents if p.name == "here")

    def hang(*_: object) -> None:
        raise Hang

    out, before = io.StringIO(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number, timer, seconds in TIMERS:
        signal.signal(number, hang)
        signal.setitimer(timer, seconds)
    try:
        with chdir(here), redirect_stdout(out), redirect_stderr(out), warnings.catch_warnings():
            code = work(case, dice)
    except Hang:
        return "hangs", f"hangs for {HANG} seconds"
    except SystemExit as end:
        code = int(end.code or 0)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return "raises", f"{type(error).__name__} at {where}: {str(error)[:120]!r}"
    finally:
        for _, timer, _ in TIMERS:
            signal.setitimer(timer, 0.0)
    taken = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    said = out.getvalue()
    problem = ""
    if code not in OUTCOMES:
        problem = f"exit code {code}"
    elif "Traceback" in said:
        problem = f"shows a traceback: {said[-200:]!r}"
    elif any(not c.isprintable() and c not in "\n\t" for c in said):
        problem = f"prints control characters: {said[:200]!r}"
    elif (here / "victim").read_text() != "mine\n":
        problem = "writes through a link"
    elif taken > MEMORY:
        problem = f"takes {taken / 2**20:.0f} MB"
    return OUTCOMES.get(code, "ends"), problem
