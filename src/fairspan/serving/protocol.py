"""OpenAI's embeddings protocol: requests that are read and checked, replies, and what is said of a mistake."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr as _shown
from typing import Any, Literal

import numpy as np
import polars as pl
from starlette.responses import JSONResponse

from fairspan.calibration.calibration import Side

_INPUT_TYPES: dict[str, Side] = {
    "query": "query",
    "search_query": "query",
    "document": "document",
    "passage": "document",
    "search_document": "document",
}
_SUFFIXES: dict[str, Side] = {"-query": "query", "-document": "document"}
_INPUT = (
    "a string, a list of strings, a list of token ids, or a list of such lists, none of them empty"
)
# Beyond this many values json.loads holds up all threads for seconds. Text with as many commas has more tokens than
# any request may have.
_MOST_VALUES = 1_000_000


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
        super().__init__(message)
        self.status, self.headers = status, dict(headers or {})
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


def busy(message: str, seconds: int) -> Refusal:
    said, headers = f"{message}. Try again in {seconds} s.", {"Retry-After": str(seconds)}
    return Refusal(429, said, kind="rate_limit_error", code="rate_limit_exceeded", headers=headers)


@dataclass(frozen=True, slots=True)
class Names:
    """What a request may call the model and its prompts.

    Attributes:
        names: of the model; each may be followed by `-query` or `-document`.
        prompts: names of prompts.
    """

    names: tuple[str, ...]
    prompts: tuple[str, ...] = ()

    @property
    def every(self) -> list[str]:
        """The first name, alone and with either suffix."""
        return [self.names[0], *(self.names[0] + suffix for suffix in _SUFFIXES)]

    def side(self, name: object) -> Side | None:
        """The side that a model's name asks for, if any.

        Raises:
            Refusal: if it is not a name of the model.
        """
        if name in self.names:
            return None
        if isinstance(name, str):
            for suffix, side in _SUFFIXES.items():
                if name.removesuffix(suffix) in self.names:
                    return side
        said = f"The model {_shown(name)} is not served here. Served: {', '.join(self.every)}."
        raise Refusal(404, said, param="model", code="model_not_found")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for embeddings of texts, or of the token ids of texts; `prompt_name` is None for the side's own."""

    inputs: list[str] | list[list[int]]
    model: str
    side: Side
    prompt_name: str | None = None
    encoding: Literal["float", "base64"] = "float"
    dimensions: int | None = None


def read_object(body: bytes | bytearray) -> dict[str, Any]:
    """The JSON object of a request's body."""
    if sum(map(body.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        raise too_large(f"The body has more than {_MOST_VALUES:,} commas and brackets.")
    try:
        given = json.loads(body)
        if b"\\ud" in body or b"\\uD" in body:
            # Half of a surrogate pair is no text, and no tokenizer takes it.
            json.dumps(given, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise Refusal(
            400, f"The body is not JSON in UTF-8: {error}.", code="invalid_json"
        ) from None
    if not isinstance(given, dict):
        raise Refusal(400, "The body must be a JSON object.", code="invalid_json")
    return given


def read_request(body: bytes | bytearray, names: Names, most_inputs: int) -> Asked:
    """A request from its body.

    Raises:
        Refusal: if it cannot be answered.
    """
    given = read_object(body)
    model = names.names[0] if given.get("model") is None else given["model"]
    side = _side(given, names, names.side(model))
    encoding: Any = given.get("encoding_format") or "float"
    if encoding not in ("float", "base64"):
        raise wrong(
            "encoding_format",
            f"'encoding_format' must be 'float' or 'base64', got {_shown(encoding)}.",
        )
    dimensions = given.get("dimensions")
    if dimensions is not None and (not _is_int(dimensions) or dimensions < 1):
        raise wrong(
            "dimensions",
            f"'dimensions' must be a whole number of at least 1, got {_shown(dimensions)}.",
        )
    inputs = _read_inputs(given.get("input"), most_inputs)
    return Asked(inputs, model, side, given.get("prompt_name"), encoding, dimensions)


def _side(given: Mapping[str, Any], names: Names, by_name: Side | None) -> Side:
    """The side of all that say one, who have to agree; else documents."""
    said: dict[str, Side] = {} if by_name is None else {"model": by_name}
    for name, known in (("input_type", tuple(_INPUT_TYPES)), ("prompt_name", names.prompts)):
        value = given.get(name)
        if value is None:
            continue
        if value not in known:
            raise wrong(
                name, f"'{name}' must be one of {', '.join(known) or 'none'}, got {_shown(value)}."
            )
        if value in _INPUT_TYPES or "query" in value:
            said[name] = _INPUT_TYPES.get(value, "query")
    if len(set(said.values())) > 1:
        sides = " and ".join(f"'{name}' says {side}" for name, side in said.items())
        raise wrong(next(reversed(said)), f"{sides}: a request has one side.", "conflicting_sides")
    return next(iter(said.values()), "document")


def _read_inputs(found: Any, most: int) -> Any:
    if isinstance(found, str):
        found = [found]
    if not isinstance(found, list) or not found:
        raise wrong("input", f"'input' must be {_INPUT}.")
    inputs: list[Any] = [found] if _is_int(found[0]) else found
    if len(inputs) > most:
        raise too_large(
            f"'input' has {len(inputs):,} texts; a request may have at most {most:,}.", "input"
        )
    kind: Any = str if isinstance(inputs[0], str) else list
    for index, one in enumerate(inputs):
        if not isinstance(one, kind) or not one or (kind is list and not all(map(_is_int, one))):
            raise wrong("input", f"'input[{index}]' is none: 'input' must be {_INPUT}.")
        if kind is str and not one.strip():
            raise wrong("input", f"'input[{index}]' is empty: it has nothing but white space.")
    return inputs


def make_reply(
    asked: Asked, vectors: np.ndarray, tokens: int, truncated: Sequence[int] | None = None
) -> bytes:
    """The body of a reply; `truncated` holds which texts were cut, None where the server cuts none."""
    head: dict[str, Any] = {
        "object": "list",
        "model": asked.model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
    if truncated is not None:
        head["truncated"] = list(truncated)
    rows = _decimals(vectors)
    if asked.encoding == "base64":
        rows = (
            f'"{base64.b64encode(row.tobytes()).decode()}"'
            for row in vectors.astype("<f4", copy=False)
        )
    data = (
        f'{{"object":"embedding","index":{index},"embedding":{embedding}}}'
        for index, embedding in enumerate(rows)
    )
    return f'{json.dumps(head, separators=(",", ":"))[:-1]},"data":[{",".join(data)}]}}'.encode()


def _decimals(vectors: np.ndarray) -> Iterable[str]:
    """The shortest decimals that are read as the same float32; polars writes them 20 times faster than json."""
    rows = (
        pl.Series("rows", vectors, dtype=pl.Array(pl.Float32, vectors.shape[1]))
        .arr.to_list()
        .to_frame()
    )
    return (
        f"[{row}]"
        for row in rows.select(pl.col("rows").cast(pl.List(pl.String)).list.join(","))["rows"]
    )


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
