"""How many members at a time are fastest on this machine: measured once, and remembered.

The answer changes speed and memory only. It is written into a run's config, because it may change the
last bits: a run that goes on elsewhere keeps it.
"""

import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from chary.algos.msg import make_msg
from chary.algos.msg_config import MSGConfig
from chary.chunk import compile_chunk, compiler_options, initial_carry, trace_update
from chary.devices import counted
from chary.ensembles import make_ensemble
from chary.machine import cache_folder, cores, cpu_name, versions
from chary.progress import say
from chary.types import Batch

FITS_IN_CACHE = 32 * 2**20
"""Bytes below which there is nothing to gain: all members stay in a processor's cache anyway."""
MOST = 8
"""Windows of more members than this were never faster than the whole."""
WINDOW_SECONDS = 0.5


def fastest_chunk(config: MSGConfig, observation_size: int, action_size: int) -> int:
    """Members to update at a time, of those on a device."""
    each = config.members // counted(config.devices)
    config = replace(config, members=each, devices=1)
    shape = config.shape(observation_size, action_size)
    if (
        jax.default_backend() != "cpu"
        or not make_ensemble(config.ensemble, shape).in_windows
        or working_set(config, observation_size, action_size) <= FITS_IN_CACHE
    ):
        return config.members
    divisors = [n for n in range(1, MOST + 1) if config.members % n == 0]
    remembered = cache_folder() / "chunks.json"
    known, name = _read(remembered), _name(config, observation_size, action_size)
    if known.get(name) not in (*divisors, config.members):
        say("measuring how many members at a time are fastest on this machine (once)")
        chunks = sorted({*divisors, config.members})
        seconds = _seconds(config, chunks, observation_size, action_size)
        known[name] = min(chunks, key=seconds.__getitem__)
        _write(remembered, known)
    return known[name]


def working_set(config: MSGConfig, observation_size: int, action_size: int) -> int:
    """Bytes that an update of all members goes through: four sets of parameters, and activations."""
    shape = config.shape(observation_size, action_size)
    ensemble = make_ensemble(config.ensemble, shape)
    parameters = jax.eval_shape(ensemble.init, jax.random.key(0))
    numbers = sum(leaf.size for leaf in jax.tree.leaves(parameters))
    # Logged and policy actions together, and those of H where each member has its own.
    kinds = 3 if config.alpha and config.regulariser_samples == "own" else 2
    rows = kinds * config.batch_size * config.members * shape.heads
    return 4 * (4 * numbers + 2 * rows * sum(config.hidden))


def _seconds(
    config: MSGConfig, chunks: Sequence[int], observation_size: int, action_size: int
) -> dict[int, float]:
    """What an update takes with so many members at a time, in the best of three windows.

    All take turns, so that a machine that changes speed is fair to them, and go on with one state.
    """
    sizes, size = (observation_size, action_size), config.batch_size
    algorithms = {chunk: make_msg(replace(config, chunk=chunk), *sizes) for chunk in chunks}
    carry = initial_carry(algorithms[chunks[0]], size, *sizes, seed=0)
    numbers = jnp.zeros(size)
    observations, actions = jnp.zeros((size, observation_size)), jnp.zeros((size, action_size))
    data = Batch(observations, actions, numbers, numbers, observations)
    programs = {chunk: compile_chunk(made, size) for chunk, made in algorithms.items()}
    best, steps = dict.fromkeys(chunks, float("inf")), dict.fromkeys(chunks, 1)
    key = jax.random.key(0)
    for _ in range(5):  # the first compiles, the second finds out how many steps a window has
        for chunk, program in programs.items():
            began = time.perf_counter()
            carry = jax.block_until_ready(program(carry, data, 0, steps[chunk], key))
            spent = (time.perf_counter() - began) / steps[chunk]
            best[chunk] = min(best[chunk], spent)
            steps[chunk] = max(1, round(WINDOW_SECONDS / spent))
    return best


def _name(config: MSGConfig, observation_size: int, action_size: int) -> str:
    """Everything that the answer may depend on: the machine, the compiler, and the update's own text, in
    windows, which tells of every setting that matters and of every change to the code."""
    # How long the warm-up is stands in the text too, and changes no time.
    config = replace(config, chunk=1, warmup_steps=0)
    algorithm = make_msg(config, observation_size, action_size)
    update = trace_update(algorithm, config.batch_size, observation_size, action_size)
    facts: dict[str, Any] = {
        "cpu": cpu_name(),
        "cores": cores(),
        "jax": versions()["jaxlib"],
        "options": compiler_options(),
        "update": hashlib.sha256(update.lower().as_text().encode()).hexdigest(),
    }
    return json.dumps(facts, sort_keys=True)


def _read(path: Path) -> dict[str, Any]:
    """What is remembered; a file that is missing or damaged is nothing."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, known: dict[str, Any]) -> None:
    """Keep it if possible: a machine without a place for it measures again."""
    temporary = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(known, indent=1) + "\n")
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
