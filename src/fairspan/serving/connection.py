"""`Connection`: one client's socket under uvicorn, with limits that neither uvicorn nor its parser has."""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fairspan.serving.protocol import Refusal

HEAD_BYTES = 65_536
HEAD_SECONDS = 15.0
_SAID = f"The headers are larger than {HEAD_BYTES:,} bytes."
_TOO_LARGE = Refusal(431, _SAID, code="headers_too_large", headers={"Connection": "close"}).response


class Connection(HttpToolsProtocol):
    """Gives the line and the headers of a request, and what frames its body, `HEAD_BYTES` and `HEAD_SECONDS`."""

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
        self._framing += len(data)
        super().data_received(data)
        if self._framing > HEAD_BYTES and not self.transport.is_closing():
            headers = b"".join(b"%s: %s\r\n" % one for one in _TOO_LARGE.raw_headers)
            self.transport.write(b"HTTP/1.1 431 \r\n%s\r\n%s" % (headers, bytes(_TOO_LARGE.body)))
            self.transport.close()
        elif self._timer is None and (self.cycle is None or self.cycle.response_complete):
            # Also for the rest of a body after its reply; uvicorn's own timer ends with any byte.
            self._timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._framing = 0
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        self.app = self.config.loaded_app if size <= HEAD_BYTES else _TOO_LARGE
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        # A chunk of one byte has five more.
        self._framing = max(0, self._framing - 8 * len(body))
        super().on_body(body)
