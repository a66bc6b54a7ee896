"""`make_app`: a service as an ASGI application."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fairspan.errors import DesignError, FairspanError
from fairspan.serving.metrics import CONTENT_TYPE
from fairspan.serving.protocol import Refusal, make_reply, read_request, require_key, too_large
from fairspan.serving.service import Service

_LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
_BODY_SECONDS = 60.0
# A body that is too large is dropped up to so many bytes, or a pause, before the reply: a client
# that still sends when the connection is closed may not read it.
_DROPPED_BYTES = 2**28
_PAUSE_SECONDS = 1.0
_CLOSE = {"Connection": "close"}


def make_app(
    service: Service, *, key: str | None = None, allowed_hosts: Sequence[str] = ()
) -> Starlette:
    """A service as an ASGI application, which any ASGI server runs; its end closes the service.

    Args:
        key: what clients send as `Authorization: Bearer KEY`, for all but `/health`.
        allowed_hosts: names that clients may call the server by, besides this machine's; "*" for
            any. By default any with a key, and none without: pages of other sites may have a name
            for this server, but not its key.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        service.close()

    api = _Api(service)
    hosts = [*_LOCAL_HOSTS, *allowed_hosts]
    if key is not None and not allowed_hosts:
        hosts = ["*"]
    wrong = [host for host in hosts if host != "*" and "*" in host.removeprefix("*.")]
    if wrong:
        raise DesignError(f"allowed_hosts are names, *.example.com or *, got {wrong[0]!r}.")
    middleware = [Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)]
    if key is not None:
        middleware.append(Middleware(_Keyed, key=require_key(key)))
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
        middleware=middleware,
        exception_handlers=dict.fromkeys(errors, _error_response),
        lifespan=lifespan,
    )
    app.state.service = service
    app.state.unanswered = False
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
            request.app.state.unanswered = True
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
        parsed = read_request(body, service.names, service.limits.max_inputs)
        vectors, tokens, truncated = await service.embed(parsed)
        cut = truncated if service.truncate else None
        reply = make_reply(parsed, vectors, tokens, cut)
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
        if self.service.batcher.is_broken:
            return JSONResponse({"status": "broken"}, 503)
        return JSONResponse({"status": "ready"})

    async def info(self, request: Request) -> Response:
        return JSONResponse(self.service.info())

    async def metrics(self, request: Request) -> Response:
        return Response(self.service.metrics.text(), headers={"Content-Type": CONTENT_TYPE})


async def _read_body(request: Request, most: int) -> bytearray:
    """The JSON of a request, refused if it is too large or late."""
    kind = request.headers.get("content-type", "").partition(";")[0]
    if kind.strip().lower() != "application/json":
        # Pages of other sites can send other content types without a preflight request.
        message = "The header Content-Type must be application/json."
        raise Refusal(415, message, code="unsupported_media_type")
    refusal = too_large(f"The body is larger than {most:,} bytes, the limit here.", headers=_CLOSE)
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > most + _DROPPED_BYTES:
        raise refusal
    body = bytearray()
    size = 0
    now = asyncio.get_running_loop().time
    end = now() + _BODY_SECONDS
    try:
        async with asyncio.timeout_at(end) as limit:
            async for part in request.stream():
                size += len(part)
                if size <= most:
                    body += part
                elif size > most + _DROPPED_BYTES:
                    break
                else:
                    limit.reschedule(min(end, now() + _PAUSE_SECONDS))
    except TimeoutError:
        if size <= most:
            message = f"The body did not arrive within {_BODY_SECONDS:.0f} s."
            raise Refusal(408, message, code="timeout", headers=_CLOSE) from None
    if size > most:
        raise refusal
    return body


async def _unless_gone(request: Request, answering: Awaitable[Response]) -> Response:
    """The answer to a request whose body was read; cancelled if its client leaves."""
    work = asyncio.ensure_future(answering)
    # After the body, the only further message is the end of the connection.
    gone = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientDisconnect
        return work.result()
    finally:
        gone.cancel()
        work.cancel()


class _Keyed:
    """Refuses requests without the key, but for `/health`."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self.app = app
        self.key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401, or pass the request on."""
        app = self.app
        if scope["type"] == "http" and scope["path"] != "/health":
            sent = Headers(scope=scope).get("authorization", "")
            if not self._is_key(sent):
                message = "The API key is wrong." if sent else "An API key is needed."
                message += " Send the header Authorization: Bearer KEY."
                challenge = {"WWW-Authenticate": "Bearer"}
                app = Refusal(401, message, code="invalid_api_key", headers=challenge).response
        await app(scope, receive, send)

    def _is_key(self, sent: str) -> bool:
        scheme, _, token = sent.encode("latin-1").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self.key)


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
