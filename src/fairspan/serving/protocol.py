"""OpenAI's embeddings protocol: requests that are read and checked, replies, and what is said of a mistake."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from fairspan.calibration.temperature import Side

INVALID = "invalid_request_error"
_INPUT_TYPES: dict[str, Side] = {
    "query": "query",
    "search_query": "query",
    "document": "document",
    "passage": "document",
    "search_document": "document",
}
_SUFFIXES: dict[str, Side] = {"-query": "query", "-document": "document"}
_INPUT = "a string, a list of strings, a list of token ids, or a list of such lists"


class Refusal(Exception):  # noqa: N818 - a reply to the client, often not an error of the server
    """A request that gets no vectors: the status, headers and body of the reply."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = INVALID,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.headers = status, dict(headers or {})
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}


def unknown_model(name: object, names: Iterable[str]) -> Refusal:
    """There is no such model here."""
    return Refusal(
        404,
        f"The model {name!r} is not served here. Served: {', '.join(names)}.",
        param="model",
        code="model_not_found",
    )


def too_large(message: str, param: str | None = None) -> Refusal:
    return Refusal(413, message, param=param, code="request_too_large")


def _wrong(param: str, message: str, code: str = "invalid_value") -> Refusal:
    return Refusal(400, message, param=param, code=code)


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
        raise unknown_model(name, self.every)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for embeddings.

    Attributes:
        inputs: texts, or the token ids of texts.
        prompt_name: the name of a prompt of the model; None for the side's own prompt.
        language: of all inputs; None if it is not said.
    """

    inputs: list[str] | list[list[int]]
    model: str
    side: Side
    prompt_name: str | None = None
    encoding: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    are_ids: bool = False
    language: str | None = None


def read_request(body: bytes, names: Names, most_inputs: int) -> Asked:
    """A request from its body.

    Raises:
        Refusal: if it cannot be answered.
    """
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"The body is not JSON: {error}.", code="invalid_json") from None
    if not isinstance(given, dict):
        raise Refusal(400, f"The body must be a JSON object, got {_kind(given)}.", code="invalid_json")
    model = names.names[0] if given.get("model") is None else given["model"]
    side = _side(given, names, names.side(model))
    encoding: Any = given.get("encoding_format") or "float"
    if encoding not in ("float", "base64"):
        raise _wrong("encoding_format", f"'encoding_format' must be 'float' or 'base64', got {encoding!r}.")
    dimensions = given.get("dimensions")
    if dimensions is not None and (not _is_int(dimensions) or dimensions < 1):
        raise _wrong("dimensions", f"'dimensions' must be a whole number of at least 1, got {dimensions!r}.")
    language = given.get("language")
    if language is not None and (not isinstance(language, str) or not language.strip()):
        raise _wrong("language", f"'language' must be a code such as 'de', got {language!r}.")
    inputs, are_ids = _read_inputs(given, most_inputs)
    return Asked(inputs, model, side, given.get("prompt_name"), encoding, dimensions, are_ids, language)


def _side(given: Mapping[str, Any], names: Names, by_name: Side | None) -> Side:
    """The side of all that say one, who have to agree; else documents."""
    said: dict[str, Side] = {} if by_name is None else {"model": by_name}
    kind, prompt = given.get("input_type"), given.get("prompt_name")
    if kind is not None:
        if not isinstance(kind, str) or kind not in _INPUT_TYPES:
            raise _wrong("input_type", f"'input_type' must be one of {_listed(_INPUT_TYPES)}, got {kind!r}.")
        said["input_type"] = _INPUT_TYPES[kind]
    if prompt is not None:
        if not isinstance(prompt, str) or prompt not in names.prompts:
            raise _wrong(
                "prompt_name", f"'prompt_name' must be one of {_listed(names.prompts) or 'none'}, got {prompt!r}."
            )
        if prompt in _INPUT_TYPES or "query" in prompt:
            said["prompt_name"] = _INPUT_TYPES.get(prompt, "query")
    if len(set(said.values())) > 1:
        sides = " and ".join(f"'{name}' says {side}" for name, side in said.items())
        raise _wrong(next(reversed(said)), f"{sides}: a request has one side.", "conflicting_sides")
    return next(iter(said.values()), "document")


def _read_inputs(given: Mapping[str, Any], most: int) -> tuple[list[str] | list[list[int]], bool]:
    if "input" not in given:
        raise _wrong("input", f"'input' is missing: give {_INPUT}.", "missing_required_parameter")
    found: Any = given["input"]
    if isinstance(found, str):
        found = [found]
    if not isinstance(found, list):
        raise _wrong("input", f"'input' must be {_INPUT}, got {_kind(found)}.", "invalid_type")
    if not found:
        raise _wrong("input", f"'input' is an empty list: give {_INPUT}.", "empty_array")
    are_ids = not isinstance(found[0], str)
    inputs: list[Any] = [found] if _is_int(found[0]) else found
    if len(inputs) > most:
        raise too_large(f"'input' has {len(inputs):,} texts; a request may have {most:,}.", "input")
    kind: Any = list if are_ids else str
    for index, one in enumerate(inputs):
        where = f"'input[{index}]'" if len(inputs) > 1 else "'input'"
        if not isinstance(one, kind):
            raise _wrong("input", f"{where} is {_kind(one)} among others: 'input' must be {_INPUT}.", "invalid_type")
        if not one:
            raise _wrong("input", f"{where} is empty.", "empty_string" if not are_ids else "empty_array")
        if are_ids:
            wrong = next((token for token in one if not _is_int(token)), None)
            if wrong is not None:
                raise _wrong("input", f"{where} must hold token ids, got {_kind(wrong)}.", "invalid_type")
        elif isinstance(one, str) and not one.isascii() and any("\ud800" <= letter <= "\udfff" for letter in one):
            raise _wrong("input", f"{where} holds half of a surrogate pair, which is no text.")
    return inputs, are_ids


def make_reply(asked: Asked, vectors: np.ndarray, tokens: int, truncated: Sequence[int] | None = None) -> bytes:
    """The body of a reply; `truncated` holds which texts were cut, None where the server cuts none."""
    head: dict[str, Any] = {
        "object": "list",
        "model": asked.model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
    if truncated is not None:
        head["truncated"] = list(truncated)
    rows = _base64(vectors) if asked.encoding == "base64" else _decimals(vectors)
    data = (
        f'{{"object":"embedding","index":{index},"embedding":{embedding}}}' for index, embedding in enumerate(rows)
    )
    return f'{json.dumps(head, separators=(",", ":"))[:-1]},"data":[{",".join(data)}]}}'.encode()


def _base64(vectors: np.ndarray) -> Iterable[str]:
    return (f'"{base64.b64encode(row.tobytes()).decode()}"' for row in vectors.astype("<f4", copy=False))


def _decimals(vectors: np.ndarray) -> Iterable[str]:
    """The shortest decimals that are read as the same float32; polars writes them 20 times faster than json."""
    rows = pl.Series("rows", vectors, dtype=pl.Array(pl.Float32, vectors.shape[1])).arr.to_list().to_frame()
    return (f"[{row}]" for row in rows.select(pl.col("rows").cast(pl.List(pl.String)).list.join(","))["rows"])


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "a number"}
    return kinds.get(type(value), "a number" if isinstance(value, float) else "null")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
