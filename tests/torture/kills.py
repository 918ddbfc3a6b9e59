"""Part (a): runs, populations and sweeps that are killed at chosen moments and resumed.

They must end in the parameters and logs of those that were not killed, to the bit, with no lock held.
Each is killed several times in a row; a full disk is a limit on the size of files.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.torture.moments import IN_RESUME, MOMENTS
from tests.torture.parts import Budget, Row

KILLS = 220
IN_A_ROW = 6
"""Kills of one run."""
SIGNALS = ["KILL"] * 5 + ["TERM", "TERM", "HUP", "STOP", "FULL", "FULL"]
PATIENCE = 240.0
"""Seconds for which a process may take to end."""
SMALL = [
    "--preset", "none", "--hidden", 8, 8, "--batch-size", 16, "--steps", 120, "--log-every", 5,
    "--eval-every", 40, "--eval-episodes", 1, "--final-episodes", 1, "--checkpoint-minutes", 0,
]  # fmt: skip


class Kind(NamedTuple):
    """What is trained."""

    words: list[Any]
    resume: list[Any]
    runs: Sequence[str]
    """Folders below its own; "" is that itself."""


KINDS = {
    "one run": Kind(["train", "bc", *SMALL, "--run", "here"], ["resume", "here"], [""]),
    "a run of msg": Kind(
        ["train", "msg", *SMALL, "--members", 2, "--warmup-steps", 20, "--run", "here"],
        ["resume", "here"],
        [""],
    ),
    "a population": Kind(
        ["train", "bc", *SMALL, "--seeds", 0, 1, "--run", "here"],
        ["resume", "here"],
        ["seed0", "seed1"],
    ),
    "a sweep": Kind(
        ["sweep", "bc", *SMALL, "--grid", "learning-rate=1e-3,3e-4", "--jobs", 1, "--out", "here"],
        ["sweep", "here", "--jobs", 1],
        ["learning_rate0.001-seed0", "learning_rate0.0003-seed0"],
    ),
}


def run(budget: Budget, seed: int, folder: Path) -> list[Row]:
    """Kill each kind in turn, until there were as many kills as asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    data = _data(folder)
    until = time.monotonic() + 60.0 * budget.minutes
    wanted = budget.cases(KILLS)
    cases: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    by_signal: Counter[str] = Counter()
    notes: dict[str, str] = {}
    kinds = list(KINDS)[: max(1, min(len(KINDS), wanted // IN_A_ROW))]
    number = 0
    while sum(by_signal.values()) < wanted and time.monotonic() < until:
        name = kinds[number % len(kinds)]
        whole = _whole(name, folder / "whole" / name.replace(" ", "-"), data)
        place = folder / f"{number}"
        kills, problem = _killed(name, place, data, random.Random(f"{seed}/{number}"))
        problem = problem or _differs(whole / "here", place / "here", KINDS[name])
        cases[name] += 1
        by_signal.update(kills)
        if problem:
            failed[name] += 1
            notes.setdefault(name, f"{place.name} ({', '.join(kills)}): {problem}"[:400])
            print(f"{name}: {notes[name]}", file=sys.stderr)
        else:
            subprocess.run(["rm", "-rf", place], check=True)
        number += 1
    rows = [
        Row(f"{name}, killed and resumed", count, failed[name], notes.get(name, ""))
        for name, count in cases.items()
    ]
    signals = ", ".join(
        f"{name} {count}"
        for name, count in Counter(word.rsplit(" ", 1)[-1] for word in by_signal.elements()).items()
    )
    return [Row("kills", sum(by_signal.values()), 0, signals), *rows]


def _data(folder: Path) -> Path:
    from chary.data import formats
    from chary.data.collect.mazes import Job, collect_block
    from chary.data.dataset import Dataset

    path = folder / "maze.hdf5"
    if not path.exists():
        maze = collect_block(Job("pointmaze-umaze", 2_000, seed=0, block=0))
        formats.write(Dataset.from_columns(maze, name="pointmaze-umaze"), path)
    return path


def _whole(name: str, place: Path, data: Path) -> Path:
    """The same, uninterrupted."""
    if not (place / "done").exists():
        place.mkdir(parents=True, exist_ok=True)
        code, said = _process(_words(KINDS[name].words, data), place)
        assert code == 0, said
        (place / "done").touch()
    return place


def _words(words: Sequence[Any], data: Path) -> list[str]:
    begins = words[0] in ("train", "sweep") and words[1] != "here"
    return [str(word) for word in (*words, *(("--dataset", data) if begins else ()))]


def _killed(name: str, place: Path, data: Path, dice: random.Random) -> tuple[list[str], str]:
    """Begin, be killed again and again, and resume to the end; what happened, and what is wrong."""
    kind = KINDS[name]
    place.mkdir(parents=True, exist_ok=True)
    kills: list[str] = []
    for attempt in range(IN_A_ROW + 1):
        config = place / "here" / kind.runs[0] / "config.json"
        begun = config.exists() if name != "a sweep" else (place / "here" / "sweep.json").exists()
        words = _words(kind.resume if begun else kind.words, data)
        if attempt == IN_A_ROW:
            code, said = _process(words, place)
            return kills, "" if code == 0 else f"{words[0]} ends with {code}: {said[-300:]}"
        what = dice.choice(SIGNALS)
        if name == "a sweep" or dice.random() < 0.15:
            seconds = dice.uniform(0.3, 9.0)
            code, said = _process(
                words, place, after=seconds, name="KILL" if what == "FULL" else what
            )
            kills.append(f"{seconds:.1f} s {what}")
        else:
            moment = dice.choice(sorted(MOMENTS if begun else MOMENTS.keys() - IN_RESUME))
            # Early and late ones; what does not come so often is not reached, and the run ends.
            count = dice.choice([1, 1, 2, 3, 5, 8, 12])
            code, said = _process(words, place, at=(moment, count, what), name=what)
            kills.append(f"{moment} {count} {what}")
        if "Traceback" in said or code not in (0, 2, 130, -9, -1, -15):
            return kills, f"{kills[-1]}: ends with {code}: {said[-400:]}"
        if code == 2 and what != "FULL":
            return kills, f"{kills[-1]}: refused: {said[-300:]}"
    raise AssertionError


def _process(
    words: Sequence[str],
    place: Path,
    *,
    at: tuple[str, int, str] | None = None,
    after: float | None = None,
    name: str = "",
) -> tuple[int, str]:
    """Run a command, with a signal at a moment or after so many seconds; its exit code and words."""
    program = ["-m", "tests.torture.moments", *map(str, at)] if at else ["-m", "chary"]
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, *program, *words],
        stdout=subprocess.PIPE,  # not a file: the disk may be full
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        cwd=place,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert process.stdout is not None
    said: list[bytes] = []
    reader = threading.Thread(target=lambda: said.extend(process.stdout or ()), daemon=True)
    reader.start()
    began, woken, sent = time.monotonic(), 0.0, False
    while process.poll() is None:
        now = time.monotonic()
        if after is not None and not sent and now - began > after:
            process.send_signal(signal.Signals[f"SIG{name}"])
            sent = True
        if name == "STOP" and now - woken > 0.5:  # it sleeps, and wakes again
            process.send_signal(signal.SIGCONT)
            woken = now
        if now - began > PATIENCE:
            process.kill()
            process.wait()
            return 99, "it did not end"
        time.sleep(0.02)
    reader.join(5.0)
    process.stdout.close()
    return process.returncode, b"".join(said).decode(errors="replace")


def _differs(whole: Path, cut: Path, kind: Kind) -> str:
    """In what a run that was killed is not the one that was not."""
    import jax
    import numpy as np

    import chary
    from chary.runs.claims import claimed

    for name in kind.runs:
        one, other = whole / name, cut / name
        for log in ("metrics", "evals"):
            if (one / f"{log}.jsonl").read_bytes() != (other / f"{log}.jsonl").read_bytes():
                return f"{log}.jsonl of {name or 'the run'} differs"
        files = [sorted(p.name for p in (run / "diagnostics").iterdir()) for run in (one, other)]
        if files[0] != files[1]:
            return f"diagnostics are {files[1]}, not {files[0]}"
        for file in files[0]:
            with (
                np.load(one / "diagnostics" / file) as a,
                np.load(other / "diagnostics" / file) as b,
            ):
                if any(a[key].tobytes() != b[key].tobytes() for key in a.files):
                    return f"diagnostics/{file} differs"
        states = [jax.tree.leaves(chary.open_run(run).state) for run in (one, other)]
        pairs = zip(*states, strict=True)
        if any(np.asarray(a).tobytes() != np.asarray(b).tobytes() for a, b in pairs):
            return f"parameters of {name or 'the run'} differ"
        with claimed(other):  # no lock is stuck
            pass
    return ""
