"""`Connection`: one client's socket under uvicorn, with limits that neither uvicorn nor its parser has."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fairspan.serving.protocol import Refusal

HEAD_BYTES = 65_536
HEAD_SECONDS = 15.0
# A client that takes none of its reply for so long gets no more of it.
REPLY_SECONDS = 60.0
MOST_CONNECTIONS = 512
_TOO_LARGE = Refusal(
    431,
    f"The headers are larger than {HEAD_BYTES:,} bytes.",
    code="headers_too_large",
    headers={"Connection": "close"},
).response


class Connection(HttpToolsProtocol):
    """Closes sockets whose request does not come.

    The line and the headers of a request, and what frames its body, have `HEAD_BYTES` and `HEAD_SECONDS`. Beyond
    `MOST_CONNECTIONS` the one that has waited longest for its client is closed.
    """

    _framing = 0
    _head_timer: asyncio.TimerHandle | None = None
    _reply_timer: asyncio.TimerHandle | None = None
    _waits_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._waits_since = self.loop.time()
        self._expect_head()
        if len(self.connections) > MOST_CONNECTIONS:
            waiting = [
                one for one in self.connections if isinstance(one, Connection) and one._waits_since is not None
            ]
            min(waiting, key=lambda one: one._waits_since or 0.0).transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head_timer, self._reply_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def data_received(self, data: bytes) -> None:
        self._framing += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._framing > HEAD_BYTES:
            lines = [
                b"HTTP/1.1 431 Request Header Fields Too Large",
                *(b": ".join(one) for one in _TOO_LARGE.raw_headers),
            ]
            self.transport.write(b"\r\n".join([*lines, b"", bytes(_TOO_LARGE.body)]))
            self.transport.close()
        elif self.cycle is None or self.cycle.response_complete:
            # Also the rest of a body after its reply. uvicorn's own timer ends with any byte.
            self._expect_head()

    def on_headers_complete(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
        self._framing, self._head_timer = 0, None
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        self.app = self.config.loaded_app if size <= HEAD_BYTES else _TOO_LARGE
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        # A chunk of one byte has five more.
        self._framing = max(0, self._framing - 8 * len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._waits_since = None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._waits_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        self._reply_timer = self.loop.call_later(REPLY_SECONDS, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        if self._reply_timer is not None:
            self._reply_timer.cancel()
        super().resume_writing()
