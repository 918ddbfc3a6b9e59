"""Part (a): runs, populations, sweeps and fine-tuning that are killed at chosen moments and resumed.

They must end in the parameters and logs of those that were not killed, to the bit, with no lock held.
Each is killed several times in a row; a full disk is a limit on the size of files. A kill counts only if
it came: the signal ended, stopped or interrupted the process, or the disk was full when it wrote.
"""

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.torture.forks import Ended, Work, forked, warm
from tests.torture.moments import IN_RESUME, MOMENTS, ONLINE, signalled
from tests.torture.parts import Budget, Case, Check

MAIN, WANTED, LANES = "kills", 220, 2
IN_A_ROW = 6
"""Kills of one run."""
SIGNALS = ["KILL"] * 5 + ["TERM", "TERM", "HUP", "STOP", "FULL", "FULL"]
STOPPED = (130, -15, -1)
"""How a run ends that was asked to: saved, or by the signal before there was anything to save."""
QUICK = [
    "--log-every", 5, "--eval-every", 20, "--eval-episodes", 1, "--final-episodes", 1,
    "--checkpoint-minutes", 0,
]  # fmt: skip
SMALL = ["--preset", "none", "--hidden", 8, 8, "--batch-size", 16, "--steps", 60, *QUICK]
ACTING = ["--steps", 60, "--warmup", 10, "--environments", 5, "--candidates", 2, *QUICK]
GRID = "learning-rate=1e-3,3e-4"
CELLS = ["learning_rate0.001-seed0", "learning_rate0.0003-seed0"]


class Kind(NamedTuple):
    """What is trained."""

    words: list[Any]
    resume: list[Any]
    runs: Sequence[str]
    """Folders below its own; "" is that itself."""
    begun: str = "config.json"
    """The file below its folder that says that there is something to resume."""
    moments: Sequence[str] = tuple(sorted(MOMENTS))
    cells: Sequence[list[Any]] = ()
    """Workers of a sweep, which reach the moments; the sweep itself is killed by the clock."""


WALK = "tests.online.walk:make"
"""A task whose episodes take seven steps, so that several end."""
DATA = ["--dataset", "../maze.hdf5"]
RESUME = ["resume", "here"]
KINDS = {
    "one run": Kind(["train", "bc", *SMALL, *DATA, "--run", "here"], RESUME, [""]),
    "a run of msg": Kind(
        ["train", "msg", *SMALL, *DATA, "--members", 2, "--warmup-steps", 20, "--run", "here"],
        RESUME,
        [""],
    ),
    "a population": Kind(
        ["train", "bc", *SMALL, *DATA, "--population", GRID, "--run", "here"],
        RESUME,
        CELLS,
        f"{CELLS[0]}/config.json",
    ),
    "a sweep": Kind(
        ["sweep", "bc", *SMALL, *DATA, "--grid", GRID, "--jobs", 1, "--out", "here"],
        ["sweep", "here", "--jobs", 1],
        [cell.replace("_", "-") for cell in CELLS],
        "sweep.json",
        cells=[["sweep", "here", "--cell", 0], ["sweep", "here", "--cell", 1]],
    ),
    "fine-tuning": Kind(
        ["finetune", "../parent", *ACTING, "--env", WALK, "--run", "here"],
        [*RESUME, "--trust-code", WALK],
        [""],
        moments=tuple(sorted({**MOMENTS, **ONLINE})),
    ),
}
PARENT = [
    "train", "td3-bc", *SMALL, "--dataset", "../walk.npz", "--env", WALK, "--run", "../parent",
]  # fmt: skip


@contextmanager
def torture(budget: Budget, seed: int, folder: Path) -> Iterator[Case]:
    """Each kind in turn. Those that nothing happens to are made first."""
    del budget
    warm()
    _make(folder)

    def case(number: int) -> list[Check]:
        name = list(KINDS)[(number // LANES) % len(KINDS)]
        place = folder / f"{number}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        checks, problem = _killed(name, place, random.Random(f"{seed}/{number}"))
        problem = problem or _compared(folder / name, place, name)
        if not problem:
            shutil.rmtree(place)
        elif checks:  # the last kill before it is what went wrong
            checks[-1] = checks[-1]._replace(problem=problem)
        return [*checks, Check(f"{name}, killed and resumed", "", problem)]

    yield case


def _make(folder: Path) -> None:
    """The data, a run to fine-tune, and one of each kind that is not interrupted."""
    for name, work in {"data": _data, "parent": _chary(PARENT)}.items():
        (folder / "making").mkdir(exist_ok=True)
        if not (folder / f"{name}.made").exists():
            _expect(forked(work, folder / "making"))
            (folder / f"{name}.made").touch()
    for name, kind in KINDS.items():
        if not (folder / f"{name}.made").exists():
            shutil.rmtree(folder / name, ignore_errors=True)
            (folder / name).mkdir()
            _expect(forked(_chary(kind.words), folder / name))
            (folder / f"{name}.made").touch()


def _expect(ended: Ended) -> None:
    if ended.code:
        raise RuntimeError(f"exit code {ended.code}: {ended.said[-2000:]}")


def _data(_: object) -> int:
    from chary.data import formats
    from chary.data.collect.mazes import Job, collect_block
    from chary.data.dataset import Dataset
    from tests.conftest import make_columns

    maze = collect_block(Job("pointmaze-umaze", 2_000, seed=0, block=0))
    formats.write(Dataset.from_columns(maze, name="pointmaze-umaze"), Path("../maze.hdf5"))
    formats.write(Dataset.from_columns(make_columns(), name="walk"), Path("../walk.npz"))
    return 0


def _chary(words: Sequence[Any], moment: str = "", number: int = 1, name: str = "KILL") -> Work:
    """A command; to its process something happens when it reaches a moment for the so manieth time."""

    def work(reached: Callable[[], object]) -> int:
        from chary.cli import main

        def act() -> None:
            reached()
            signalled(name)()

        if moment:
            {**MOMENTS, **ONLINE}[moment].reach(act, number)
        return main([str(word) for word in words])

    return work


def _killed(name: str, place: Path, dice: random.Random) -> tuple[list[Check], str]:
    """Begin, be killed again and again, and resume to the end; what happened, and what is wrong."""
    kind, checks = KINDS[name], list[Check]()
    while True:
        begun = (place / "here" / kind.begun).exists()
        words = kind.resume if begun else kind.words
        if len(checks) >= IN_A_ROW:
            ended = forked(_chary(words), place)
            return checks, _wrong(ended, "") if ended.code else ""
        signal, clock = dice.choice(SIGNALS), None
        if begun and kind.cells and dice.random() < 0.6:
            words = dice.choice(kind.cells)
        elif kind.cells or dice.random() < 0.1:
            clock = (dice.uniform(0.2, 4.0), "KILL" if signal == "FULL" else signal)
        if clock is not None:
            seconds, signal = clock
            what = f"{signal} after {seconds:.1f} s"
            ended = forked(_chary(words), place, after=clock)
        else:
            moment = dice.choice([m for m in kind.moments if begun or m not in IN_RESUME])
            count = dice.choice([1, 1, 1, 2, 2, 3, 5])  # early and late ones
            what = f"{signal}, {moment} {count}"
            ended = forked(_chary(words, moment, count, signal), place)
        checks.append(_kill(signal, what, ended))
        if checks[-1].problem:
            return checks, checks[-1].problem
        if ended.code == 0 and not kind.cells:  # to its end
            return checks, ""


def _kill(signal: str, what: str, ended: Ended) -> Check:
    came = {
        "KILL": ended.code == -9,
        "STOP": ended.slept,
        "FULL": ended.reached and ended.code == 2,
    }.get(signal, ended.reached and ended.code in STOPPED)
    problem = _wrong(ended, signal)
    return Check(MAIN, signal, problem and f"{what}: {problem}", came)


def _wrong(ended: Ended, signal: str) -> str:
    """What is wrong with how a process ended."""
    fine = {0} | {"KILL": {-9}, "FULL": {2}, "STOP": set()}.get(
        signal, set(STOPPED) if signal else set()
    )
    if "Traceback" in ended.said or ended.code not in fine:
        return f"ends with {ended.code}: {ended.said[-300:]}"
    return ""


def _compared(whole: Path, place: Path, name: str) -> str:
    """In what a run that was killed is not the one that was not; found in a process that may use JAX."""

    def work(_: object) -> int:
        print("DIFFERS", _differs(whole / "here", place / "here", KINDS[name]))
        return 0

    ended = forked(work, place)
    if ended.code or "DIFFERS" not in ended.said:
        return f"cannot be compared: {ended.said[-150:]}"
    return ended.said.rpartition("DIFFERS")[2].strip()


def _differs(whole: Path, cut: Path, kind: Kind) -> str:
    import jax
    import numpy as np

    import chary
    from chary.runs.claims import claimed

    for name in kind.runs:
        one, other = whole / name, cut / name
        for log in ("metrics", "evals", *(["episodes"] if (one / "online").exists() else [])):
            lines = [(run / f"{log}.jsonl").read_bytes().splitlines() for run in (one, other)]
            if lines[0] != lines[1]:
                lost = len(set(lines[0]) - set(lines[1]))
                return f"{log}.jsonl of {name or 'the run'} differs: {lost} lines are lost"
        kept = [
            [
                f"{below}/{step}.npz"
                for below in ("diagnostics", "online")
                for step in sorted(int(path.stem) for path in run.glob(f"{below}/*.npz"))
            ]
            for run in (one, other)
        ]
        rows: list[dict[str, bytes]] = [{}, {}]
        for run, names, found in zip((one, other), kept, rows, strict=True):
            for file in names:
                with np.load(run / file) as arrays:
                    # Rows are written at checkpoints, of which a run that was killed has others.
                    place = "online" if file.startswith("online") else file
                    for key in arrays.files:
                        label = f"{place}/{key}"
                        found[label] = found.get(label, b"") + arrays[key].tobytes()
        if differing := sorted(
            k for k in {**rows[0], **rows[1]} if rows[0].get(k) != rows[1].get(k)
        ):
            return f"{differing[0]} differs"
        states = [jax.tree.leaves(chary.open_run(run).state) for run in (one, other)]
        pairs = zip(*states, strict=True)
        if any(np.asarray(a).tobytes() != np.asarray(b).tobytes() for a, b in pairs):
            return f"parameters of {name or 'the run'} differ"
        with claimed(other):  # no lock is stuck
            pass
    return ""
