"""Downloading, which happens only when it is asked for: resumable, checked, and whole or not at all."""

import os
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from chary.errors import CharyError
from chary.host.terminal import progress_bar

CHUNK = 2**20
PATIENCE = 60.0
"""Seconds without a byte after which the server is given up."""
GO_ON = "What has arrived is kept: run the same command again to resume."


def download_file(url: str, target: Path, *, signature: bytes = b"") -> Path:
    """Download to `target`, resuming an earlier attempt; nothing to do if it is there.

    What has arrived is kept beside it in a `.part` file, which becomes the target only if it is as
    long as the server said and begins with the signature of its format.
    """
    import filelock

    if target.is_file():
        return target
    part = target.with_name(f"{target.name}.part")
    lock = Path(f"{part}.lock")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(lock, timeout=0):
            try:
                _complete(url, part, title=f"downloading {target.name}, MiB")
                _check_signature(url, part, signature)
                os.replace(part, target)
            finally:
                lock.unlink(missing_ok=True)
    except filelock.Timeout as error:
        raise CharyError(f"{part}: another download is writing to it; let it finish.") from error
    except (
        OSError
    ) as error:  # no room, no permission: all that went wrong with the network is not here
        reason = error.strerror or error
        raise CharyError(f"{target}: cannot be written: {reason}. {GO_ON}") from error
    return target


def _complete(url: str, part: Path, *, title: str) -> None:
    """Get what is missing of the file."""
    have = part.stat().st_size if part.exists() else 0
    request = Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urlopen(request, timeout=PATIENCE) as response:
            _receive(url, response, part, have, title=title)
    except HTTPError as error:
        with error:
            nothing_follows = error.code == 416 and have
            if not nothing_follows:
                raise CharyError(
                    f"{url}: the server answers {error.code} {error.reason}."
                ) from error
            whole = error.headers.get("Content-Range") == f"bytes */{have}"
        if not whole:  # a part of some other file
            part.unlink()
            _complete(url, part, title=title)
    except URLError as error:
        raise CharyError(
            f"{url}: cannot be reached ({error.reason}). Is there a network here?"
        ) from error
    except (HTTPException, ConnectionError, TimeoutError) as error:
        raise CharyError(f"{url}: the connection broke ({error}). {GO_ON}") from error


def _receive(url: str, response: HTTPResponse, part: Path, have: int, *, title: str) -> None:
    """Write the answer to the end of the part, and see that it is all of it."""
    if response.status != 206:  # the whole file, though we may have asked for its end
        have = 0
    elif not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
        raise CharyError(f"{url}: the server sends another piece than the one asked for.")
    if response.length is None:
        raise CharyError(f"{url}: the server does not say how long the file is; it goes unchecked.")
    total = have + response.length
    with (
        open(part, "ab" if have else "wb") as file,
        progress_bar(title, total=-(-total // CHUNK)) as advance,
    ):
        advance(have // CHUNK)
        while chunk := response.read(CHUNK):
            file.write(chunk)
            advance(1)
    size = part.stat().st_size
    if size != total:
        raise CharyError(f"{url}: the connection ended after {size} of {total} bytes. {GO_ON}")


def _check_signature(url: str, part: Path, signature: bytes) -> None:
    with open(part, "rb") as file:
        found = file.read(len(signature))
    if found != signature:
        part.unlink()
        raise CharyError(
            f"{url}: what the server sent is not the file: it begins with {found!r}. "
            "A network that asks for a login may answer so."
        )
