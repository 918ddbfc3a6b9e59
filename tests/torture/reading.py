"""Datasets read one by one, each in a process of its own with limits, and watched.

`serve` imports everything once and forks for each dataset. The child may use a gigabyte of memory and
some seconds, write nothing and open nothing but the dataset: Python's audit hook sees what Python opens,
and inotify sees whether anybody, the C libraries too, touches the canaries that datasets lead to.
"""

import ctypes
import json
import os
import resource
import select
import signal
import struct
import subprocess
import sys
import sysconfig
import time
import traceback
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MEMORY = 2**30
"""Bytes that a child may take beyond what it begins with."""
SECONDS = 25
"""Of processor time, and of the clock, after which reading counts as hanging."""
CANARY = 8675309.5
"""The number in every canary: it must never be in a dataset."""
WORD = "canary-text-that-nobody-may-show"
OPENED = 0x20 | 0x01 | 0x02 | 0x100
"""inotify's bits for a file in a folder that is opened, read, written or made."""
FORBIDDEN = (
    "socket.", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
    "pickle.find_class", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.link",
    "os.putenv", "shutil.", "tempfile.",
)  # fmt: skip
SYSTEM = ("/proc/meminfo", "/proc/self/statm", "/sys/fs/cgroup/", "/usr/share/zoneinfo")
"""What chary asks of the machine, and Python of time zones."""


class Reader:
    """A server that reads datasets; where it dies, another takes its place."""

    def __init__(self, canaries: Path) -> None:
        self.canaries = canaries
        self.process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        program = "import sys; from tests.torture.reading import serve; serve(sys.argv[1])"
        settings = {
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            # Arrow's own allocator takes a gigabyte of address space, which is limited.
            "ARROW_DEFAULT_MEMORY_POOL": "system",
            "ARROW_IO_THREADS": "2",
            "OMP_NUM_THREADS": "2",
            "OPENBLAS_NUM_THREADS": "1",
        }
        return subprocess.Popen(
            [sys.executable, "-c", program, str(self.canaries)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | settings,
        )

    def outcome(self, path: Path, how: str = "", **options: Any) -> str:
        """`read`, `refused`, or what went wrong."""
        return self.answer(path, how, **options)["outcome"]

    def answer(self, path: Path, how: str = "", **options: Any) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        request = {"path": str(path), "how": how or path.suffix.lower(), **options}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        # Starting takes a while; the server itself keeps its children in time.
        ready, _, _ = select.select([self.process.stdout], [], [], SECONDS + 120)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        code = self.close()
        self.process = self._start()
        return {"outcome": f"the server ends with {code}", "megabytes": 0, "seconds": 0}

    def close(self) -> int:
        self.process.kill()
        self.process.communicate()
        return self.process.returncode


def serve(canaries: str) -> None:
    """Answer requests, a line of JSON each, until there are no more."""
    watch = _watch(canaries)
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", UserWarning)  # those are meant for users
    for line in sys.stdin:
        request = json.loads(line)
        with warnings.catch_warnings(action="ignore"):
            _import_all(request["how"])
        _touched(watch)  # whatever was before
        start = time.monotonic()
        outcome, megabytes = _in_a_child(request)
        if touched := _touched(watch):
            outcome = f"touches {touched}"
        seconds = round(time.monotonic() - start, 2)
        print(
            json.dumps({"outcome": outcome, "megabytes": megabytes, "seconds": seconds}), flush=True
        )


IMPORTS = {
    "": ("h5py", "chary.data.doctor", "chary.data.formats.tables"),
    "table": ("pandas", "pyarrow.compute", "pyarrow.csv", "pyarrow.parquet"),
    "record": ("tfrecord.example_pb2", "google.protobuf.message", "crc32c"),
    "minari": (
        "minari.dataset._storages", "gymnasium_robotics", "gymnasium.wrappers",
        "gymnasium.envs.classic_control.pendulum", "chary.data.sources.minari_env",
        "chary.envs.registration", "chary.envs.flatten", "chary.envs.physics",
    ),
}  # fmt: skip
USED = {".csv": "table", ".parquet": "table", ".tfrecord": "record", "rlu": "record"}


def _import_all(how: str) -> None:
    """Whatever children that read so would import, once."""
    for name in (*IMPORTS[""], *IMPORTS.get(USED.get(how, how), ())):
        import_module(name)


def _in_a_child(request: dict[str, Any]) -> tuple[str, int]:
    """What the child says, and how much memory it took beyond ours; or how it ended."""
    reading, writing = os.pipe()
    before = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    child = os.fork()
    if not child:
        os.close(reading)
        os.write(writing, _child(request).encode("utf-8", "backslashreplace")[:4000])
        os._exit(0)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], SECONDS)
    if not ready:
        os.kill(child, signal.SIGKILL)
    answer = os.read(reading, 4096).decode() if ready else f"hangs for {SECONDS} s"
    os.close(reading)
    _, status, usage = os.wait4(child, 0)
    if not answer:
        ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)
        names = {number.value: number.name for number in signal.Signals}
        answer = f"crashes with {names.get(ended, ended)}"
    return answer, max(0, 1024 * usage.ru_maxrss - before) // 2**20


def _child(request: dict[str, Any]) -> str:
    """Read a dataset under limits; everything but a dataset or one clear message is a failure."""
    from chary.errors import CharyError

    path = Path(request["path"])
    os.chdir(path.parent)
    sys.path.insert(0, str(path.parent))  # where a module is planted
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seen = _audit(path)
    try:
        shown = _read(path, request)
        outcome = "read"
    except CharyError as error:
        shown, outcome = [str(error)], "refused"
        # A table's problems are a list, each on a line of its own.
        _, *others = str(error).splitlines()
        if not all(line.startswith("  - ") for line in others):
            outcome = f"several lines: {error!r}"
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        return f"{type(error).__name__} in {where}: {error}".replace("\n", " ")[:300]
    if seen:
        return seen[0]
    for text in shown:
        if WORD in text or not all(line.isprintable() for line in text.splitlines()):
            return f"shows {text[:200]!r}"
    return outcome


def _audit(own: Path) -> list[str]:
    """A list that fills with whatever Python opens or does that reading a dataset needs not."""
    seen: list[str] = []
    stdlib = sysconfig.get_paths()
    allowed = (str(own), str(ROOT), sys.prefix, sys.base_prefix, *stdlib.values(), *SYSTEM)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            name, mode, flags = arguments
            if isinstance(name, int):
                return
            name = os.fsdecode(name)
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) or set(mode or "") & set("wax+")
            sound = name in SYSTEM or os.path.realpath(name).startswith(allowed)
            if writes or not sound:
                seen.append(f"opens {name}{' to write' if writes else ''}")
        elif event.startswith(FORBIDDEN) or (event == "import" and arguments[0] == "planted"):
            seen.append(f"{event} {str(arguments)[:100]}")

    sys.addaudithook(hook)
    return seen


def _read(path: Path, request: dict[str, Any]) -> list[str]:
    """Read as the commands do that take such a dataset, and give all words that they could show."""
    import numpy as np

    from chary.data import doctor, formats, load
    from chary.data.formats import tables, tfrecord
    from chary.data.tasks import find_task
    from chary.errors import CharyError

    how, name = request["how"], request.get("name", "")
    if how == "leak":  # a reader that does what it must not, to see that it is seen
        exec(request["program"])
        return []
    if how == ".tfrecord":
        arrays = [array for record in tfrecord.read(path) for array in record.values()]
        _check_numbers(arrays)
        return []
    if how in (".csv", ".parquet", "table"):
        told: list[str] = []
        given: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in request["layout"].items()
        }
        layout = tables.Layout(**given)
        reading = tables.Reading(**request.get("reading", {}))
        imported = tables.read_tables([path], layout, reading, tell=told.append)
        _check_numbers(imported.columns.values())
        return told
    try:
        dataset = load(name, data_file=path) if name else load(path)
        refused = None
        _check_numbers([dataset.observations, dataset.rewards, dataset.actions])
    except CharyError as error:
        dataset, refused = None, error
    words = []
    if name.startswith("minari:"):
        find_task(name)
    elif not name and path.suffix.lower() in formats.FORMATS:
        try:
            findings = doctor.check(path)
            words += [finding.message for finding in findings]
            explained = any(finding.severity == "error" for finding in findings)
        except CharyError as error:
            explained = bool(words.append(str(error)) or True)
        if refused is not None and not explained:
            raise AssertionError("refused, but the doctor sees nothing")
    if refused is not None:
        raise refused
    assert dataset is not None
    texts = (dataset.name, *dataset.metadata, *dataset.observation_names, *dataset.action_names)
    assert np.isfinite(dataset.rewards).all()
    return [*words, *texts, *dataset.metadata.values()]


def _check_numbers(arrays: Any) -> None:
    import numpy as np

    for array in arrays:
        if array.dtype.kind in "iuf" and np.isclose(np.ravel(array)[:1000], CANARY).any():
            raise AssertionError("the canary's number is in the dataset")


def _watch(folder: str) -> int:
    """An inotify that sees every file in the folder being touched, by whomever."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    if watch < 0 or libc.inotify_add_watch(watch, os.fsencode(folder), OPENED) < 0:
        raise OSError(ctypes.get_errno(), "inotify")
    return watch


def _touched(watch: int) -> str:
    """Names of the canaries that were touched since it was last asked."""
    names = []
    try:
        while events := os.read(watch, 2**16):
            while events:
                *_, length = struct.unpack_from("iIII", events)
                names.append(os.fsdecode(events[16 : 16 + length].rstrip(b"\0")) or "the folder")
                events = events[16 + length :]
    except BlockingIOError:
        pass
    return ", ".join(sorted(set(names)))
