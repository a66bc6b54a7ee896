"""`make_app`: a service as an ASGI application."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fairspan.errors import FairspanError
from fairspan.serving.metrics import CONTENT_TYPE
from fairspan.serving.protocol import Refusal, make_reply, read_request, require_key, too_large
from fairspan.serving.service import Service

_BODY_SECONDS = 60.0
_CLOSE = {"Connection": "close"}


def make_app(
    service: Service, *, key: str | None = None, allowed_hosts: Sequence[str] | None = None
) -> Starlette:
    """A service as an ASGI application, which any ASGI server runs; its end closes the service.

    Args:
        key: what clients send as `Authorization: Bearer KEY`, for all but `/health`.
        allowed_hosts: names that clients may call the server by, besides localhost and IP
            addresses; "*" for any. None means any with a key, and none without.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        service.close()

    api = _Api(service)
    hosts = allowed_hosts or ()
    if key is not None:
        key = require_key(key)
        if allowed_hosts is None:
            hosts = ("*",)  # no page of another site has the key
    errors = (HTTPException, Refusal, FairspanError, ClientDisconnect, Exception)
    app = Starlette(
        routes=[
            Route("/v1/embeddings", api.embeddings, methods=["POST"]),
            Route("/v1/models", api.models),
            Route("/v1/models/{name:path}", api.model),
            Route("/health", api.health),
            Route("/info", api.info),
            Route("/metrics", api.metrics),
        ],
        middleware=[Middleware(_Guard, key=key, hosts=hosts)],
        exception_handlers=dict.fromkeys(errors, _error_response),
        lifespan=lifespan,
    )
    app.state.service = service
    return app


class _Api:
    """The endpoints of one service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.started = int(time.time())

    async def embeddings(self, request: Request) -> Response:
        """Vectors; every outcome is counted."""
        metrics = self.service.metrics
        try:
            self.service.batcher.refuse_if_full(1)
            body = await _read_body(request, self.service.limits.body_bytes)
            response = await _unless_gone(request, self._reply(body))
        except asyncio.CancelledError:
            if not self.service.batcher.is_draining:
                raise
            message = "The server ended before this request was answered."
            raise Refusal(503, message, kind="server_error", headers=_CLOSE) from None
        except Exception as error:
            status = (await _error_response(request, error)).status_code
            metrics.requests.labels(str(status)).inc()
            metrics.cancelled.inc(isinstance(error, ClientDisconnect))
            raise
        metrics.requests.labels("200").inc()
        return response

    async def _reply(self, body: bytearray) -> Response:
        """The reply to the request in a body."""
        service = self.service
        start = time.monotonic()
        most = service.limits.max_inputs
        parsed = await service.in_turn(len(body), read_request, body, service.names, most)
        vectors, tokens, truncated = await service.embed(parsed)
        cut = truncated if service.truncate else None
        reply = await service.in_turn(vectors.size, make_reply, parsed, vectors, tokens, cut)
        headers = {"X-Fairspan-Truncated": str(len(truncated))} if truncated else None
        service.metrics.request_seconds.observe(time.monotonic() - start)
        return Response(reply, headers=headers, media_type="application/json")

    async def models(self, request: Request) -> Response:
        data = [self._model(name) for name in self.service.names.every]
        return JSONResponse({"object": "list", "data": data})

    async def model(self, request: Request) -> Response:
        name = request.path_params["name"]
        self.service.names.side(name)
        return JSONResponse(self._model(name))

    def _model(self, name: str) -> dict[str, object]:
        return {"id": name, "object": "model", "created": self.started, "owned_by": "fairspan"}

    async def health(self, request: Request) -> Response:
        state = self.service.state
        return JSONResponse({"status": state}, 200 if state == "ready" else 503)

    async def info(self, request: Request) -> Response:
        return JSONResponse(self.service.info())

    async def metrics(self, request: Request) -> Response:
        return Response(self.service.metrics.text(), headers={"Content-Type": CONTENT_TYPE})


async def _read_body(request: Request, most: int) -> bytearray:
    """The JSON of a request, refused if it is too large or late.

    uvicorn drops the rest of a refused body, so that a client that is still sending gets the reply.
    """
    kind = request.headers.get("content-type", "").partition(";")[0]
    if kind.strip().lower() != "application/json":
        # Pages of other sites can send other types without asking.
        message = "The header Content-Type must be application/json."
        raise Refusal(415, message, code="unsupported_media_type")
    refusal = too_large(f"The body is larger than {most:,} bytes, the limit here.")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > most:
        raise refusal
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise refusal
    except TimeoutError:
        message = f"The body did not arrive within {_BODY_SECONDS:.0f} s."
        raise Refusal(408, message, code="timeout", headers=_CLOSE) from None
    return body


async def _unless_gone(request: Request, answering: Awaitable[Response]) -> Response:
    """The answer to a request whose body was read; cancelled if its client leaves."""
    work = asyncio.ensure_future(answering)
    # After the body nothing comes but the end of the connection.
    gone = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientDisconnect
        return work.result()
    finally:
        gone.cancel()
        work.cancel()


class _Guard:
    """Refuses requests without the key, and those under a name that another site may have.

    By DNS rebinding, a page has its own name for this server. Pages that ask under a right name
    are kept out by browsers: no reply allows their origin, and JSON is not sent without asking.
    """

    def __init__(self, app: ASGIApp, key: str | None, hosts: Sequence[str]) -> None:
        self.app = app
        self.key = None if key is None else key.encode()
        self.names = {"localhost", *(_host_name(host) for host in hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = None
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            refusal = self._foreign(headers) or self._keyless(scope["path"], headers)
        await (self.app if refusal is None else refusal.response)(scope, receive, send)

    def _foreign(self, headers: Headers) -> Refusal | None:
        """Why a request under a foreign name is refused; no other site has an IP address's."""
        # Of a header that comes twice, no value is the right one.
        host = ",".join(headers.getlist("host"))
        name = _host_name(host)
        if not host or "*" in self.names or name in self.names:
            return None
        with suppress(ValueError):
            ip_address(name)
            return None
        message = f"The host name {name[:80]!r} is not allowed: use the address, or "
        return Refusal(403, f"{message}--allowed-hosts.", code="host_not_allowed")

    def _keyless(self, path: str, headers: Headers) -> Refusal | None:
        """Why a request without the key is refused."""
        if self.key is None or path == "/health":
            return None
        sent = headers.get("authorization", "").encode("latin-1")
        scheme, _, token = sent.partition(b" ")
        if scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self.key):
            return None
        message = "An API key is needed: Authorization: Bearer KEY."
        if sent:
            message = "The API key is wrong."
        challenge = {"WWW-Authenticate": "Bearer"}
        return Refusal(401, message, code="invalid_api_key", headers=challenge)


def _host_name(netloc: str) -> str:
    """The host of `host:port` in lower case, without the brackets of IPv6."""
    with suppress(ValueError):
        address = urlsplit(f"//{netloc}")
        if address.port is None or address.port:
            return address.hostname or ""
    return ""


async def _error_response(request: Request, error: Exception) -> Response:
    """The reply to a request that raised an error, in OpenAI's form."""
    match error:
        case Refusal():
            return error.response
        case HTTPException():
            message = f"{request.method} {request.url.path[:200]}: {error.detail}."
            return Refusal(error.status_code, message, headers=error.headers).response
        case ClientDisconnect():
            return Response(status_code=499)
        case FairspanError():
            return Refusal(400, str(error)).response
    message = "The server failed on this request; its log says why."
    return Refusal(500, message, kind="server_error").response
