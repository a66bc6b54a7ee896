"""`make_app`: a service as an ASGI application."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fairspan.errors import FairspanError
from fairspan.serving.metrics import CONTENT_TYPE
from fairspan.serving.protocol import Asked, Refusal, make_reply, read_request, too_large
from fairspan.serving.service import Embedded, Service

# Whoever watches a server has no key, and a page has to be there before it can ask for one.
_OPEN = ("/", "/health")
# A body that takes longer than this to arrive holds up nobody but itself, though not forever.
_BODY_SECONDS = 60.0
# A body beyond the limit is read and dropped up to this many times it: a client that is still sending gets no reply.
_DROPPED = 8


def make_app(service: Service, *, key: str | None = None, routes: Sequence[BaseRoute] = ()) -> Starlette:
    """A service as an ASGI application, which any ASGI server runs.

    Args:
        key: what clients have to send as `Authorization: Bearer KEY`, for all but `/` and `/health`.
        routes: more than the API's.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await service.start()
        yield
        await asyncio.to_thread(service.batcher.close, 1.0)

    api = _Api(service)
    app = Starlette(
        routes=[
            Route("/v1/embeddings", api.embeddings, methods=["POST"]),
            Route("/v1/models", api.models),
            Route("/v1/models/{name:path}", api.model),
            Route("/health", api.health),
            Route("/info", api.info),
            Route("/metrics", api.metrics),
            *routes,
        ],
        middleware=[] if key is None else [Middleware(_Guard, key=key)],
        exception_handlers=dict.fromkeys((HTTPException, Refusal, FairspanError, Exception), _refused),
        lifespan=lifespan,
    )
    app.state.service = service
    return app


class _Api:
    def __init__(self, service: Service) -> None:
        self.service, self.started = service, int(time.time())

    async def embeddings(self, request: Request) -> Response:
        metrics = self.service.metrics
        try:
            response = await self._answer(request)
        except asyncio.CancelledError:
            if not self.service.is_draining:
                raise
            ended = "The server ended before this request was answered."
            response = Refusal(503, ended, kind="server_error", headers={"Connection": "close"}).response
        except Exception as error:
            response = await _refused(request, error)
            metrics.cancelled.inc(isinstance(error, ClientDisconnect))
            if response.status_code == 500 and not isinstance(error, Refusal):
                metrics.requests.labels("500").inc()
                raise
        metrics.requests.labels(str(response.status_code)).inc()
        return response

    async def _answer(self, request: Request) -> Response:
        service = self.service
        body = await read_body(request, service.limits.request_bytes)
        start = time.monotonic()
        asked = await asyncio.to_thread(read_request, body, service.names, service.limits.inputs)
        found = await _unless_gone(request, service, asked)
        cut = found.truncated if service.truncate else None
        reply = await asyncio.to_thread(make_reply, asked, found.vectors, found.tokens, cut)
        headers = {"X-Fairspan-Truncated": str(len(found.truncated))} if found.truncated else None
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


async def _unless_gone(request: Request, service: Service, asked: Asked) -> Embedded:
    """What the service makes of a request, which leaves the queue if its client leaves."""
    work = asyncio.ensure_future(service.embed(asked))
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


async def read_body(request: Request, most: int) -> bytes:
    """The body, refused if it is too large or does not arrive."""
    close = {"Connection": "close"}
    refusal = too_large(f"The body is larger than {most:,} bytes, which is what is taken here.", headers=close)
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > most * _DROPPED:
        raise refusal
    body, size = bytearray(), 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > most * _DROPPED:
                    raise refusal
                if size <= most:
                    body += part
    except TimeoutError:
        message = f"The body did not arrive within {_BODY_SECONDS:.0f} s."
        raise Refusal(408, message, code="timeout", headers=close) from None
    if size > most:
        raise refusal
    return bytes(body)


class _Guard:
    """Lets nobody in without the key."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self.app, self.key = app, key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self.app
        if scope["type"] == "http" and scope["path"] not in _OPEN:
            given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            scheme, _, token = given.partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self.key):
                said = "The API key is wrong." if given else "An API key is needed: Authorization: Bearer KEY."
                headers = {"WWW-Authenticate": "Bearer"}
                app = Refusal(401, said, code="invalid_api_key", headers=headers).response
        await app(scope, receive, send)


async def _refused(request: Request, error: Exception) -> Response:
    """What is said of an error, in OpenAI's form."""
    match error:
        case Refusal():
            return error.response
        case HTTPException():
            said = f"{request.method} {request.url.path}: {error.detail}."
            return Refusal(error.status_code, said, headers=error.headers).response
        case ClientDisconnect():
            return Response(status_code=499)
        case FairspanError():
            return Refusal(400, str(error)).response
    said = "The server failed on this request; its log says why."
    return Refusal(500, said, kind="server_error").response
