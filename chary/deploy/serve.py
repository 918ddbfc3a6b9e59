"""The server of `chary serve`: decisions over HTTP, with a token and with limits.

A request is checked in this order: host, path and method, token, size and time, JSON, shapes. Only then
is it queued. No part of a request becomes a path on disk, and no answer holds a traceback.
"""

import asyncio
import re
import secrets
import signal
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from chary.deploy.batches import Batches, BusyError
from chary.deploy.counters import KIND, Counters
from chary.deploy.source import Source
from chary.deploy.wire import RefusedError, parsed, plain
from chary.errors import CharyError
from chary.host.http import NAMES, is_loopback, server_of
from chary.version import __version__

try:
    import h11
    import uvicorn
    from starlette.applications import Starlette
    from starlette.datastructures import MutableHeaders
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ModuleNotFoundError as error:
    raise CharyError(
        f"`chary serve` needs another package ({error.name}): pip install 'chary[watch]'"
    ) from error

CONNECTIONS = 512
DISCARDED = 2**24
"""Bytes beyond the limit that are read and thrown away: a client whose connection is closed while it
sends may never read the answer."""
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
HELP = """\
POST /decide   {"observations": [[...], ...]}; with "actions": [[...], ...], these are judged.
               One row may be a flat list. null is a missing reading.
GET /health    whether the server runs; with the token, also what it serves.
GET /metrics   counters in Prometheus' text format.

/decide and /metrics need the token, as a header: Authorization: Bearer TOKEN
"""
SENTENCES = {
    404: "there is nothing here; GET / says what there is",
    405: "this path takes another method; GET / says which",
    500: "the server failed; its log says why",
}


class Options(NamedTuple):
    """How a policy is served."""

    host: str = "127.0.0.1"
    token: str | None = None
    """None asks for none."""
    max_rows: int = 4096
    timeout: float = 10.0
    """Seconds in which a request must have arrived."""


class Front:
    """Refuses strangers' names for this machine (DNS rebinding), and counts the answers of all."""

    def __init__(self, app: ASGIApp, host: str, counters: Counters):
        self._app, self._counters = app, counters
        # Elsewhere clients call the machine by any name, but never without the token.
        self._names = {*NAMES, "[::1]", host} if is_loopback(host) else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
                self._counters.answered(message["status"])
            await send(message)

        host = re.sub(r":\d*$", "", Request(scope).headers.get("host", "")).lower()
        app = self._app
        if self._names is not None and host not in self._names:
            app = refusal(400, "the Host header is not a name of this machine")
        await app(scope, receive, send_and_count)


def make_app(source: Source, served: str, options: Options) -> ASGIApp:
    """The server as a function of requests."""
    counters, began = Counters(), time.monotonic()
    batches = Batches(source.decide, options.max_rows)
    columns = source.size("observations") + source.size("actions")
    most_bytes = 2**16 + 32 * columns * options.max_rows  # a number has at most 25 characters
    dataset = source.metadata["dataset"]
    facts = {
        "served": served,
        "algorithm": source.metadata["algorithm"],
        "step": step if (step := source.metadata["step"]) >= 0 else None,
        "dataset": dataset.get("name"),
        "fingerprint": dataset.get("fingerprint"),
        "flag_rate": source.metadata["flag_rate"],
        "judges_actions": source.judges,
        "chary": __version__,
    }

    def knows_token(request: Request) -> bool:
        claimed = request.headers.get("authorization", "").encode()
        return options.token is None or secrets.compare_digest(
            claimed, f"Bearer {options.token}".encode()
        )

    def check_token(request: Request) -> None:
        if not knows_token(request):
            raise RefusedError(401, "send the token as a header: Authorization: Bearer TOKEN")

    async def decide(request: Request) -> Response:
        came = time.monotonic()
        check_token(request)
        body = await body_of(request, most_bytes, options.timeout)
        observations, actions = parsed(body, source, options.max_rows)
        try:
            found = await batches.decide(observations, actions)
        except BusyError:
            raise RefusedError(503, "too many requests wait") from None
        answer = {name: plain(values) for name, values in found.items()}
        counters.decided(answer["reason"], time.monotonic() - came)
        return JSONResponse(answer)

    async def health(request: Request) -> Response:
        known = facts | {"uptime_s": round(time.monotonic() - began, 1)}
        return JSONResponse({"status": "ok"} | (known if knows_token(request) else {}))

    async def metrics(request: Request) -> Response:
        check_token(request)
        return Response(counters.text(batches.calls), media_type=KIND)

    async def usage(_: Request) -> Response:
        return PlainTextResponse(HELP)

    async def refuse(_: Request, error: Exception) -> Response:
        if isinstance(error, RefusedError):
            return refusal(error.status, str(error))
        status = error.status_code if isinstance(error, HTTPException) else 500
        return refusal(status, SENTENCES.get(status, "refused"), getattr(error, "headers", None))

    routes = [
        Route("/", usage),
        Route("/decide", decide, methods=["POST"]),
        Route("/health", health),
        Route("/metrics", metrics),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers=dict.fromkeys((RefusedError, HTTPException, Exception), refuse),
    )
    app.router.redirect_slashes = False
    return Front(app, options.host, counters)


def refusal(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """An answer that says what is wrong."""
    own = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}.get(status, {})
    if status not in (422, 503):  # the rest of the request is not waited for
        own = own | {"Connection": "close"}
    return JSONResponse({"error": sentence}, status, {**(headers or {}), **own})


async def body_of(request: Request, limit: int, timeout: float) -> bytes:
    """A request's body, never more of it than the limit at once."""
    too_large = RefusedError(413, f"the request has more than {limit} bytes")
    declared = int(request.headers.get("content-length", 0))
    if declared > limit + DISCARDED or (declared > limit and "expect" in request.headers):
        raise too_large
    kept, size = bytearray(), 0
    try:
        async with asyncio.timeout(timeout):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= limit:
                    kept += chunk
                elif size > limit + DISCARDED:
                    break
    except TimeoutError:
        raise RefusedError(408, f"the request took longer than {timeout:g} s to arrive") from None
    except ClientDisconnect:
        raise RefusedError(400, "the request ended early") from None
    if size > limit:
        raise too_large
    return bytes(kept)


def make_server(source: Source, served: str, options: Options) -> uvicorn.Server:
    """A server that finishes what is in work before it ends."""

    class Impatient(H11Protocol):
        """Closes connections on which no whole header arrives in time; Uvicorn waits for ever."""

        due: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._await_header()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
                self._await_header()
            elif self.due is not None:
                self.due.cancel()
                self.due = None

        def _await_header(self) -> None:
            if self.due is None:
                self.due = self.loop.call_later(options.timeout, self.timeout_keep_alive_handler)

    return server_of(
        make_app(source, served, options),
        grace=max(1, round(options.timeout)),
        http=Impatient,
        limit_concurrency=CONNECTIONS,
    )


def run(server: uvicorn.Server, listening: socket.socket) -> None:
    """Serve until interrupted or terminated, which are the ways to end it."""
    # Uvicorn raises the signal once more when it has ended.
    signal.signal(signal.SIGTERM, lambda *_: None)
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listening])
