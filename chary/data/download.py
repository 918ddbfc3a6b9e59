"""Downloading, which happens only when it is asked for: resumable, checked, and whole or not at all."""

import json
import os
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urljoin, urlsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from chary.errors import CharyError, reason
from chary.host.terminal import progress_bar

CHUNK = 2**20
PATIENCE = 30.0
"""Seconds without a byte, or for the whole heading of an answer, after which a server is given up."""
GO_ON = "What has arrived is kept: run the same command again to resume."
VALIDATORS = ("ETag", "Last-Modified")
"""Headings that say which version of a file was sent."""


def download_file(url: str, target: Path, *, signature: bytes = b"") -> Path:
    """Download to `target`, resuming an earlier attempt; nothing to do if it is there.

    What has arrived is kept beside it in a `.part` file, which becomes the target only if it is as
    long as the server said and begins with the signature of its format. Beside the part is kept which
    version of the file it is of; a part of another version is thrown away.
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
                _beside(part).unlink(missing_ok=True)
            finally:
                lock.unlink(missing_ok=True)
    except filelock.Timeout as error:
        raise CharyError(f"{part}: another download is writing to it; let it finish.") from error
    except (
        OSError
    ) as error:  # no room, no permission: all that went wrong with the network is not here
        raise CharyError(f"{target}: cannot be written: {reason(error)}. {GO_ON}") from error
    return target


def _complete(url: str, part: Path, *, title: str) -> None:
    """Get what is missing of the file."""
    version = _version(part)
    have = part.stat().st_size if version else 0
    headings = {"Range": f"bytes={have}-"} if have else {}
    # A weak ETag may stand for other bytes, and the server would not take it for this.
    firm = [text for key in VALIDATORS if (text := version.get(key)) and not text.startswith("W/")]
    if have and firm:
        headings["If-Range"] = firm[0]
    try:
        with _open(Request(url, headers=headings)) as response:
            if response.status == 206 and not have:
                raise CharyError(f"{url}: the server sends a piece, though all was asked for.")
            if response.status != 206 or _is_next(response, have, version):
                _receive(url, response, part, title=title)
                return
    except HTTPError as error:
        with error:
            nothing_follows = error.code == 416 and have
            if not nothing_follows:
                raise CharyError(
                    f"{url}: the server answers {error.code} {error.reason}."
                ) from error
            if (
                error.headers.get("Content-Range")
                == f"bytes */{have}"
                == f"bytes */{version['length']}"
            ):
                return
    except URLError as error:
        raise CharyError(
            f"{url}: cannot be reached ({error.reason}). Is there a network here?"
        ) from error
    except (HTTPException, ConnectionError, TimeoutError, ValueError) as error:
        raise CharyError(f"{url}: the connection broke ({reason(error)}). {GO_ON}") from error
    _forget(part)  # it is of another version of the file
    _complete(url, part, title=title)


def _receive(url: str, response: HTTPResponse, part: Path, *, title: str) -> None:
    """Write the answer to the end of the part, or as a new one, and see that it is all of it."""
    have = part.stat().st_size if response.status == 206 else 0
    lengths = {text.strip() for text in response.headers.get_all("Content-Length", [])}
    if len(lengths) > 1:
        raise CharyError(f"{url}: the server says of {' and of '.join(lengths)} bytes at once.")
    if response.length is None:
        raise CharyError(f"{url}: the server does not say how long the file is; it goes unchecked.")
    total = have + response.length
    if not have:
        said = {key: response.headers[key] for key in VALIDATORS if response.headers[key]}
        _beside(part).write_text(json.dumps({**said, "length": total}))
    with (
        open(part, "ab" if have else "wb") as file,
        progress_bar(title, total=-(-total // CHUNK)) as advance,
    ):
        advance(have // CHUNK)
        while chunk := _arrived(url, response):
            file.write(chunk)
            advance(1)
    size = part.stat().st_size
    if size != total:
        raise CharyError(f"{url}: the connection ended after {size} of {total} bytes. {GO_ON}")


def _arrived(url: str, response: HTTPResponse) -> bytes:
    """The next bytes; what is wrong with the network is not wrong with the disk."""
    try:
        return response.read(CHUNK)
    except (HTTPException, OSError) as error:
        raise CharyError(f"{url}: the connection broke ({reason(error)}). {GO_ON}") from error


def _is_next(response: HTTPResponse, have: int, version: Mapping[str, Any]) -> bool:
    """Whether a piece follows what has arrived, of the same version of the file."""
    length = version["length"]
    return response.headers.get("Content-Range") == f"bytes {have}-{length - 1}/{length}" and all(
        version.get(key) == response.headers[key] for key in VALIDATORS if response.headers[key]
    )


def _beside(part: Path) -> Path:
    """Where it is kept which version of the file the part is of."""
    return part.with_name(f"{part.name}.version")


def _version(part: Path) -> dict[str, Any]:
    """What the server said of the version that has begun to arrive; nothing where that is not known."""
    try:
        version = json.loads(_beside(part).read_text())
        known = part.is_file() and isinstance(version["length"], int)
        return {key: version.get(key) for key in (*VALIDATORS, "length")} if known else {}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    _beside(part).unlink(missing_ok=True)


class _Heading:
    """The lines before an answer's content, which must all have come in time.

    A server may send "100 Continue" for ever, or a line byte by byte.
    """

    def __init__(self, stream: Any):
        self.stream, self.until = stream, monotonic() + PATIENCE

    def readline(self, limit: int) -> bytes:
        line = b""
        while len(line) < limit and not line.endswith(b"\n"):
            if monotonic() > self.until:
                raise TimeoutError("timed out before the answer began")
            seen = self.stream.peek(1)
            if not seen:
                break
            end = seen.find(b"\n") + 1 or len(seen)
            line += self.stream.read(min(end, limit - len(line)))
        return line


class _Response(HTTPResponse):
    def begin(self) -> None:
        stream: Any = self.fp
        heading: Any = _Heading(stream)
        self.fp = heading
        try:
            super().begin()
        finally:
            self.fp = stream


class _Plain(HTTPConnection):
    response_class = _Response


class _Secure(HTTPSConnection):
    response_class = _Response


class _OpenPlain(HTTPHandler):
    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_Plain, req)


class _OpenSecure(HTTPSHandler):
    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_Secure, req)


class _Redirect(HTTPRedirectHandler):
    def http_error_302(
        self, req: Request, fp: Any, code: int, msg: str, headers: Any
    ) -> HTTPResponse | None:
        """Follow to a web page's address, and from a secure one only to a secure one."""
        allowed = ("https",) if req.type == "https" else ("http", "https")
        target = headers.get("Location", "")
        try:
            parts = urlsplit(urljoin(req.full_url, target))
            sound = parts.scheme in allowed and bool(parts.hostname) and parts.port != 0
        except ValueError:
            sound = False
        if not sound:
            fp.close()
            raise CharyError(
                f"{req.full_url}: the server sends us on to '{target[:200]}', which is not followed."
            )
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _open(request: Request) -> HTTPResponse:
    return build_opener(_OpenPlain, _OpenSecure, _Redirect).open(request, timeout=PATIENCE)


def _check_signature(url: str, part: Path, signature: bytes) -> None:
    with open(part, "rb") as file:
        found = file.read(len(signature))
    if found != signature:
        _forget(part)
        raise CharyError(
            f"{url}: what the server sent is not the file: it begins with {found!r}. "
            "A network that asks for a login may answer so."
        )
