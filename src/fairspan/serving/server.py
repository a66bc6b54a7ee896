"""A service under uvicorn: its address, limits on every connection, and an orderly end."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fairspan.errors import DesignError
from fairspan.serving.protocol import Refusal

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.responses import Response

DRAIN_SECONDS = 8
"""For requests in flight to end; with all the rest a server ends within 10 s."""
HEAD_BYTES = 65_536
HEAD_SECONDS = 15.0
HEAD_LINES = 100
_CLOSE = {"Connection": "close"}
_TOO_LARGE = Refusal(
    431,
    f"The path and headers have more than {HEAD_BYTES:,} bytes or {HEAD_LINES} lines.",
    code="headers_too_large",
    headers=_CLOSE,
).response
_NO_HTTP = Refusal(400, "This is not HTTP/1.1.", code="invalid_http", headers=_CLOSE).response


def bind(host: str, port: int) -> socket.socket:
    """A socket at that address that accepts no connections yet."""
    if not 0 <= port <= 65535:
        raise DesignError(f"port must be from 0 to 65535, got {port}.")
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = addresses[0]
        # asyncio sends small replies at once only on a socket that names its protocol.
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


def run(app: Starlette, bound: socket.socket) -> bool:
    """Serve until a signal ends it; whether all requests in flight were answered by then."""
    config = uvicorn.Config(
        app,
        http=Connection,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        # Clients keep connections for longer than uvicorn's 5 s, and fail on a closed one.
        timeout_keep_alive=75,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    server = _Server(config)
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(server.serve(sockets=[bound]))
    return server.drained


def end_at_once(code: int = 1) -> None:
    """End the process, whatever its threads do, without freeing the model, which takes seconds."""
    sys.stderr.flush()
    os._exit(code)


class _Server(uvicorn.Server):
    """uvicorn with two changes: how it takes signals, and that it notes an incomplete end."""

    drained = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Unlike uvicorn's, does not raise the signal again: a requested shutdown is a success."""
        if self.should_exit:
            end_at_once()
        self.should_exit = True
        self.config.app.state.service.batcher.is_draining = True  # type: ignore[union-attr]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        start = time.monotonic()
        await super().shutdown(sockets)
        self.drained = time.monotonic() - start < DRAIN_SECONDS


class Connection(HttpToolsProtocol):
    """One client's socket: the head of a request has `HEAD_BYTES` at most, and `HEAD_SECONDS`."""

    _framing = 0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer = self.loop.call_later(HEAD_SECONDS, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def data_received(self, data: bytes) -> None:
        """Parse what came, and close the connection if it is too much beside the body."""
        self._framing += len(data)
        super().data_received(data)
        if self._framing > HEAD_BYTES and not self.transport.is_closing():
            self._end_with(_TOO_LARGE)
        elif self._timer is None and (self.cycle is None or self.cycle.response_complete):
            # Also for the rest of a body after its reply; uvicorn's own timer ends with any byte.
            self._timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def send_400_response(self, msg: str) -> None:
        """What uvicorn calls if the parser fails."""
        self._end_with(_NO_HTTP)

    def _end_with(self, response: Response) -> None:
        """Send a response that belongs to no request, and close the connection."""
        lines = [b"HTTP/1.1 %d " % response.status_code]
        lines += [b"%s: %s" % header for header in response.raw_headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(response.body)]))
        self.transport.close()

    def on_headers_complete(self) -> None:
        """Hand a request to the application, unless its head is too large."""
        self._stop_timer()
        self._framing = 0
        # Four more bytes are in each line.
        size = len(self.url) + sum(4 + len(name) + len(value) for name, value in self.headers)
        self.app = self.config.loaded_app
        if size > HEAD_BYTES or len(self.headers) > HEAD_LINES:
            self.app = _TOO_LARGE
            self.url = b"/"  # the parser of paths fails on long ones
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        # A chunk of one byte has five more.
        self._framing = max(0, self._framing - 8 * len(body))
        super().on_body(body)
