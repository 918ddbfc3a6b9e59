"""A run's folder for one process at a time."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from chary.errors import CharyError
from chary.runs.folder import NAMES, RunFolder


@contextmanager
def claimed(path: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Hold a run's folder for one process; the lock dies with the process. If another holds it, that is
    waited for, so many seconds.

    The folder is made for it, and removed again if no run was made in it.
    """
    import filelock

    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        if path.exists() and not path.is_dir():
            raise CharyError(f"{path}: is a file; a run needs a folder of its own.")
        path.mkdir(parents=True, exist_ok=True)
        for name in (".lock", *sorted(NAMES - {"checkpoints"})):
            if (path / name).is_symlink():
                raise CharyError(
                    f"{path / name}: is a link. A run writes only into its own folder; put what it "
                    "points to in its place. (Only checkpoints may be a link, to another disk.)"
                )
        lock = filelock.FileLock(path / ".lock")
        lock.acquire(timeout=patience)
        # A run that was killed as it began has only its lock and a config that was not whole yet.
        own = (".lock", ".config-", ".config.json", ".start", "start.npz")
        foreign = any(not entry.name.startswith(own) for entry in path.iterdir())
        if foreign and not RunFolder.exists(path):
            lock.release()
            (path / ".lock").unlink(missing_ok=True)
            raise CharyError(
                f"{path}: holds other files but no run (no config.json). Choose another --run."
            )
    except filelock.Timeout:
        raise CharyError(
            f"{path}: in use by another process. Wait for it, stop it, or choose another --run."
        ) from None
    except OSError as error:
        raise CharyError(f"{path}: cannot be used: {error.strerror or error}.") from error
    try:
        yield
    finally:
        lock.release()
        if made and not RunFolder.exists(path):
            (path / ".lock").unlink(missing_ok=True)
            for folder in made:
                with suppress(OSError):  # others may have put something there
                    folder.rmdir()
