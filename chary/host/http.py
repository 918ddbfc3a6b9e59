"""Listening on this machine: what every server of chary's has in common."""

import errno
import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from chary.errors import CharyError

if TYPE_CHECKING:  # an extra; the caller says what to install
    import uvicorn

LOOPBACK = "127.0.0.1"
NAMES = (LOOPBACK, "localhost")
"""What a browser on this machine calls it. Any other name may be a stranger's that was made to point
here (DNS rebinding). Ports are free, so that `ssh -L` may choose its own."""


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine reach an address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> socket.socket:
    """A socket with an address; it takes no connections before `listen` is called."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise CharyError(
                f"host {host}: {error.strerror}. Name an address of this machine as --host."
            ) from error
        raise CharyError(
            f"port {port}: {error.strerror}. Name another --port; 0 takes any that is free."
        ) from error
    return bound


def server_of(app: Any, *, grace: int, **options: Any) -> "uvicorn.Server":
    """A server that logs no requests and gives those in work so many seconds when it ends."""
    import uvicorn

    settings: dict[str, Any] = {
        "loop": "asyncio",
        "http": "h11",
        "ws": "none",
        "lifespan": "off",
        "log_level": "warning",
        "access_log": False,  # it would hold the token
        "proxy_headers": False,
        "server_header": False,
        "timeout_graceful_shutdown": grace,
    }
    return uvicorn.Server(uvicorn.Config(app, **settings | options))
