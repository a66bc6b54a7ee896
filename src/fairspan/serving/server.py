"""A service under uvicorn: its address, and an orderly end."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING

import uvicorn

from fairspan.errors import DesignError

if TYPE_CHECKING:
    from starlette.applications import Starlette

DRAIN_SECONDS = 8
"""Seconds for requests in flight to end, so that a server ends within 10 s in all."""
CONNECTIONS = 1000
"""Largest number of connections; each may hold a body. Beyond it, uvicorn replies 503."""


def bind(host: str, port: int) -> socket.socket:
    """A socket at that address that accepts no connections yet."""
    if not 0 <= port <= 65535:
        raise DesignError(f"port must be from 0 to 65535, got {port}.")
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = addresses[0]
        # asyncio sets TCP_NODELAY only on a socket that names its protocol.
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
        except BaseException:
            bound.close()
            raise
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        message = f"cannot listen on {host}:{port}: {reason}. Choose another host or port."
        raise DesignError(message) from None
    return bound


def url_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_local(bound: socket.socket) -> bool:
    """Whether only this machine can connect."""
    host = bound.getsockname()[0]
    return bool(host == "::1" or host.startswith("127."))


def run(app: Starlette, bound: socket.socket) -> None:
    """Serve until a signal ends it, and requests in flight are answered, or have had their time."""
    config = uvicorn.Config(
        app,
        http="h11",  # which, unlike httptools, has a limit on a request's head
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        limit_concurrency=CONNECTIONS,
        # Clients keep connections for longer than uvicorn's 5 s, and fail on a closed one.
        timeout_keep_alive=75,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    # uvicorn raises its signals again at its end, where an end that was asked for is a success.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    uvicorn.Server(config).run(sockets=[bound])
