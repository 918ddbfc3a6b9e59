"""Programs that were compiled before: JAX's own persistent cache, in chary's cache folder.

Settings of JAX that are the user's, in the environment or in `jax.config`, come first:
JAX_COMPILATION_CACHE_DIR names another folder, JAX_ENABLE_COMPILATION_CACHE=false does without.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

import filelock
import jax

from chary.host.machine import cache_folder, cpu_features

SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,  # small programs too: there are a dozen
    "jax_persistent_cache_min_entry_size_bytes": -1,
    "jax_compilation_cache_max_size": 2 * 2**30,  # what was used longest ago makes room
}


def keep_compiled() -> None:
    """From now on, take programs from the cache and leave new ones there."""
    config: Any = jax.config  # whose settings no type checker can see
    if config.jax_compilation_cache_dir or not config.jax_enable_compilation_cache:
        return
    # Programs for one kind of processor may not run on another that shares the folder.
    kind = hashlib.sha256(cpu_features().encode()).hexdigest()[:12]
    folder = cache_folder() / "compiled" / kind
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _tidy(folder)
    except (OSError, filelock.Timeout):  # no cache is no reason not to train
        return
    config.update("jax_compilation_cache_dir", str(folder))
    for name, value in SETTINGS.items():
        if name.upper() not in os.environ:
            config.update(name, value)


def _tidy(folder: Path) -> None:
    """Remove entries that a killed process left half-written, of which JAX would complain ever after.

    JAX writes the time of use after the entry itself, so an entry without one is not whole.
    """
    with filelock.FileLock(folder / ".lockfile", timeout=10):  # JAX's own lock
        for entry in folder.glob("*-cache"):
            if not entry.with_name(f"{entry.name.removesuffix('-cache')}-atime").exists():
                entry.unlink()
