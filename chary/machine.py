"""What this machine is: recorded with every run, because bits depend on it."""

import os
import platform
import shlex
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RECORDED = ("jax", "jaxlib", "numpy", "equinox", "optax", "orbax-checkpoint", "gymnasium", "mujoco")


def layout() -> dict[str, Any]:
    """The hardware a program runs on, and how it is laid out there."""
    import jax

    devices = jax.devices()
    return {
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "threads": cores(),
        "backend": jax.default_backend(),
        "devices": len(devices),
        "device": devices[0].device_kind,
    }


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


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    found = {"python": platform.python_version()}
    for name in RECORDED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found


def command_line() -> str:
    """The command that is running, as a user would type it."""
    program = Path(sys.argv[0]).name
    return shlex.join(["chary" if program == "__main__.py" else program, *sys.argv[1:]])
