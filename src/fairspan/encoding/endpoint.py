"""`Endpoint`: a model behind an OpenAI-compatible `/v1/embeddings`, with `encode(list[str])`."""

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
from threading import Lock
from typing import Any
from urllib.request import getproxies, proxy_bypass

import numpy as np
import urllib3
from urllib3.exceptions import HTTPError, InvalidHeader, MaxRetryError

from fairspan.calibration.calibration import Side
from fairspan.errors import FairspanError, require_whole

BATCH_CHARACTERS = 64_000
"""How much a run sends in one request."""
_KEY = "OPENAI_API_KEY"
_CONNECT_SECONDS = 10.0
_LONGEST_WAIT = 120
_MOST_SECONDS = 600.0
# Statuses below 500 that may be another one later.
_BUSY = (408, 425, 429)
# After 0, 1, 2, 4, … s and up to one more: about six minutes.
_RETRIES = 10
_BACKOFF: Any = {"backoff_factor": 0.5, "backoff_max": _LONGEST_WAIT, "backoff_jitter": 1.0}
# Where nothing ever answered, the address is more likely wrong than the server busy.
_FIRST_RETRIES = 2
# Of an answer, per text and once more: a vector of 10,000 dimensions has less than a quarter of it.
_TEXT_BYTES = 2**20
_log = logging.getLogger("fairspan.endpoint")
# How servers say that a text is too long or a request has too many, with any status.
_TOO_MUCH = re.compile(
    r"(?=.*(token|length|text|input|batch|payload))"
    r".*(too (long|large|many|big)|maximum|exceed|at most|less than|longer)",
    re.I,
)


@dataclass(slots=True)
class Received:
    """What an endpoint's answers said so far; `characters` are those of answers with `tokens`."""

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
        api_key: sent as a bearer token; by default the environment variable OPENAI_API_KEY, if set.
            It is never shown or stored.
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
        """Check the settings; nothing is sent."""
        self.url = _normal(url)
        if not isinstance(model, str) or not model.strip():
            raise FairspanError(f"an endpoint needs the name of a model, got {model!r}.")
        require_whole("concurrency", concurrency)
        require_whole("batch", batch)
        if dimensions is not None:
            require_whole("dimensions", dimensions)
        self.model = model
        self.dimensions = dimensions
        self.body = _checked("body", body or {})
        self.query_body = None if query_body is None else _checked("query_body", query_body)
        self.concurrency = concurrency
        self.batch = batch
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
        """All that decides its vectors. A server may put another model behind the same name."""
        settings = [self.url, self.model, self.dimensions, self.body, self.query_body]
        return json.dumps(["endpoint", *settings])

    def on(self, side: Side) -> Endpoint:
        """The same endpoint for texts of one side only."""
        endpoint = copy.copy(self)
        if side == "query" and self.query_body is not None:
            endpoint.body = self.query_body
        endpoint.query_body = None
        return endpoint

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        """[texts, dimension], from one request if the server takes that many texts.

        Without a side texts are documents.
        """
        status, content = self._send(sentences)
        if status == 200:
            return self._vectors(content, sentences)
        message = self._message(content)
        too_much = status == 413 or (status in (400, 422) and _TOO_MUCH.search(message))
        if too_much and len(sentences) > 1:
            middle = (len(sentences) + 1) // 2
            halves = (sentences[:middle], sentences[middle:])
            return np.concatenate([self.encode(half) for half in halves])
        what = "the request"
        remedy = "try again later"
        if too_much:
            what = f"a text of {len(sentences[0]):,} characters that begins {sentences[0][:40]!r}"
            remedy = "use shorter documents, or raise the limit of the server"
        elif status in (401, 403):
            what = "the key" if self._key else f"no key, because {_KEY} is not set"
            remedy = f"set the environment variable {_KEY}"
        elif status < 500 and status != 429:
            remedy = (
                "check the address, which often ends in /v1, the name of the model, and the "
                "fields of body"
            )
        raise FairspanError(
            f"{self.url}/embeddings refuses {what} ({status}: {message}): {remedy}."
        )

    def _send(self, texts: Sequence[str]) -> tuple[int, bytes]:
        """Status and content of the answer; a server that is busy or away is asked again."""
        body: dict[str, Any] = {**self.body, "model": self.model, "input": texts}
        if self.dimensions is not None:
            body["dimensions"] = self.dimensions
        url = f"{self.url}/embeddings"
        options: Any = {"timeout": self._timeout, "redirect": False, "preload_content": False}
        if self._key:
            options["headers"] = {"Authorization": f"Bearer {self._key}"}
        # urllib3 only counts the tries: it reads answers of any length, and does not retry one that
        # breaks off.
        until = time.monotonic() + _MOST_SECONDS
        total = _RETRIES if self.received.requests else _FIRST_RETRIES
        retries = urllib3.Retry(total, allowed_methods=None, **_BACKOFF)
        while True:
            try:
                answer = self._pool.request("POST", url, json=body, retries=False, **options)
                content = self._content(answer, _TEXT_BYTES * (1 + len(texts)), until)
            except HTTPError as error:
                # Without the words of the library before it.
                reason = self._quoted(str(error).rpartition(": ")[2])
                retries = self._wait(retries, until, reason, error=error)
                continue
            # A server that answers is there.
            retries = retries.new(total=_RETRIES - len(retries.history))
            if not retries.total or (answer.status not in _BUSY and answer.status < 500):
                return answer.status, content
            retries = self._wait(retries, until, f"status {answer.status}", response=answer)

    def _wait(
        self, retries: urllib3.Retry, until: float, reason: str, **outcome: Any
    ) -> urllib3.Retry:
        """One retry fewer, after the wait before it; raise if there is none, or it is too late.

        `outcome` is the `error` of a request, or the `response` to it.
        """
        with suppress(MaxRetryError):
            retries = retries.increment("POST", self.url, **outcome)
            wait = retries.get_backoff_time()
            with suppress(InvalidHeader, KeyError):
                wait = retries.get_retry_after(outcome["response"]) or wait
            if wait > _LONGEST_WAIT:
                reason = f"it asks to wait {wait:,.0f} s"
            elif time.monotonic() > until:
                reason = f"not within {_MOST_SECONDS:.0f} s"
            else:
                message = "the endpoint does not answer (%s): retrying in %.0f s, %d tries left"
                _log.warning(message, reason, wait, retries.total)
                time.sleep(wait)
                return retries
        raise FairspanError(
            f"{self.url} does not answer ({reason}): check the address, or try again later."
        )

    def _content(self, answer: urllib3.BaseHTTPResponse, most: int, until: float) -> bytes:
        """The bytes of an answer; raise if there are more than `most`, or they take too long."""
        content = bytearray()
        while part := answer.read1(2**16):
            content += part
            if len(content) > most or time.monotonic() > until:
                answer.close()
                raise FairspanError(
                    f"{self.url} is still answering after {most:,} bytes or {_MOST_SECONDS:.0f} s: "
                    "check the address."
                )
        answer.release_conn()
        return bytes(content)

    def _message(self, content: bytes) -> str:
        """What the server says about an error, in one line."""
        answer: Any = None
        with suppress(ValueError):
            answer = json.loads(content)
        # OpenAI has error.message, others error, message or detail.
        for name in ("error", "message", "detail"):
            answer = answer.get(name, answer) if isinstance(answer, dict) else answer
        words = answer if isinstance(answer, str) else content.decode("utf-8", "replace")
        return self._quoted(words)

    def _quoted(self, text: str) -> str:
        """The server's words in one line, without the key if it repeats it."""
        return " ".join((text.replace(self._key, "…") if self._key else text).split())[:300]

    def _vectors(self, content: bytes, texts: Sequence[str]) -> np.ndarray:
        """[texts, dimension], the vectors of an answer in the order of the texts."""
        try:
            answer = json.loads(content)
            rows = answer["data"]
            numbers = [int(row.get("index", number)) for number, row in enumerate(rows)]
            unordered = [np.array(row["embedding"], dtype=np.float32) for row in rows]
        except (ValueError, TypeError, KeyError, AttributeError):
            begins = self._quoted(content[:500].decode("utf-8", "replace"))[:60]
            raise FairspanError(
                f"{self.url}/embeddings answered without embeddings (it begins {begins!r}): check "
                "the address."
            ) from None
        if sorted(numbers) != list(range(len(texts))):
            raise FairspanError(
                f"{self.url} gave {len(rows)} vectors for {len(texts)} texts, with the numbers "
                f"{numbers[:5]} …"
            )
        vectors = [unordered[number] for number in np.argsort(numbers)]
        for text, vector in zip(texts, vectors, strict=True):
            if vector.ndim != 1 or not (np.isfinite(vector).all() and vector.any()):
                raise FairspanError(
                    f"{self.url} gave no usable vector for the text that begins {text[:40]!r}: it "
                    "is empty, all zero, or holds null, NaN or infinity."
                )
        self._note(answer, texts, {len(vector) for vector in vectors})
        return np.stack(vectors)

    def _note(self, answer: Mapping[str, Any], texts: Sequence[str], dimensions: set[int]) -> None:
        """Remember what an answer says of itself, and refuse vectors of another dimension."""
        usage = answer.get("usage")
        tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        name = self._quoted(str(answer.get("model") or ""))
        received = self.received
        with received.lock:
            expected = self.dimensions or received.dimension or min(dimensions)
            if dimensions != {expected}:
                raise FairspanError(
                    f"{self.url} gave vectors of {max(dimensions)} dimensions where {expected} "
                    "were expected."
                )
            received.dimension = expected
            received.requests += 1
            if isinstance(tokens, int) and tokens > 0:
                received.tokens = (received.tokens or 0) + tokens
                received.characters += sum(map(len, texts))
            if name and name not in received.models:
                received.models.append(name)


def _pool_of(url: str, connections: int) -> urllib3.PoolManager:
    """Connections through the proxy that the environment names for this address, if any."""
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
    is_address = parsed.scheme in ("http", "https") and parsed.host
    if not is_address or parsed.auth or parsed.query or parsed.fragment:
        raise FairspanError(
            "an endpoint is an address that begins with http:// or https://, such as "
            "http://localhost:8000/v1, and has no user, query or fragment: put a key into an "
            "environment variable."
        )
    path = (parsed.path or "").rstrip("/").removesuffix("/embeddings")
    return f"{parsed.scheme}://{parsed.netloc}{path or '/v1'}"


def _checked(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Further fields of a request as JSON reads them."""
    try:
        fields = json.loads(json.dumps(body, allow_nan=False, sort_keys=True))
    except (TypeError, ValueError) as error:
        raise FairspanError(f"{name} cannot be written as JSON: {error}.") from None
    if not isinstance(fields, dict):
        raise FairspanError(f"{name} must be a JSON object of further fields, got {body!r}.")
    return fields
