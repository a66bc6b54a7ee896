"""`Endpoint`: a model behind an OpenAI-compatible `/v1/embeddings`, with `encode(list[str])`."""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import finalize

import numpy as np

from fairspan.calibration.calibration import Side
from fairspan.errors import FairspanError, MissingExtra, require_whole

if TYPE_CHECKING:
    from openai import OpenAI

BATCH_CHARACTERS = 64_000
"""How much a run sends in one request."""
_KEY = "OPENAI_API_KEY"
_NO_KEY = "none"
"""The client needs a key, also for servers that need none."""
_CONNECT_SECONDS = 10.0
_RETRIES = 10
# Where nothing ever answered, the address is more likely wrong than the server busy.
_FIRST_RETRIES = 3
# How servers say that a text is too long or a request has too many, with any status.
_TOO_MUCH = re.compile(
    r"(?=.*(token|length|text|input|batch|payload))"
    r".*(too (long|large|many|big)|maximum|exceed|at most|less than|longer)",
    re.I,
)


@dataclass(slots=True, weakref_slot=True)
class Received:
    """What an endpoint's answers said so far."""

    models: list[str] = field(default_factory=list)
    requests: int = 0
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
        self._key = (os.environ.get(_KEY, "") if api_key is None else api_key).strip()
        if not re.fullmatch(r"[!-~]*", self._key):
            raise FairspanError("the endpoint's key has invalid characters, such as spaces.")
        self._client = _client_of(self.url, self._key, timeout)
        self.received = Received()
        # Copies for one side share both; connections close with the last of them.
        finalize(self.received, self._client.close)

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
        too_much = status == 413 or (status in (400, 422) and bool(_TOO_MUCH.search(message)))
        if too_much and len(sentences) > 1:
            middle = (len(sentences) + 1) // 2
            halves = (sentences[:middle], sentences[middle:])
            return np.concatenate([self.encode(half) for half in halves])
        if too_much:
            what = f"a text of {len(sentences[0]):,} characters that begins {sentences[0][:40]!r}"
            remedy = "use shorter documents, or raise the limit of the server"
        else:
            what, remedy = self._refusal(status)
        raise FairspanError(
            f"{self.url}/embeddings refuses {what} ({status}: {message}): {remedy}."
        )

    def _send(self, texts: Sequence[str]) -> tuple[int, str]:
        """Status and content of the answer; the client asks again where a server is busy."""
        from openai import APIConnectionError, APIStatusError

        body: dict[str, Any] = {**self.body, "model": self.model, "input": list(texts)}
        if self.dimensions is not None:
            body["dimensions"] = self.dimensions
        retries = _RETRIES if self.received.requests else _FIRST_RETRIES
        try:
            content = self._client.post(
                "/embeddings",
                cast_to=str,
                body=body,
                options={"max_retries": retries, "follow_redirects": False},
            )
        except APIStatusError as error:
            return error.status_code, error.response.text
        except APIConnectionError as error:
            reason = self._quoted(str(error.__cause__ or "") or str(error))
            raise FairspanError(
                f"{self.url} does not answer ({reason}): check the address, or try again later."
            ) from None
        return 200, content

    def _refusal(self, status: int) -> tuple[str, str]:
        """What a server refuses with a status, and what to do."""
        if status in (401, 403):
            what = "the key" if self._key else f"no key, because {_KEY} is not set"
            return what, f"set the environment variable {_KEY}"
        if status >= 500 or status in (408, 429):
            return "the request", "try again later"
        remedy = "check the address, which often ends in /v1, the name of the model, and the fields"
        return "the request", f"{remedy} of body"

    def _message(self, content: str) -> str:
        """What the server says about an error, in one line."""
        answer: Any = None
        with suppress(ValueError):
            answer = json.loads(content)
        # OpenAI has error.message, others error, message or detail.
        for name in ("error", "message", "detail"):
            answer = answer.get(name, answer) if isinstance(answer, dict) else answer
        return self._quoted(answer if isinstance(answer, str) else content)

    def _quoted(self, text: str) -> str:
        """The server's words in one line, without the key if it repeats it."""
        return " ".join((text.replace(self._key, "…") if self._key else text).split())[:300]

    def _vectors(self, content: str, texts: Sequence[str]) -> np.ndarray:
        """[texts, dimension], the vectors of an answer in the order of the texts."""
        try:
            answer = json.loads(content)
            rows = answer["data"]
            numbers = [int(row.get("index", number)) for number, row in enumerate(rows)]
            unordered = [np.array(row["embedding"], dtype=np.float32) for row in rows]
        except (ValueError, TypeError, KeyError, AttributeError):
            begins = self._quoted(content[:500])[:60]
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
        self._note(answer, {len(vector) for vector in vectors})
        return np.stack(vectors)

    def _note(self, answer: Mapping[str, Any], dimensions: set[int]) -> None:
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
            if name and name not in received.models:
                received.models.append(name)


def _client_of(url: str, key: str, timeout: float) -> OpenAI:
    """The client that sends, retries and reads; proxies come from the environment."""
    try:
        from openai import OpenAI, Timeout
    except ImportError:
        raise MissingExtra("an endpoint needs openai: pip install 'fairspan[endpoint]'.") from None
    limits = Timeout(timeout, connect=min(timeout, _CONNECT_SECONDS))
    return OpenAI(base_url=url, api_key=key or _NO_KEY, timeout=limits)


def _normal(url: str) -> str:
    """An address in one form, without what would be a secret."""
    try:
        parts = urlsplit(url.strip())
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or "@" in parts.netloc or parts.query or parts.fragment:
        raise FairspanError(
            "an endpoint is an address that begins with http:// or https://, such as "
            "http://localhost:8000/v1, and has no user, query or fragment: put a key into an "
            "environment variable."
        )
    path = parts.path.rstrip("/").removesuffix("/embeddings")
    return f"{parts.scheme}://{parts.netloc.lower()}{path or '/v1'}"


def _checked(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Further fields of a request as JSON reads them."""
    try:
        fields = json.loads(json.dumps(body, allow_nan=False, sort_keys=True))
    except (TypeError, ValueError) as error:
        raise FairspanError(f"{name} cannot be written as JSON: {error}.") from None
    if not isinstance(fields, dict):
        raise FairspanError(f"{name} must be a JSON object of further fields, got {body!r}.")
    return fields
