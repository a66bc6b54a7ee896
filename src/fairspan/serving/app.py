"""`make_app`: a service as an ASGI application."""

from __future__ import annotations

import asyncio
import hmac
import logging
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

from fairspan.serving.batcher import QueueFull
from fairspan.serving.metrics import CONTENT_TYPE
from fairspan.serving.protocol import Asked, Refusal, make_reply, read_request, too_large
from fairspan.serving.service import Embedded, Service, busy, off_loop

_log = logging.getLogger("fairspan.serving")
# Whoever watches a server has no key, and a page has to be there before it can ask for one.
_OPEN = ("/", "/health")
# A body that takes longer than this to arrive holds up nobody but itself, though not forever.
_BODY_SECONDS = 60.0
# A body beyond the limit is read and dropped up to this many times it: who is still sending gets no reply.
_DROPPED = 8
_CLIENT_GONE = 499


def make_app(service: Service, *, key: str | None = None, routes: Sequence[BaseRoute] = ()) -> Starlette:
    """A service as an ASGI application, which any ASGI server runs.

    Args:
        key: what clients have to send as `Authorization: Bearer KEY`, for all but `/` and `/health`.
        routes: more than the API's.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        warming = asyncio.create_task(service.start())
        warming.add_done_callback(_say_failure)
        yield
        warming.cancel()
        await asyncio.to_thread(service.close, 1.0)

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
        exception_handlers={HTTPException: _not_there, QueueFull: _full, Exception: _went_wrong},
        lifespan=lifespan,
    )
    app.state.service = service
    return app


class _Api:
    def __init__(self, service: Service) -> None:
        self.service, self.started = service, int(time.time())

    async def embeddings(self, request: Request) -> Response:
        status = 500
        try:
            response = await self._answer(request)
            status = response.status_code
        except Refusal as refusal:
            status = refusal.status
            response = JSONResponse(refusal.body, status, refusal.headers)
        except asyncio.CancelledError:
            if not self.service.is_draining:
                raise
            status = 503
            ended = Refusal(status, "The server ended before this request was answered.", kind="server_error")
            response = JSONResponse(ended.body, status, {"Connection": "close"})
        except ClientDisconnect:
            status = _CLIENT_GONE
            self.service.metrics.cancelled.inc()
            response = Response(status_code=status)
        finally:
            self.service.metrics.requests.labels(str(status)).inc()
        return response

    async def _answer(self, request: Request) -> Response:
        service = self.service
        body = await _read_body(request, service.limits.request_bytes)
        start = time.monotonic()
        asked = read_request(body, service.names, service.limits.inputs)
        found = await _unless_gone(request, service, asked)
        cut = found.truncated if service.truncate else None
        reply = await off_loop(found.vectors.size, lambda: make_reply(asked, found.vectors, found.tokens, cut))
        headers = {"X-Fairspan-Truncated": str(len(found.truncated))} if found.truncated else None
        service.metrics.request_seconds.observe(time.monotonic() - start)
        return Response(reply, headers=headers, media_type="application/json")

    async def models(self, request: Request) -> Response:
        data = [self._model(name) for name in self.service.names.every]
        return JSONResponse({"object": "list", "data": data})

    async def model(self, request: Request) -> Response:
        name = request.path_params["name"]
        try:
            self.service.names.side(name)
        except Refusal as refusal:
            return JSONResponse(refusal.body, refusal.status)
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


async def _read_body(request: Request, most: int) -> bytes:
    """The body, refused as soon as it is too large."""
    refusal = too_large(f"The body is larger than {most:,} bytes, which is what this server takes.")
    refusal.headers["Connection"] = "close"
    announced = request.headers.get("content-length", "")
    waits = "expect" in request.headers
    if announced.isdecimal() and int(announced) > most * (1 if waits else _DROPPED):
        raise refusal
    parts, size = [], 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > most * _DROPPED:
                    raise refusal
                if size <= most:
                    parts.append(part)
                else:
                    parts.clear()
    except TimeoutError:
        message = f"The body did not arrive within {_BODY_SECONDS:.0f} s."
        raise Refusal(408, message, code="timeout", headers={"Connection": "close"}) from None
    if size > most:
        raise refusal
    return b"".join(parts)


class _Guard:
    """Lets nobody in without the key."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self.app, self.key = app, key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in _OPEN:
            given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            scheme, _, token = given.partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self.key):
                said = "The API key is wrong." if given else "An API key is needed: Authorization: Bearer KEY."
                refusal = Refusal(401, said, code="invalid_api_key")
                response = JSONResponse(refusal.body, 401, {"WWW-Authenticate": "Bearer"})
                await response(scope, receive, send)
                return
        await self.app(scope, receive, send)


async def _not_there(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    refusal = Refusal(error.status_code, f"{request.method} {request.url.path}: {error.detail}.")
    return JSONResponse(refusal.body, error.status_code, error.headers)


async def _full(request: Request, error: Exception) -> Response:
    """For routes that ask the model directly."""
    assert isinstance(error, QueueFull)
    refusal = busy(error.seconds)
    return JSONResponse(refusal.body, refusal.status, refusal.headers)


async def _went_wrong(request: Request, error: Exception) -> Response:
    refusal = Refusal(500, "The server failed on this request; its log says why.", kind="server_error")
    return JSONResponse(refusal.body, 500)


def _say_failure(warming: asyncio.Task[None]) -> None:
    if not warming.cancelled() and warming.exception() is not None:
        _log.error("the server does not become ready: %s", warming.exception())
