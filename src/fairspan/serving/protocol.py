"""OpenAI's embeddings protocol: requests that are read and checked, replies, and error bodies."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr as short_repr
from typing import Any, Literal

import numpy as np
import orjson
from starlette.responses import JSONResponse

from fairspan.calibration.calibration import Side
from fairspan.errors import DesignError

_INPUT_TYPES: dict[str, Side] = {
    "query": "query",
    "search_query": "query",
    "document": "document",
    "passage": "document",
    "search_document": "document",
}
_SUFFIXES: dict[str, Side] = {"-query": "query", "-document": "document"}
_TOKEN_IDS = (
    "'input' has token ids. Clients count them with OpenAI's tokenizer, which is not this model's: "
    "send texts. LangChain's OpenAIEmbeddings does with check_embedding_ctx_length=False."
)


class Refusal(Exception):  # noqa: N818 - a reply to the client, often not an error of the server
    """A request that gets no vectors, and why."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """The reply's status, headers and the fields of its error."""
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}

    @property
    def response(self) -> JSONResponse:
        return JSONResponse(self.body, self.status, self.headers)


def wrong(param: str, message: str, code: str = "invalid_value") -> Refusal:
    return Refusal(400, message, param=param, code=code)


def too_large(
    message: str, param: str | None = None, headers: Mapping[str, str] | None = None
) -> Refusal:
    return Refusal(413, message, param=param, code="request_too_large", headers=headers)


def empty(index: int, of: int) -> Refusal:
    """A refusal of the input number `of`, which has special tokens only."""
    name = "'input'" if of <= 1 else f"'input[{index}]'"
    return wrong("input", f"{name} is empty: it gives the model no token to read.")


def failed(message: str, code: str) -> Refusal:
    return Refusal(500, message, kind="server_error", param="input", code=code)


def busy(reason: str, seconds: int) -> Refusal:
    return Refusal(
        429,
        f"{reason}. Try again in {seconds} s.",
        kind="rate_limit_error",
        code="rate_limit_exceeded",
        headers={"Retry-After": str(seconds)},
    )


def require_key(key: str) -> str:
    """The API key without the blanks around it, which no client can send."""
    key = key.strip()
    if not re.fullmatch("[!-~]+", key):
        raise DesignError("an API key has printable ASCII characters only, and no blanks.")
    return key


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the model, which `-query` or `-document` may follow, and of its prompts."""

    names: tuple[str, ...]
    prompts: tuple[str, ...] = ()

    @property
    def every(self) -> list[str]:
        """The first name, alone and with either suffix."""
        return [self.names[0], *(self.names[0] + suffix for suffix in _SUFFIXES)]

    def side(self, name: object) -> Side | None:
        """The side that a model's name asks for, if any; a refusal if it is not served."""
        if name in self.names:
            return None
        if isinstance(name, str):
            for suffix, side in _SUFFIXES.items():
                if name.removesuffix(suffix) in self.names:
                    return side
        message = f"The model {short_repr(name)} is not served here. "
        message += f"Served: {', '.join(self.every)}."
        raise Refusal(404, message, param="model", code="model_not_found")


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """Texts to embed; `prompt_name` is None for the side's own."""

    inputs: list[str]
    model: str
    side: Side
    prompt_name: str | None = None
    encoding: Literal["float", "base64"] = "float"
    dimensions: int | None = None


def read_request(body: bytes | bytearray, names: Names, most_inputs: int) -> EmbeddingRequest:
    """A request from its body, if it can be answered."""
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        message = f"The body is not JSON in UTF-8: {error}."
        raise Refusal(400, message, code="invalid_json") from None
    if not isinstance(fields, dict):
        raise Refusal(400, "The body must be a JSON object.", code="invalid_json")
    model = names.names[0] if fields.get("model") is None else fields["model"]
    side = _read_side(fields, names, model)
    encoding: Any = fields.get("encoding_format")
    if encoding not in ("float", "base64", None):
        message = f"'encoding_format' must be 'float' or 'base64', got {short_repr(encoding)}."
        raise wrong("encoding_format", message)
    dimensions = fields.get("dimensions")
    if dimensions is not None and (type(dimensions) is not int or dimensions < 1):
        rule = "'dimensions' must be a whole number of at least 1"
        raise wrong("dimensions", f"{rule}, got {short_repr(dimensions)}.")
    inputs = _read_inputs(fields.get("input"), most_inputs)
    prompt_name = fields.get("prompt_name")
    return EmbeddingRequest(inputs, model, side, prompt_name, encoding or "float", dimensions)


def _read_side(fields: Mapping[str, Any], names: Names, model: object) -> Side:
    """The side that the fields of a request name, all of them the same; else documents."""
    sides: dict[str, Side] = {}
    side_of_model = names.side(model)
    if side_of_model is not None:
        sides["model"] = side_of_model
    for name, choices in (("input_type", tuple(_INPUT_TYPES)), ("prompt_name", names.prompts)):
        value = fields.get(name)
        if value is None:
            continue
        if value not in choices:
            allowed = ", ".join(choices) or "none"
            raise wrong(name, f"'{name}' must be one of {allowed}, got {short_repr(value)}.")
        if value in _INPUT_TYPES or "query" in value:
            sides[name] = _INPUT_TYPES.get(value, "query")
    if len(set(sides.values())) > 1:
        listed = " and ".join(f"'{name}' says {side}" for name, side in sides.items())
        message = f"{listed}: a request has one side."
        raise wrong(next(reversed(sides)), message, "conflicting_sides")
    return next(iter(sides.values()), "document")


def _read_inputs(value: Any, most: int) -> list[str]:
    """The texts of the field `input`."""
    inputs = [value] if isinstance(value, str) else value
    if not isinstance(inputs, list):
        raise wrong("input", "'input' must be a string or a list of strings.")
    if not inputs:
        raise empty(0, of=0)
    first = inputs[0][0] if isinstance(inputs[0], list) and inputs[0] else inputs[0]
    if type(first) is int:
        raise wrong("input", _TOKEN_IDS, "token_ids_not_supported")
    if len(inputs) > most:
        message = f"'input' has {len(inputs):,} texts; a request may have at most {most:,}."
        raise too_large(message, "input")
    for index, text in enumerate(inputs):
        if not isinstance(text, str):
            message = f"'input[{index}]' is {short_repr(text)}, and 'input' must be "
            raise wrong("input", f"{message}a string or a list of strings.")
        if not text or text.isspace():
            raise empty(index, of=len(inputs))
    return inputs


def make_reply(
    request: EmbeddingRequest, vectors: np.ndarray, tokens: int, truncated: Sequence[int] | None
) -> bytes:
    """The body of a reply, from [texts, dimension]; `truncated` is None if the server cuts none."""
    rows: Any = np.ascontiguousarray(vectors, dtype="<f4")
    if request.encoding == "base64":
        rows = (base64.b64encode(row).decode() for row in rows)
    reply: dict[str, Any] = {
        "object": "list",
        "model": request.model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        "data": [
            {"object": "embedding", "index": index, "embedding": row}
            for index, row in enumerate(rows)
        ],
    }
    if truncated is not None:
        reply["truncated"] = list(truncated)
    return orjson.dumps(reply, option=orjson.OPT_SERIALIZE_NUMPY)
