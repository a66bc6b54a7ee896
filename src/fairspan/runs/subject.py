"""`Subject`: the model under study, opened in one place from whatever a user has."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

from fairspan.calibration.calibration import PRESETS, Calibration, Side
from fairspan.calibration.level import CommonDirection
from fairspan.calibration.treatment import PLAIN, Treatment
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.encoder import AnyModel, Encodes, identity_of
from fairspan.encoding.endpoint import Endpoint
from fairspan.encoding.tokens import Characters, counter_of, prompt_of, window_of
from fairspan.errors import DesignError, UnsupportedModel
from fairspan.model.card import places_of
from fairspan.model.fingerprint import fingerprint
from fairspan.model.loading import DEFAULT_MODEL, Loading, load_with_limit
from fairspan.model.source import PACKAGE
from fairspan.model.transformer import calibrated_transformers
from fairspan.model.window import ANY_LENGTH
from fairspan.runs.hashing import vector_prefix
from fairspan.runs.header import EndpointInfo, ModelInfo, TransformerInfo
from fairspan.runs.options import named
from fairspan.runs.progress import Progress, Silent
from fairspan.runs.treated import Treated

_TEXTS: dict[Side, str] = {"document": "documents", "query": "queries"}


@dataclass(frozen=True)
class Subject:
    """The model of a study, with its prompts and the length that texts may have.

    How long texts may be: every treatment reads `window` tokens of each kind of text; None for any
    number. The window of a side, `counters[side].window`, follows from those of all treatments:

    - if texts have to be read `whole` by every treatment, it is the shortest of their windows;
    - otherwise it is the longest, and there is none if some treatment reads any length;
    - treatments in chunks read any length in parts and do not count; where there are no others,
      the model's own window counts;
    - where this gives no limit, `asked` is the limit.

    Attributes:
        prompts: what is put before the texts of each side, "document" and "query".
        asked: the window that was asked for; None for the model's own.
        limit: the model's own limit in tokens, if it was loaded here.
        directions: what vectors are made level with, as far as it is known, by the prompt of
            documents.
    """

    name: str
    model: SentenceTransformer | Encodes
    prompts: Mapping[str, str]
    asked: int | None = None
    treatments: tuple[Treatment, ...] = ()
    whole: bool = False
    limit: int | None = None
    directions: dict[str, CommonDirection] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether it is a SentenceTransformer; of other objects only the vectors are known."""
        return isinstance(self.model, SentenceTransformer)

    @cached_property
    def fingerprint(self) -> str | None:
        """A hash of the weights, or of an object's `identity`; without one vectors are not kept.

        An exported graph has its weights in a file, and no hash.
        """
        if isinstance(self.model, SentenceTransformer):
            backends = {getattr(module, "backend", "torch") for module in self.model.modules()}
            return fingerprint(self.model) if backends == {"torch"} else None
        identity = identity_of(self.model)
        return None if identity is None else hashlib.sha256(identity.encode()).hexdigest()

    @cached_property
    def counters(self) -> Mapping[str, TokenCounter]:
        """What counts the tokens of each side, prompt included, and has its window."""
        if not self.is_open:
            return {side: Characters(prompt) for side, prompt in self.prompts.items()}
        counters: dict[str, TokenCounter] = {}
        for side, texts in _TEXTS.items():
            counter = counter_of(self.model, self.prompts[side], side=side)
            counter.window = self._window_of_all(texts, counter.window)
            counters[side] = counter
        return counters

    def _window_of_all(self, texts: str, plain: int | None) -> int | None:
        """The window of a study's texts, by the rule above; `plain` is the model's own."""
        windows = [
            self.window(treatment, texts) for treatment in self.treatments if not treatment.chunks
        ]
        windows = windows or [plain]
        limits = [window for window in windows if window is not None]
        if self.whole:
            return min(limits, default=self.asked)
        return max(limits) if len(limits) == len(windows) else self.asked

    def window(self, treatment: Treatment, texts: str = "documents") -> int | None:
        """How many tokens of "documents", "segments" or "queries" are read under a treatment."""
        if not self.is_open or (treatment.chunks and texts != "queries"):
            return None
        calibration: Calibration = getattr(treatment, f"for_{texts}")
        return window_of(self.model, calibration, "query" if texts == "queries" else "document")

    @property
    def set_further(self) -> bool:
        """Whether the model was set to read more than it can plain, which only tiles do."""
        length = getattr(self.model, "max_seq_length", None)
        plain = window_of(self.model, PRESETS[PLAIN])
        return length is not None and plain is not None and plain < length < ANY_LENGTH

    def reading(self, treatments: Sequence[Treatment], *, whole: bool = False) -> Subject:
        """The same for texts that these treatments read; raise if a longer window was asked for."""
        subject = replace(self, treatments=tuple(treatments), whole=whole)
        window = subject.counter.window
        if self.asked is None or window is None or window >= self.asked:
            return subject
        reader = "the model"
        remedy = "name a treatment in tiles, such as fair, which reads any length"
        if whole:
            reader = next(
                treatment.name for treatment in treatments if subject.window(treatment) == window
            )
            remedy = "only treatments in tiles"
        raise DesignError(
            f"max_seq_length={self.asked} is more than the {window} tokens that {reader} can read: "
            f"use at most {window}, or {remedy}."
        )

    @property
    def counter(self) -> TokenCounter:
        return self.counters["document"]

    @property
    def similarity(self) -> str:
        """How the model compares vectors, such as "cosine" or "dot"."""
        named = (
            self.model.similarity_fn_name if isinstance(self.model, SentenceTransformer) else None
        )
        return str(getattr(named, "value", named) or "cosine")

    @property
    def calibrations(self) -> list[dict[str, Any]]:
        """Those that the model has before any treatment, with what it reads without tiles."""
        if not self.is_open:
            return []
        return [
            {**module.calibration.to_dict(), "untiled_length": module.untiled_length}
            for module in calibrated_transformers(self.model)
        ]

    @property
    def dtype(self) -> str | None:
        weight = next(self.transformer("a dtype").parameters(), None)
        return None if weight is None else str(weight.dtype).removeprefix("torch.")

    @property
    def info(self) -> ModelInfo:
        """What a log says of it."""
        prompts = dict(self.prompts)
        if isinstance(self.model, Endpoint):
            return ModelInfo(self.name, self.fingerprint, prompts, endpoint=_answered(self.model))
        if not isinstance(self.model, SentenceTransformer):
            return ModelInfo(self.name, self.fingerprint)
        transformer = TransformerInfo(
            window=self.counter.window,
            similarity=self.similarity,
            device=str(self.model.device),
            dtype=self.dtype,
            calibrations=tuple(self.calibrations),
            parameters=sum(weight.numel() for weight in self.model.parameters()),
        )
        return ModelInfo(self.name, self.fingerprint, prompts, transformer)

    def with_prompts(self, document: str | None, query: str | None = None) -> Subject:
        asked = {"document": document, "query": query}
        changed = {side: prompt for side, prompt in asked.items() if prompt is not None}
        return replace(self, prompts={**self.prompts, **changed}) if changed else self

    def transformer(self, study: str) -> SentenceTransformer:
        if not self.is_open:
            raise UnsupportedModel(
                f"{study} needs a SentenceTransformer, got {type(self.model).__name__}."
            )
        return self.model

    def under(
        self, treatment: Treatment, *, common: CommonDirection | None = None, lasting: bool = True
    ) -> Treated:
        """The model under a treatment; a model that is not loaded needs `common` to be level.

        For `lasting` keys of vectors the weights are hashed.
        """
        prefix = vector_prefix(self.fingerprint) if lasting and self.fingerprint else ""
        is_cosine = self.similarity == "cosine"
        directions = self.directions
        if common is not None:
            directions = {self.prompts["document"]: common}
        return Treated(self.model, prefix, treatment, self.prompts, is_cosine, directions)


def _answered(endpoint: Endpoint) -> EndpointInfo:
    """What is known of an endpoint so far."""
    received = endpoint.received
    return EndpointInfo(
        url=endpoint.url,
        dimensions=received.dimension or endpoint.dimensions,
        body=endpoint.body,
        query_body=endpoint.query_body,
        answers_name=tuple(received.models),
        requests=received.requests,
        prompt_tokens=received.tokens,
    )


def open_subject(
    model: AnyModel = None,
    *,
    name: str | None = None,
    loading: Loading | None = None,
    progress: Progress | None = None,
) -> Subject:
    """The model under study; logs call it `name`, by default the name that it was loaded by."""
    asked = None if loading is None else loading.max_seq_length
    limit = None
    if model is None or isinstance(model, str):
        name = name or model or DEFAULT_MODEL
        (progress or Silent()).stage(f"loading {model or DEFAULT_MODEL}")
        model, limit = load_with_limit(model, loading)
    elif loading not in (None, Loading()):
        options = (
            option.name
            for option in fields(Loading)
            if getattr(loading, option.name) != option.default
        )
        raise DesignError(
            f"{next(options)} is for a model that is given by its name: set it on the model "
            "instead."
        )
    if not isinstance(model, SentenceTransformer):
        if not callable(getattr(model, "encode", None)):
            raise UnsupportedModel(
                f"{type(model).__name__} has no encode(list[str]): give a SentenceTransformer or "
                "an object with it."
            )
        return Subject(name or named(model), model, {"document": "", "query": ""})
    prompts = {"document": prompt_of(model, "document"), "query": prompt_of(model, "query")}
    return Subject(name or _name_of(model), model, prompts, asked, limit=limit)


def _name_of(model: SentenceTransformer) -> str:
    """The name of a model that was not loaded by one: that of its weights, or a hash of them."""
    name = next(places_of(model), "") or str(model.model_card_data.base_model or "")
    name = name or f"{type(model).__name__}-{fingerprint(model)[:8]}"
    if PACKAGE in Path(name).parts:
        name = DEFAULT_MODEL
    calibrated = any(module.calibration.acts for module in calibrated_transformers(model))
    return f"{name} (calibrated)" if calibrated else name
