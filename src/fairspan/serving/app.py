"""`make_app`: a service as an ASGI application."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from typing import TypeVar
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fairspan.errors import FairspanError
from fairspan.serving.metrics import CONTENT_TYPE
from fairspan.serving.protocol import Refusal, make_reply, read_request, too_large
from fairspan.serving.service import Service

Result = TypeVar("Result")

# Health checks have no key, and a page must load before it can ask for one.
_OPEN = ("/", "/health")
# How long a body may take to arrive, and how long nothing of it may come.
_BODY_SECONDS, _PART_SECONDS = 60.0, 15.0
# A body beyond the limit is read and dropped up to this many times it: a client that is still sending gets no reply.
_DROPPED = 8


def make_app(
    service: Service,
    *,
    key: str | None = None,
    routes: Sequence[BaseRoute] = (),
    allowed_hosts: Sequence[str] | None = None,
) -> Starlette:
    """A service as an ASGI application, which any ASGI server runs.

    Args:
        key: what clients have to send as `Authorization: Bearer KEY`, for all but `/` and `/health`.
        routes: more than the API's.
        allowed_hosts: names that clients may call the server by, besides localhost and IP addresses; "*" for any.
            None means any with a key, which no page of another site has, and none without.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        service.batcher.close()

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
        middleware=[
            Middleware(
                _Guard,
                key=key,
                hosts=("*",) if key and allowed_hosts is None else allowed_hosts or (),
            )
        ],
        exception_handlers=dict.fromkeys(
            (HTTPException, Refusal, FairspanError, ClientDisconnect, Exception), _refused
        ),
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
            self.service.batcher.refuse_if_full(1)
            body = await read_body(request, self.service.limits.body_bytes)
            response = await unless_gone(request, self._reply(body))
        except asyncio.CancelledError:
            if not self.service.is_draining:
                raise
            ended = "The server ended before this request was answered."
            response = Refusal(
                503, ended, kind="server_error", headers={"Connection": "close"}
            ).response
        except Exception as error:
            response = await _refused(request, error)
            metrics.cancelled.inc(isinstance(error, ClientDisconnect))
            if response.status_code == 500 and not isinstance(error, Refusal):
                metrics.requests.labels("500").inc()
                raise
        metrics.requests.labels(str(response.status_code)).inc()
        return response

    async def _reply(self, body: bytearray) -> Response:
        service, start = self.service, time.monotonic()
        asked = await service.in_turn(
            len(body), read_request, body, service.names, service.limits.inputs
        )
        vectors, tokens, truncated = await service.embed(asked)
        cut = truncated if service.truncate else None
        reply = await service.in_turn(vectors.size, make_reply, asked, vectors, tokens, cut)
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


async def unless_gone(request: Request, doing: Coroutine[None, None, Result]) -> Result:
    """What comes of a request whose body was read; cancelled if its client leaves."""
    work = asyncio.ensure_future(doing)
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


async def read_body(request: Request, most: int) -> bytearray:
    """The body of JSON, refused if it is too large or does not arrive."""
    if (
        request.headers.get("content-type", "").partition(";")[0].strip().lower()
        != "application/json"
    ):
        # Pages of other sites can send other types without asking.
        raise Refusal(
            415, "The header Content-Type must be application/json.", code="unsupported_media_type"
        )
    close = {"Connection": "close"}
    refusal = too_large(f"The body is larger than {most:,} bytes, the limit here.", headers=close)
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > most * _DROPPED:
        raise refusal
    body, size = bytearray(), 0
    try:
        async with asyncio.timeout(_BODY_SECONDS), asyncio.timeout(_PART_SECONDS) as next_part:
            async for part in request.stream():
                next_part.reschedule(asyncio.get_running_loop().time() + _PART_SECONDS)
                size += len(part)
                if size > most * _DROPPED:
                    raise refusal
                if size <= most:
                    body += part
    except TimeoutError:
        message = f"The body did not arrive within {_BODY_SECONDS:.0f} s, or nothing of it for {_PART_SECONDS:.0f} s."
        raise Refusal(408, message, code="timeout", headers=close) from None
    if size > most:
        raise refusal
    return body


class _Guard:
    """Refuses requests without the key, and those of other sites."""

    def __init__(self, app: ASGIApp, key: str | None, hosts: Sequence[str]) -> None:
        self.app, self.key = app, None if key is None else key.encode()
        self.hosts = [host.lower() for host in hosts]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = (
            self._refusal(scope["path"], Headers(scope=scope)) if scope["type"] == "http" else None
        )
        await (self.app if refusal is None else refusal.response)(scope, receive, send)

    def _refusal(self, path: str, headers: Headers) -> Refusal | None:
        host = headers.get("host", "")
        if "*" not in self.hosts:
            if (
                host
                and _name(host) not in ("localhost", *self.hosts)
                and not _is_address(_name(host))
            ):
                said = f"The host name {_name(host)[:80]!r} is not allowed: use the address, or --allowed-hosts."
                return Refusal(403, said, code="host_not_allowed")
            origin = headers.get("origin", f"http://{host}").partition("://")[2]
            if origin != host and _name(origin) not in self.hosts:
                return Refusal(
                    403, "Requests from other origins are not allowed.", code="origin_not_allowed"
                )
        if self.key is None or path in _OPEN:
            return None
        given = headers.get("authorization", "").encode("latin-1")
        scheme, _, token = given.partition(b" ")
        if scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self.key):
            return None
        said = (
            "The API key is wrong." if given else "An API key is needed: Authorization: Bearer KEY."
        )
        return Refusal(401, said, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})


def _name(netloc: str) -> str:
    """The host of `host:port`, without the brackets of IPv6."""
    with suppress(ValueError):
        return urlsplit(f"//{netloc}").hostname or ""
    return ""


def _is_address(host: str) -> bool:
    """Of addresses, unlike names, no site can say that they are its own."""
    with suppress(ValueError):
        return bool(ip_address(host))
    return False


async def _refused(request: Request, error: Exception) -> Response:
    """What is said of an error, in OpenAI's form."""
    match error:
        case Refusal():
            return error.response
        case HTTPException():
            said = f"{request.method} {request.url.path[:200]}: {error.detail}."
            return Refusal(error.status_code, said, headers=error.headers).response
        case ClientDisconnect():
            return Response(status_code=499)
        case FairspanError():
            return Refusal(400, str(error)).response
    said = "The server failed on this request; its log says why."
    return Refusal(500, said, kind="server_error").response
