"""What this machine is: recorded with every run, because bits depend on it."""

import ctypes
import os
import platform
import shlex
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from chary.version import __version__

M_ARENA_MAX, HEAPS = -8, 2
"""Of the GNU C library: the setting's number, and its value."""
RECORDED = ("jax", "jaxlib", "numpy", "equinox", "optax", "orbax-checkpoint", "gymnasium", "mujoco")


def layout() -> dict[str, Any]:
    """The hardware a program runs on, and how it is laid out there."""
    import jax

    devices = jax.devices()
    facts: dict[str, Any] = {
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "threads": cores(),
        "backend": jax.default_backend(),
        "devices": len(devices),
        "device": devices[0].device_kind,
    }
    return facts | ({"processes": jax.process_count()} if jax.process_count() > 1 else {})


def cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_name() -> str:
    """The processor's own name for itself."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cpu_features() -> str:
    """The processor's name and the instructions it knows, as far as the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    flags = [line for line in lines if line.startswith(("flags", "Features"))]
    return f"{cpu_name()} {flags[0] if flags else platform.machine()}"


def cache_folder() -> Path:
    """Where chary keeps what can be made again: CHARY_CACHE, or the platform's cache folder."""
    import platformdirs

    return Path(os.environ.get("CHARY_CACHE") or platformdirs.user_cache_dir("chary"))


def state_folder() -> Path:
    """Where chary keeps what it knows of its user: CHARY_STATE, or the platform's state folder."""
    import platformdirs

    return Path(os.environ.get("CHARY_STATE") or platformdirs.user_state_dir("chary"))


def available_memory() -> float:
    """Bytes that a program may still take: of the accelerator, or of this machine and container."""
    import jax

    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return float(stats["bytes_limit"] - stats["bytes_in_use"])
    return host_memory()


def host_memory() -> float:
    """Bytes that this process may still take of this machine and container."""
    found = [float("inf")]
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                found.append(1024.0 * int(line.split()[1]))
        limit = (Path("/sys/fs/cgroup") / "memory.max").read_text().strip()
        if limit != "max":
            used = (Path("/sys/fs/cgroup") / "memory.current").read_text()
            found.append(float(limit) - float(used))
    except OSError:  # not every system has these files
        pass
    if len(found) == 1 and hasattr(os, "sysconf"):
        found.append(float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))
    return max(0.0, min(*found, _left_by_limit()))


def _left_by_limit() -> float:
    """Bytes of address space that `ulimit -v` leaves this process."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit == resource.RLIM_INFINITY:
            return float("inf")
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return float("inf")
    return limit - float(pages * os.sysconf("SC_PAGE_SIZE"))


def share_heaps() -> None:
    """Let all threads take memory from a few heaps. The C library would give threads heaps of their own,
    and what checkpoints and evaluations return to one of them is not used by another. A no-op where the
    library has no such setting, or after its threads have begun."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, HEAPS)


def give_back_memory() -> None:
    """Return to the system what the heaps hold without need."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def memory_in_use() -> float:
    """The most bytes that this process has held so far: of the accelerator, or of this machine; 0 where
    the system does not say."""
    import jax

    stats = jax.local_devices()[0].memory_stats()
    if stats and "peak_bytes_in_use" in stats:
        return float(stats["peak_bytes_in_use"])
    try:
        import resource
    except ImportError:
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else 1024 * peak)


@cache
def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    found = {"python": platform.python_version()}
    for name in RECORDED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found


@cache  # of the code that was loaded, whatever is changed afterwards
def source() -> dict[str, Any] | None:
    """The commit of chary's own code and whether it was changed since; None where it is no checkout."""
    package = Path(__file__).parents[1]
    if not (package.parent / ".git").exists():
        return None
    try:
        commit, changed = (
            subprocess.run(
                ["git", "-C", str(package), *words],
                capture_output=True,
                text=True,
                check=True,
                timeout=20,
            ).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--", "."])
        )
    except (OSError, subprocess.SubprocessError):  # no git, or a folder that it does not trust
        return None
    return {"commit": commit, "clean": not changed}


def program() -> str:
    """The program in words: its version, and where it is a checkout its commit."""
    found = source()
    if found is None:
        return f"chary {__version__}"
    changed = "" if found["clean"] else ", with changes"
    return f"chary {__version__}, commit {found['commit'][:7]}{changed}"


def command_line() -> str:
    """The command that is running, as a user would type it: where the program lies is left out, but for
    a script's place below the current folder."""
    program = Path(sys.argv[0])
    module = getattr(sys.modules["__main__"], "__spec__", None)
    if program.name == "__main__.py":
        words = ["chary"]
    elif module is not None and program == Path(module.origin or ""):
        words = ["python", "-m", module.name]
    elif program.suffix == ".py":
        place, here = program.absolute(), Path.cwd()
        words = ["python", str(place.relative_to(here)) if here in place.parents else place.name]
    else:
        words = [program.name]
    return shlex.join([*words, *sys.argv[1:]])
