"""Checkpoints: Orbax writes the arrays, a manifest of SHA-256 sums guards them.

A checkpoint is written under another name and renamed when it is whole, so a folder with a step for a
name is complete. On restore every byte is checked against the manifest before anything is used.
"""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from chary.errors import CharyError, reason
from chary.host.files import read_json

MANIFEST = "manifest.json"
UNFINISHED = ".saving-"
LATER = (".sums[", ".state.hyper.")
"""Where a version of chary may have more than the one that wrote a checkpoint."""

State = TypeVar("State")
# JAX is imported where it is needed: who only reads logs does not wait for it.
PyTree: TypeAlias = Any
Leaves: TypeAlias = dict[str, Any]
"""Arrays by their place in the tree."""


class DamagedCheckpointError(Exception):
    """A checkpoint whose files are not what was written."""


def steps(folder: Path) -> list[int]:
    """Steps that have a complete checkpoint, oldest first."""
    if not folder.is_dir():
        return []
    return sorted(int(entry.name) for entry in folder.iterdir() if is_step(entry.name))


def is_step(name: str) -> bool:
    """Whether a file or folder has a step for a name."""
    return name.isascii() and name.isdecimal()


def save(folder: Path, step: int, tree: PyTree, *, again: str | None = None) -> None:
    """Write the checkpoint of a step, whole or not at all; one that is there stays.

    `again` says how to continue after a failure, where that is not `chary resume`.
    """
    final = folder / str(step)
    if final.exists():
        return
    temporary = folder / f"{UNFINISHED}{step}"
    try:
        _remove(temporary)
        temporary.mkdir(parents=True)
        leaves = _named_leaves(tree)
        _reserve(temporary, sum(leaf.nbytes for leaf in leaves.values()))
        _orbax_save(temporary / "arrays", leaves)
        sums = json.dumps(_sums(temporary), indent=1)
        (temporary / MANIFEST).write_text(sums)
        _flush_to_disk(temporary)
        os.replace(temporary, final)
    # Orbax and its storage library report a full disk as one of these.
    except (OSError, ValueError, RuntimeError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise CharyError(
            f"{final}: the checkpoint could not be written ({reason(error)}). Earlier checkpoints are "
            "intact: make room or repair the folder, then "
            f"{again or f'`chary resume {folder.parent}`'}."
        ) from error


def restore(folder: Path, step: int, like: State) -> State:
    """The state saved at a step, in the structure of `like`; raises DamagedCheckpointError."""
    import jax

    path = folder / str(step)
    try:
        expected = read_json(path / MANIFEST)
        found = _sums(path)
    except (OSError, ValueError) as error:
        raise DamagedCheckpointError(reason(error)) from error
    if not isinstance(expected, dict):
        raise DamagedCheckpointError(f"{MANIFEST} is not what was saved")
    if found != expected:
        names = sorted(
            name for name in expected.keys() | found if expected.get(name) != found.get(name)
        )
        raise DamagedCheckpointError(f"{names[0]} is not what was saved")
    leaves = _named_leaves(like)
    try:
        stored = _stored_names(path / "arrays")
        # A sum of a metric, or a setting, that is newer than the checkpoint begins as it would anew.
        newer = {n: x for n, x in leaves.items() if n not in stored and n.startswith(LATER)}
        kept = {n: x for n, x in leaves.items() if n not in newer}
        restored = _orbax_restore(path / "arrays", kept) | newer
    except Exception as error:  # Orbax, its storage library and JAX have errors of their own
        raise DamagedCheckpointError(reason(error)) from error
    structure = jax.tree.structure(like)
    return jax.tree.unflatten(structure, [restored[name] for name in leaves])


def prune(folder: Path, keep: set[int]) -> None:
    """Remove all checkpoints but those of the given steps, and what a crash left half-written."""
    for step in set(steps(folder)) - keep:
        path = folder / str(step)
        if not any((path / part).exists() for part in (MANIFEST, "arrays")):
            os.replace(path, folder / f"no-checkpoint-{step}")  # not ours to remove
            continue
        # Renamed first: a folder that is being removed must not look complete.
        doomed = folder / f"{UNFINISHED}{step}-old"
        _remove(doomed)  # a removal that was cut short
        os.replace(path, doomed)
        _remove(doomed)
    for leftover in folder.glob(f"{UNFINISHED}*"):
        _remove(leftover)


def _remove(path: Path) -> None:
    """A folder with all that is in it, or a link to one, but not what that holds."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def _reserve(folder: Path, size: int) -> None:
    """Find out that the disk is full before Orbax does, whose threads report it at great length."""
    if not hasattr(os, "posix_fallocate"):  # not everywhere; there Orbax must speak for itself
        return
    probe = folder / "room"
    with open(probe, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size + 2**20)
    probe.unlink()


def _named_leaves(tree: PyTree) -> Leaves:
    """Leaves by their place in the tree, so that what is stored does not depend on Python types."""
    import jax

    pairs, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in pairs}


def _orbax_save(path: Path, leaves: Leaves) -> None:
    import jax
    from orbax.checkpoint.args import StandardSave

    with _checkpointer() as checkpointer, _specs_that_are_freed():
        # Of several processes one alone has whole arrays, which Orbax takes from its memory only.
        checkpointer.save(path.absolute(), args=StandardSave(jax.device_get(leaves)))


@contextmanager
def _specs_that_are_freed() -> Iterator[None]:
    """Keep a process that saves often from growing.

    TensorStore (0.1.86) never frees the words of a spec that it gives as a dictionary, and Orbax asks
    for one for every array of every save. Without OCDBT it would not, but write two files an array.
    """
    from tensorstore import KvStore

    original = KvStore.Spec.to_json

    def to_json(self: KvStore.Spec, include_defaults: bool = False) -> Any:
        if self.url.startswith("file://"):
            return {"driver": "file", "path": self.path}
        return original(self, include_defaults)

    KvStore.Spec.to_json = to_json
    try:
        yield
    finally:
        KvStore.Spec.to_json = original


def _stored_names(path: Path) -> set[str]:
    with _checkpointer() as checkpointer:
        return set(checkpointer.metadata(path.absolute()).item_metadata.tree)


def _orbax_restore(path: Path, leaves: Leaves) -> Leaves:
    import jax
    from orbax.checkpoint.args import StandardRestore

    with _checkpointer() as checkpointer:
        on_host = checkpointer.restore(
            path.absolute(), args=StandardRestore(jax.device_get(leaves))
        )
    # Bound to no device, as an initial state is: the program that was compiled for one serves both.
    return jax.device_put(on_host)


def _checkpointer() -> Any:
    """Orbax's, one that waits: its other one has time limits by the wall clock, which may jump."""
    import jax
    from orbax.checkpoint import Checkpointer, StandardCheckpointHandler
    from orbax.checkpoint.options import MultiprocessingOptions

    # Orbax reports its progress at a level meant for clusters of machines.
    logging.getLogger("absl").setLevel(logging.CRITICAL)
    if jax.process_count() == 1:
        return Checkpointer(StandardCheckpointHandler())
    # Of several processes only this one comes here, and must not wait for the others.
    alone = MultiprocessingOptions(
        primary_host=jax.process_index(), active_processes={jax.process_index()}
    )
    handler = StandardCheckpointHandler(multiprocessing_options=alone)
    return Checkpointer(handler, multiprocessing_options=alone)


def _sums(folder: Path) -> dict[str, str]:
    sums: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():  # we write none
            sums[str(path.relative_to(folder))] = "a link"
        elif path.is_file() and path.name != MANIFEST:
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256")
            sums[str(path.relative_to(folder))] = digest.hexdigest()
    return sums


def _flush_to_disk(folder: Path) -> None:
    """Make the files survive a power cut before the rename says that they are complete."""
    for path in folder.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
