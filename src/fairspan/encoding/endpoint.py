"""`Endpoint`: a model behind an OpenAI-compatible `/v1/embeddings`, as an object with `encode(list[str])`."""

from __future__ import annotations

import copy
import json
import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from random import random
from threading import Lock
from typing import Any
from urllib.request import getproxies, proxy_bypass

import numpy as np
import urllib3
from urllib3.exceptions import HTTPError, InvalidHeader

from fairspan.calibration.calibration import Side
from fairspan.errors import FairspanError, require_whole

BATCH_CHARACTERS = 64_000
"""How much a run sends in one request."""
_KEY = "OPENAI_API_KEY"
_CONNECT_SECONDS, _LONGEST_WAIT, _MOST_SECONDS = 10.0, 120.0, 600.0
# After 0, 1, 2, 4, … s: about six minutes.
_RETRIES = 10
# Of an answer, per text and once more: a vector of 10,000 dimensions has less than a quarter of it.
_TEXT_BYTES = 2**20
_log = logging.getLogger("fairspan.endpoint")
# How servers say that a text is too long or a request has too many, whatever the status they give it.
_TOO_MUCH = re.compile(
    r"(?=.*(token|length|text|input|batch|payload))"
    r".*(too (long|large|many|big)|maximum|exceed|at most|less than|longer)",
    re.I,
)


@dataclass(slots=True)
class Received:
    """What the answers of an endpoint have said so far; `characters` are those of answers that count tokens."""

    models: list[str] = field(default_factory=list)
    requests: int = 0
    characters: int = 0
    tokens: int | None = None
    dimension: int | None = None
    lock: Lock = field(default_factory=Lock, repr=False)


class Endpoint:
    """A model behind an OpenAI-compatible HTTP endpoint.

    Args:
        url: the address up to `/v1`, such as "http://localhost:8000/v1".
        model: the model's name on the server.
        api_key: sent as a bearer token; by default the environment variable OPENAI_API_KEY, if set. It is never
            shown or stored.
        dimensions: request shorter vectors.
        body: further fields of every request, such as {"truncate": True}.
        query_body: fields for queries instead of `body`, such as {"input_type": "query"}.
        concurrency: number of parallel requests in a run.
        batch: number of texts per request in a run; halved if the server refuses that many.
        timeout: seconds to wait for an answer.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str | None = None,
        dimensions: int | None = None,
        body: Mapping[str, Any] | None = None,
        query_body: Mapping[str, Any] | None = None,
        concurrency: int = 4,
        batch: int = 32,
        timeout: float = 120.0,
    ) -> None:
        self.url, self.model, self.dimensions = _normal(url), model, dimensions
        if not isinstance(model, str) or not model.strip():
            raise FairspanError(f"an endpoint needs the name of a model, got {model!r}.")
        for name, value in (
            ("concurrency", concurrency),
            ("batch", batch),
            ("dimensions", dimensions),
        ):
            require_whole(name, 1 if value is None else value)
        self.body = _checked("body", body or {})
        self.query_body = None if query_body is None else _checked("query_body", query_body)
        self.concurrency, self.batch = concurrency, batch
        self._timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=timeout)
        self._key = (os.environ.get(_KEY, "") if api_key is None else api_key).strip()
        if not re.fullmatch(r"[!-~]*", self._key):
            raise FairspanError("the endpoint's key has invalid characters, such as spaces.")
        self._pool = _pool_of(self.url, concurrency)
        self.received = Received()

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r}, {self.model!r})"

    @property
    def identity(self) -> str:
        """Everything known that decides its vectors. A server may put another model behind the same name."""
        return json.dumps(
            ["endpoint", self.url, self.model, self.dimensions, self.body, self.query_body]
        )

    @property
    def description(self) -> dict[str, Any]:
        """What a log says of it."""
        return {
            "endpoint": self.url,
            "dimensions": self.received.dimension or self.dimensions,
            "body": self.body,
            "query_body": self.query_body,
            "answers_name": list(self.received.models),
            "requests": self.received.requests,
            "prompt_tokens": self.received.tokens,
        }

    def on(self, side: Side) -> Endpoint:
        """The same for texts of one side only."""
        made = copy.copy(self)
        made.body = (
            self.query_body if side == "query" and self.query_body is not None else self.body
        )
        made.query_body = None
        return made

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        """[texts, dimension], from one request if the server takes that many texts; without a side, as documents."""
        status, content = self._send(sentences)
        if status == 200:
            return self._vectors(content, sentences)
        said = self._message(content)
        too_much = status == 413 or (status in (400, 422) and _TOO_MUCH.search(said))
        if too_much and len(sentences) > 1:
            middle = (len(sentences) + 1) // 2
            return np.concatenate(
                [self.encode(half) for half in (sentences[:middle], sentences[middle:])]
            )
        what, remedy = "the request", "try again later"
        if too_much:
            what = f"a text of {len(sentences[0]):,} characters that begins {sentences[0][:40]!r}"
            remedy = "use shorter documents, or raise the limit of the server"
        elif status in (401, 403):
            what = "the key" if self._key else f"no key, because {_KEY} is not set"
            remedy = f"set the environment variable {_KEY}"
        elif status < 500 and status != 429:
            remedy = "check the address, which often ends in /v1, the name of the model, and the fields of body"
        raise FairspanError(f"{self.url}/embeddings refuses {what} ({status}: {said}): {remedy}.")

    def _send(self, texts: Sequence[str]) -> tuple[int, bytes]:
        """Status and content of the answer; a server that is busy, restarts or cannot be reached is asked again."""
        asked: dict[str, Any] = {**self.body, "model": self.model, "input": texts}
        if self.dimensions is not None:
            asked["dimensions"] = self.dimensions
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else None
        how: Any = {
            "headers": headers,
            "timeout": self._timeout,
            "retries": False,
            "preload_content": False,
        }
        until = time.monotonic() + _MOST_SECONDS
        # Where nothing ever answered, the address is more likely wrong than the server busy.
        retries = _RETRIES if self.received.requests else 2
        for tried in count():
            wait = min(2.0 ** (tried - 1) + random(), _LONGEST_WAIT) if tried else 0.0
            try:
                answer = self._pool.request(
                    "POST", f"{self.url}/embeddings", json=asked, redirect=False, **how
                )
                content = self._content(answer, _TEXT_BYTES * (1 + len(texts)), until)
                retries, reason = _RETRIES, f"status {answer.status}"
                if tried == retries or (
                    answer.status not in (408, 425, 429) and answer.status < 500
                ):
                    return answer.status, content
                with suppress(InvalidHeader):
                    wait = urllib3.Retry().get_retry_after(answer) or wait
            except HTTPError as error:
                # Without the words of the library before it.
                reason = self._quoted(str(error).rpartition(": ")[2])
            if wait > _LONGEST_WAIT:
                reason = f"it asks to wait {wait:,.0f} s"
            elif time.monotonic() > until:
                reason = f"not within {_MOST_SECONDS:.0f} s"
            elif tried < retries:
                said = "the endpoint does not answer (%s): retrying in %.0f s, %d tries left"
                _log.warning(said, reason, wait, retries - tried - 1)
                time.sleep(wait)
                continue
            break
        raise FairspanError(
            f"{self.url} does not answer ({reason}): check the address, or try again later."
        )

    def _content(self, answer: urllib3.BaseHTTPResponse, most: int, until: float) -> bytes:
        found = bytearray()
        while part := answer.read1(2**16):
            found += part
            if len(found) > most or time.monotonic() > until:
                answer.close()
                raise FairspanError(
                    f"{self.url} is still answering after {most:,} bytes or {_MOST_SECONDS:.0f} s: check the address."
                )
        answer.release_conn()
        return bytes(found)

    def _message(self, content: bytes) -> str:
        """What the server says about an error, in one line."""
        found: Any = None
        with suppress(ValueError):
            found = json.loads(content)
        # OpenAI has error.message, others error, message or detail.
        for name in ("error", "message", "detail"):
            found = found.get(name, found) if isinstance(found, dict) else found
        return self._quoted(found if isinstance(found, str) else content.decode("utf-8", "replace"))

    def _quoted(self, text: str) -> str:
        """The server's words in one line, without the key if it repeats it."""
        return " ".join((text.replace(self._key, "…") if self._key else text).split())[:300]

    def _vectors(self, content: bytes, texts: Sequence[str]) -> np.ndarray:
        try:
            found = json.loads(content)
            places = [int(one.get("index", place)) for place, one in enumerate(found["data"])]
            given = [np.array(one["embedding"], dtype=np.float32) for one in found["data"]]
        except (ValueError, TypeError, KeyError, AttributeError):
            begins = self._quoted(content[:500].decode("utf-8", "replace"))[:60]
            raise FairspanError(
                f"{self.url}/embeddings answered without embeddings (it begins {begins!r}): check the address."
            ) from None
        if sorted(places) != list(range(len(texts))):
            raise FairspanError(
                f"{self.url} gave {len(given)} vectors for {len(texts)} texts, with the numbers {places[:5]} …"
            )
        vectors = [given[number] for number in np.argsort(places)]
        for text, vector in zip(texts, vectors, strict=True):
            if vector.ndim != 1 or not (np.isfinite(vector).all() and vector.any()):
                raise FairspanError(
                    f"{self.url} gave no usable vector for the text that begins {text[:40]!r}: it is empty, all "
                    "zero, or holds null, NaN or infinity."
                )
        self._note(found, texts, {len(one) for one in vectors})
        return np.stack(vectors)

    def _note(self, found: Mapping[str, Any], texts: Sequence[str], dimensions: set[int]) -> None:
        """Remember what an answer says of itself, and refuse vectors of another dimension."""
        received, usage = self.received, found.get("usage")
        tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        name = self._quoted(str(found.get("model") or ""))
        with received.lock:
            expected = self.dimensions or received.dimension or min(dimensions)
            if dimensions != {expected}:
                raise FairspanError(
                    f"{self.url} gave vectors of {max(dimensions)} dimensions where {expected} were expected."
                )
            received.dimension = expected
            received.requests += 1
            if isinstance(tokens, int) and tokens > 0:
                received.tokens = (received.tokens or 0) + tokens
                received.characters += sum(map(len, texts))
            if name and name not in received.models:
                received.models.append(name)


def _pool_of(url: str, connections: int) -> urllib3.PoolManager:
    """Through the proxy that the environment names for this address, if any, as other programs do."""
    parsed = urllib3.util.parse_url(url)
    proxy = getproxies().get(parsed.scheme or "")
    if not proxy or proxy_bypass(parsed.netloc or ""):
        return urllib3.PoolManager(maxsize=connections)
    headers = urllib3.make_headers(proxy_basic_auth=urllib3.util.parse_url(proxy).auth)
    return urllib3.ProxyManager(proxy, proxy_headers=headers, maxsize=connections)


def _normal(url: str) -> str:
    """An address in one form, without what would be a secret."""
    try:
        parsed = urllib3.util.parse_url(url.strip())
    except urllib3.exceptions.LocationParseError:
        parsed = urllib3.util.Url()
    known = parsed.scheme in ("http", "https")
    if not (known and parsed.host) or parsed.auth or parsed.query or parsed.fragment:
        raise FairspanError(
            "an endpoint is an address that begins with http:// or https://, such as http://localhost:8000/v1, and "
            "has no user, query or fragment: put a key into an environment variable."
        )
    path = (parsed.path or "").rstrip("/").removesuffix("/embeddings")
    return f"{parsed.scheme}://{parsed.netloc}{path or '/v1'}"


def _checked(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    try:
        made = json.loads(json.dumps(body, allow_nan=False, sort_keys=True))
    except (TypeError, ValueError) as error:
        raise FairspanError(f"{name} cannot be written as JSON: {error}.") from None
    if not isinstance(made, dict):
        raise FairspanError(f"{name} must be a JSON object of further fields, got {body!r}.")
    return made
