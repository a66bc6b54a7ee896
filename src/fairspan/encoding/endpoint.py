"""`Endpoint`: a model behind an OpenAI-compatible `/v1/embeddings`, as an object with `encode(list[str])`."""

from __future__ import annotations

import base64
import copy
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
import urllib3

from fairspan.calibration.temperature import Side
from fairspan.encoding.client import Answer, Client
from fairspan.encoding.parallel import in_parallel
from fairspan.errors import EncodingError, require_whole

DEFAULT_KEY = "OPENAI_API_KEY"
BATCH_CHARACTERS = 64_000
_OWN_FIELDS = ("model", "input", "dimensions")
# How servers say that a text is too long or a request has too many, whatever the status they give it.
_TOO_MUCH = re.compile(
    r"(?=.*(token|length|text|input|batch|payload))"
    r".*(too (long|large|many|big)|maximum|exceed|at most|less than|longer)",
    re.I,
)


@dataclass(slots=True)
class Received:
    """What the answers of an endpoint have said so far."""

    models: list[str] = field(default_factory=list)
    requests: int = 0
    texts: int = 0
    characters: int = 0
    tokens: int | None = None
    dimension: int | None = None
    lock: Lock = field(default_factory=Lock, repr=False)


class Endpoint:
    """A model that is asked for vectors over HTTP.

    Args:
        url: the address up to `/v1`, such as "http://localhost:8000/v1".
        model: the name that the server knows the model by.
        api_key: sent as a bearer token; by default what the environment variable `api_key_env` holds, if anything.
            It is kept nowhere.
        dimensions: ask for shorter vectors.
        body: further fields of every request, such as {"truncate": True}.
        query_body: the fields for queries in place of `body`, such as {"input_type": "query"}.
        concurrency: number of requests under way at a time.
        batch: number of texts in a request; halved where the server refuses that many.
        timeout: seconds to wait for an answer.
        patience: seconds in which a request that failed is tried again.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str | None = None,
        api_key_env: str | None = None,
        dimensions: int | None = None,
        body: Mapping[str, Any] | None = None,
        query_body: Mapping[str, Any] | None = None,
        concurrency: int = 4,
        batch: int = 32,
        timeout: float = 120.0,
        patience: float = 300.0,
    ) -> None:
        self.url, self.model, self.dimensions = _normal(url), model, dimensions
        if not isinstance(model, str) or not model.strip():
            raise EncodingError(f"an endpoint needs the name of a model, got {model!r}.")
        for name, value in (("concurrency", concurrency), ("batch", batch), ("dimensions", dimensions)):
            if value is not None:
                require_whole(name, value)
        for name, seconds in (("timeout", timeout), ("patience", patience)):
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
                raise EncodingError(f"[[{name}]] must be a number of seconds above 0, got {seconds!r}.")
        self.body = _checked("body", {} if body is None else body)
        self.query_body = None if query_body is None else _checked("query_body", query_body)
        self.concurrency, self.batch = concurrency, batch
        self._key_name = api_key_env or DEFAULT_KEY
        self.client = Client(self.url, _key_of(api_key, api_key_env), concurrency, timeout, patience)
        self.received = Received()

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r}, {self.model!r})"

    @property
    def identity(self) -> str:
        """Everything known that decides its vectors. A server may put another model behind the same name."""
        sides = [self.body, *([] if self.query_body is None else [self.query_body])]
        return json.dumps(["endpoint", self.url, self.model, self.dimensions, *sides], sort_keys=True)

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
        made.body = self.query_body if side == "query" and self.query_body is not None else self.body
        made.query_body = None
        return made

    def encode(self, sentences: list[str], /) -> np.ndarray:
        """[texts, dimension]; of an endpoint with a `query_body`, as documents."""
        if not sentences:
            return np.empty((0, self.dimensions or 0), dtype=np.float32)
        parts = list(in_parallel(self._embed, self._requests(sentences), self.concurrency))
        return np.concatenate([vectors for _, vectors in sorted(parts, key=lambda part: part[0][0])])

    def _requests(self, sentences: Sequence[str]) -> list[tuple[int, list[str]]]:
        """What fits into one request, with the number of its first text."""
        made: list[tuple[int, list[str]]] = []
        room = 0
        for number, text in enumerate(sentences):
            room -= len(text)
            if not made or room < 0 or len(made[-1][1]) == self.batch:
                made.append((number, []))
                room = BATCH_CHARACTERS - len(text)
            made[-1][1].append(text)
        return made

    def _embed(self, part: tuple[int, list[str]]) -> np.ndarray:
        first, texts = part
        asked: dict[str, Any] = {**self.body, "model": self.model, "input": texts}
        if self.dimensions is not None:
            asked["dimensions"] = self.dimensions
        answer = self.client.send("POST", "/embeddings", asked)
        if answer.status == 200:
            return self._vectors(answer, texts)
        too_much = answer.status == 413 or (answer.status in (400, 422) and _TOO_MUCH.search(answer.message))
        if too_much and len(texts) > 1:
            middle = (len(texts) + 1) // 2
            return np.concatenate([self._embed((first, half)) for half in (texts[:middle], texts[middle:])])
        raise EncodingError(self._refusal(answer, texts[0] if too_much else None))

    def _refusal(self, answer: Answer, too_long: str | None) -> str:
        """Why an answer has no vectors, and what to do."""
        said, status = answer.message, answer.status
        if too_long is not None:
            return (
                f"{self.url} refuses a text of {len(too_long):,} characters that begins {too_long[:40]!r} ({status}: "
                f"{said}): use shorter documents, or raise the limit of the server."
            )
        if status in (401, 403):
            key = f"the key in {self._key_name}" if answer.secret else f"no key, because {self._key_name} is not set"
            return f"{self.url} refuses {key} ({status}: {said}): set the environment variable {self._key_name}."
        if status == 404:
            names = self._models()
            if names and self.model not in names:
                return f"{self.url} has no model {self.model!r}: it has {', '.join(names[:10])}."
            return (
                f"{self.url}/embeddings is not there ({status}: {said}): check the address, which often ends in /v1, "
                "and the name of the model."
            )
        if 300 <= status < 400:
            where = answer.quoted(answer.headers.get("location", "another address").partition("?")[0], 200)
            return f"{self.url} redirects to {where} ({status}): give the address of the endpoint itself."
        return f"{self.url} refuses the request ({status}: {said})."

    def _models(self) -> list[str]:
        """The names that the server lists, if it does."""
        try:
            found = self.client.send_once("GET", "/models").json
        except urllib3.exceptions.HTTPError:
            return []
        listed = found.get("data") if isinstance(found, dict) else None
        return [str(one["id"]) for one in listed or [] if isinstance(one, dict) and "id" in one]

    def _vectors(self, answer: Answer, texts: Sequence[str]) -> np.ndarray:
        found = answer.json
        data = found.get("data") if isinstance(found, dict) else None
        if not isinstance(data, list) or not all(isinstance(one, dict) and "embedding" in one for one in data):
            kind = answer.headers.get("content-type", "something").partition(";")[0]
            begins = answer.quoted(answer.body[:500].decode("utf-8", "replace"), 60)
            raise EncodingError(
                f"{self.url}/embeddings answered with {kind} that holds no embeddings (it begins {begins!r}): check "
                "the address."
            )
        if len(data) != len(texts):
            raise EncodingError(f"{self.url} gave {len(data)} vectors for {len(texts)} texts.")
        places = [one.get("index", place) for place, one in enumerate(data)]
        if sorted(map(str, places)) != sorted(map(str, range(len(data)))):
            raise EncodingError(f"{self.url} numbers its {len(data)} vectors {places[:5]} …, and not from 0 on.")
        ordered = sorted(zip(map(int, places), data, strict=True), key=lambda one: one[0])
        vectors = [_vector(one["embedding"]) for _, one in ordered]
        for text, vector in zip(texts, vectors, strict=True):
            if vector is None or not len(vector) or not np.isfinite(vector).all():
                raise EncodingError(
                    f"{self.url} gave no usable vector for the text that begins {text[:40]!r}: it is empty or holds "
                    "null, NaN or infinity."
                )
        whole = [vector for vector in vectors if vector is not None]
        self._note(answer.quoted(str(found.get("model") or ""), 200), found, texts, {len(one) for one in whole})
        return np.stack(whole)

    def _note(self, name: str, found: Mapping[str, Any], texts: Sequence[str], dimensions: set[int]) -> None:
        """Remember what an answer says of itself, and refuse vectors of another dimension."""
        received, usage = self.received, found.get("usage")
        tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        with received.lock:
            expected = self.dimensions or received.dimension or min(dimensions)
            if dimensions != {expected}:
                other = next(one for one in sorted(dimensions) if one != expected)
                why = "were asked for" if self.dimensions else "came before"
                raise EncodingError(f"{self.url} gave vectors of {other} dimensions where {expected} {why}.")
            received.dimension = expected
            received.requests += 1
            received.texts += len(texts)
            if isinstance(tokens, int) and tokens > 0:
                received.tokens = (received.tokens or 0) + tokens
                received.characters += sum(map(len, texts))
            if name and name not in received.models:
                received.models.append(name)


def _vector(given: Any) -> np.ndarray | None:
    """Numbers as a list, or as the bytes of float32 in base64; None if they are neither."""
    try:
        if isinstance(given, str):
            return np.frombuffer(base64.b64decode(given, validate=True), dtype="<f4")
        found = np.asarray(given, dtype=np.float32)
        return found if found.ndim == 1 else None
    except (TypeError, ValueError):
        return None


def _normal(url: str) -> str:
    """An address in one form, without what would be a secret."""
    example = "such as http://localhost:8000/v1"
    if not isinstance(url, str) or not re.match(r"https?://[^/]", url.strip(), re.I):
        got = "" if "@" in str(url) else f", got {url!r}"
        raise EncodingError(f"an endpoint is an address that begins with http:// or https://, {example}{got}.")
    try:
        parsed = urllib3.util.parse_url(url.strip())
    except urllib3.exceptions.LocationParseError:
        raise EncodingError(f"{url!r} is not an address: an endpoint is one {example}.") from None
    if parsed.auth or parsed.query or parsed.fragment:
        raise EncodingError(
            f"the address of an endpoint has no user, query or fragment, {example}: put a key into an environment "
            "variable."
        )
    path = (parsed.path or "").rstrip("/").removesuffix("/embeddings").rstrip("/")
    port = None if parsed.port == {"http": 80, "https": 443}[str(parsed.scheme)] else parsed.port
    return f"{parsed.scheme}://{parsed.host}{'' if port is None else f':{port}'}{path or '/v1'}"


def _checked(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(body, Mapping):
        raise EncodingError(f"[[{name}]] must be a JSON object of further fields, got {body!r}.")
    own = [field for field in _OWN_FIELDS if field in body]
    if own:
        raise EncodingError(f"[[{name}]] may not set {own[0]}, which every request has already.")
    try:
        made: dict[str, Any] = json.loads(json.dumps(dict(body), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise EncodingError(f"[[{name}]] cannot be written as JSON: {error}.") from None
    return made


def _key_of(given: str | None, variable: str | None) -> str:
    """The key, never shown; empty if none is given and no variable was named that should hold one."""
    key = given if given is not None else os.environ.get(variable or DEFAULT_KEY, "")
    if variable is not None and given is None and not key.strip():
        raise EncodingError(f"the environment variable {variable} is not set: put the key of the endpoint into it.")
    if not re.fullmatch(r"[!-~]*", key.strip()):
        raise EncodingError("the key of the endpoint has characters that no key has, such as spaces or line breaks.")
    return key.strip()
