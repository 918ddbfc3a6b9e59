"""Iterations that survive an interruption: the same call resumes, and ends in the same bits."""

import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import jax

from chary.errors import CharyError
from chary.host.parts import check_settings, locked
from chary.runs import checkpoints

State = TypeVar("State")


def iterate(
    folder: Path,
    settings: Mapping[str, Any],
    state: State,
    iteration: Callable[[State], State],
    total: int,
    *,
    minutes: float,
    advance: Callable[[int], None],
) -> State:
    """The state after `total` iterations from `state`, which is what the seed gives.

    The state is saved below `folder` every so many minutes and at the end, and read back from there
    when the settings are the same. `advance` counts iterations that are done.
    """
    with locked(folder, work="experiment"):
        check_settings(folder, settings, work="experiment")
        store = folder / "checkpoints"
        done, state = _restore(store, state)
        advance(done)
        saved = time.monotonic()
        while done < total:
            state = jax.block_until_ready(iteration(state))
            done += 1
            if done == total or time.monotonic() - saved >= 60.0 * minutes:
                checkpoints.save(store, done, state, again="run the same command again")
                checkpoints.prune(store, set(checkpoints.steps(store)[-2:]))
                saved = time.monotonic()
            advance(1)
    return state


def _restore(store: Path, state: State) -> tuple[int, State]:
    """The newest sound checkpoint, or the beginning."""
    damage = ""
    for step in checkpoints.steps(store)[::-1]:
        try:
            restored = checkpoints.restore(store, step, state)
        except checkpoints.DamagedCheckpointError as error:
            damage = f"{store / str(step)}: damaged ({error})."
            continue
        if damage:
            warnings.warn(f"{damage} Resuming from iteration {step}.", stacklevel=2)
            checkpoints.prune(store, {s for s in checkpoints.steps(store) if s <= step})
        return step, restored
    if damage:
        raise CharyError(f"{damage} Delete {store.parent} to start again.")
    return 0, state
