"""The server of `chary watch`: loopback only, a secret in its address, nothing writable.

No part of a request ever becomes a path on disk: there is the page, there are the files that it is made
of, known by name, and there is what has changed in the runs.
"""

import json
import re
import secrets
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from chary.errors import CharyError
from chary.host.http import LOOPBACK, NAMES, bind, server_of
from chary.report.follow import Follower
from chary.report.page import asset

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.datastructures import MutableHeaders
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Mount, Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ModuleNotFoundError as error:
    raise CharyError(
        f"`chary watch` needs another package ({error.name}): pip install 'chary[watch]'"
    ) from error

KINDS = {".js": "text/javascript", ".css": "text/css"}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Lets through what is only a look and knows the secret; nothing else reaches the routes."""

    def __init__(self, app: ASGIApp, token: str):
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        app: ASGIApp = self._app
        claimed = scope["path"].removeprefix("/").partition("/")[0].encode(errors="replace")
        if scope["method"] != "GET":
            app = PlainTextResponse("Only GET is answered here.\n", 405, {"Allow": "GET"})
        elif not secrets.compare_digest(claimed, self._token):
            app = PlainTextResponse("Use the whole address that `chary watch` printed.\n", 403)
        await app(scope, receive, send_with_headers)


class Asset(NamedTuple):
    """A file of the page."""

    kind: str
    text: str


def page_files() -> dict[str, Asset]:
    """The page, which has no name, and the files that it asks for by name."""
    page = asset("watch.html")
    names = re.findall(r'(?:src|href)="([\w.-]+)"', page)
    return {"": Asset("text/html", page)} | {
        name: Asset(KINDS[Path(name).suffix], asset(name)) for name in names
    }


def make_app(follower: Follower, files: Mapping[str, Asset], token: str) -> ASGIApp:
    """The page, its files and the news of the runs, all below the token."""
    looking = threading.Lock()  # requests come from several threads; the disk is looked at by one

    def file(request: Request) -> Response:
        found = files.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        return Response(found.text, media_type=found.kind)

    def news(request: Request) -> Response:
        since = request.query_params.get("since", "")
        with looking:
            changes = follower.changes(int(since) if re.fullmatch("[0-9]{1,15}", since) else 0)
        if changes is None:
            return Response(status_code=204)
        return Response(json.dumps(changes, allow_nan=False), media_type="application/json")

    routes = [Route("/news", news), Route("/{name:path}", file)]
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=NAMES, www_redirect=False)
    return Guard(Starlette(routes=[Mount(f"/{token}", routes=routes)], middleware=[hosts]), token)


class Live(NamedTuple):
    """A page that is ready to be served."""

    address: str
    """With the secret in it."""
    server: uvicorn.Server
    listening: socket.socket

    def run(self) -> None:
        """Serve until interrupted, which is the way to end it."""
        with suppress(KeyboardInterrupt):
            self.server.run(sockets=[self.listening])


def make_live(folder: Path, *, port: int = 0) -> Live:
    """A page about the runs below a folder, at a port of this machine or any that is free."""
    listening = bind(LOOPBACK, port)
    listening.listen()  # the address is printed before the server runs
    token = secrets.token_urlsafe(24)
    server = server_of(make_app(Follower(folder), page_files(), token), grace=1)
    address = f"http://{LOOPBACK}:{listening.getsockname()[1]}/{token}/"
    return Live(address, server, listening)
