"""`Subject`: the model under study, loaded in one place."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

from fairspan.calibration.calibration import PRESETS, Calibration, Side
from fairspan.calibration.treatment import CLOSED_TREATMENTS, PLAIN, Treatment
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.chunks import chunk_tokens
from fairspan.encoding.encoder import AnyModel, Encodes, identity_of
from fairspan.encoding.endpoint import BATCH_CHARACTERS, Endpoint
from fairspan.encoding.tokens import Characters, counter_of, prompt_of, window_of
from fairspan.errors import DesignError, UnsupportedModel, require_whole
from fairspan.model.baselines import last_two
from fairspan.model.fingerprint import fingerprint
from fairspan.model.loading import DEFAULT_MODEL, Loading, load_with_limit
from fairspan.model.source import PACKAGE
from fairspan.model.transformer import calibrated_transformers
from fairspan.model.window import ANY_LENGTH
from fairspan.runs.bases import Embed, Treated, treat
from fairspan.runs.fit_part import FitPart
from fairspan.runs.header import EndpointInfo, ModelInfo, TransformerInfo
from fairspan.runs.options import named
from fairspan.runs.progress import Progress, Silent

_SIDES: dict[Side, str] = {"document": "documents", "query": "queries"}


@dataclass(frozen=True)
class Subject:
    """A model with everything that a study asks of it.

    Attributes:
        name: what logs call it.
        prompts: what is put before the texts of each side, "document" and "query".
        asked: the window that was asked for; None for the model's own.
        treatments: those of the study; the window of `counters` is the longest that any of them has.
        whole: whether every treatment has to read texts whole; the window is then the shortest.
        limit: the model's own limit in tokens, if it was loaded here.
    """

    name: str
    model: SentenceTransformer | Encodes
    prompts: Mapping[str, str]
    asked: int | None = None
    treatments: tuple[Treatment, ...] = ()
    whole: bool = False
    limit: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is a SentenceTransformer; of any other object nothing is known but its vectors."""
        return isinstance(self.model, SentenceTransformer)

    @cached_property
    def fingerprint(self) -> str | None:
        """Of the weights, or of an object's `identity`; None for one that has none, whose vectors are not kept."""
        if self.is_open:
            return fingerprint(self.model)
        identity = identity_of(self.model)
        return None if identity is None else hashlib.sha256(identity.encode()).hexdigest()

    @cached_property
    def counters(self) -> Mapping[str, TokenCounter]:
        """What counts the tokens of each side, prompt included."""
        if not self.is_open:
            return {side: Characters(prompt) for side, prompt in self.prompts.items()}
        found: dict[str, TokenCounter] = {}
        for side, texts in _SIDES.items():
            counter = counter_of(self.model, self.prompts[side], side=side)
            # What is read chunk by chunk has no limit of its own.
            windows = [self.window(one, texts) for one in self.treatments if not one.chunks] or [
                counter.window
            ]
            known = [window for window in windows if window is not None]
            read_whole = known if self.whole or len(known) == len(windows) else []
            counter.window = (min if self.whole else max)(read_whole, default=self.asked)
            found[side] = counter
        return found

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
        """Those that the model has before any treatment."""
        if not self.is_open:
            return []
        return [module.calibration.to_dict() for module in calibrated_transformers(self.model)]

    @property
    def decisive(self) -> list[Any]:
        """What of it decides a result, and so the name of a run."""
        known = [self.name, self.fingerprint, self.calibrations, dict(self.prompts)]
        return [*known, self.counter.window, self.similarity]

    @property
    def dtype(self) -> str | None:
        """The number format of its weights; None if it has none."""
        weight = next(self.transformer("a dtype").parameters(), None)
        return None if weight is None else str(weight.dtype).removeprefix("torch.")

    @property
    def info(self) -> ModelInfo:
        """What a log says of it."""
        info = ModelInfo(self.name, self.fingerprint)
        if isinstance(self.model, Endpoint):
            endpoint = EndpointInfo(**self.model.description)
            return replace(info, prompts=dict(self.prompts), endpoint=endpoint)
        if not isinstance(self.model, SentenceTransformer):
            return info
        transformer = TransformerInfo(
            window=self.counter.window,
            similarity=self.similarity,
            device=str(self.model.device),
            dtype=self.dtype,
            calibrations=self.calibrations,
            parameters=sum(weight.numel() for weight in self.model.parameters()),
        )
        return replace(info, prompts=dict(self.prompts), transformer=transformer)

    def budget(self, batch_tokens: int | None) -> int:
        """Tokens in a batch, padding included; for an endpoint characters, as many as one request has at most."""
        remote = isinstance(self.model, Endpoint)
        if batch_tokens is None:
            on_gpu = getattr(getattr(self.model, "device", None), "type", "cpu") == "cuda"
            return BATCH_CHARACTERS if remote else 65536 if on_gpu else 4096
        require_whole("batch_tokens", batch_tokens)
        return min(batch_tokens, BATCH_CHARACTERS) if remote else batch_tokens

    def with_prompts(self, document: str | None, query: str | None = None) -> Subject:
        """The same with these prompts; None keeps the model's own."""
        given = {
            side: text
            for side, text in (("document", document), ("query", query))
            if text is not None
        }
        return replace(self, prompts={**self.prompts, **given}) if given else self

    def window(self, treatment: Treatment, texts: str = "documents") -> int | None:
        """How many tokens of "documents", "segments" or "queries" are read under a treatment; None for no limit."""
        if not self.is_open or (treatment.chunks and texts != "queries"):
            return None
        calibration: Calibration = getattr(treatment, f"for_{texts}")
        return window_of(self.model, calibration, "query" if texts == "queries" else "document")

    @property
    def set_further(self) -> bool:
        """Whether the model was set to read more than it does plain, which treatments in tiles do."""
        own, plain = (
            getattr(self.model, "max_seq_length", None),
            window_of(self.model, PRESETS[PLAIN]),
        )
        return own is not None and plain is not None and plain < own < ANY_LENGTH

    def reading(self, treatments: Sequence[Treatment], *, whole: bool = False) -> Subject:
        """The same for texts as long as any of these treatments reads, or as all of them read `whole`.

        Raises:
            DesignError: if a longer window was asked for.
        """
        made = replace(self, treatments=tuple(treatments), whole=whole)
        read = made.counter.window
        if self.asked is None or read is None or read >= self.asked:
            return made
        who, remedy = (
            "the model",
            "name a treatment in tiles, such as tiles, which reads any length",
        )
        if whole:
            who, remedy = (
                next(one.name for one in treatments if made.window(one) == read),
                "only treatments in tiles",
            )
        raise DesignError(
            f"max_seq_length={self.asked} is more than the {read} tokens that {who} can read: use at most {read}, or "
            f"{remedy}."
        )

    def transformer(self, study: str) -> SentenceTransformer:
        """The model, for a study that needs a SentenceTransformer."""
        if not self.is_open:
            raise UnsupportedModel(
                f"{study} needs a SentenceTransformer, got {type(self.model).__name__}."
            )
        return self.model

    def refuse_unsuited(
        self,
        treatments: Sequence[Treatment],
        *,
        on_tokens: Sequence[Treatment] = (),
        beyond: Sequence[str] = (),
    ) -> None:
        """Raise, before anything is embedded, if the model cannot be measured under these treatments.

        Under those `on_tokens` tokens are compared with whole vectors; `beyond` names what else was asked for that
        only a SentenceTransformer can do.
        """
        for one in treatments:
            if one.chunks:
                chunk_tokens(one.chunk_size(), replace(self, treatments=()).counter)
        if not self.is_open:
            inside = [
                one.name
                for one in treatments
                if one.calibration.acts or (one.baseline and not one.chunks)
            ]
            if left := [*inside, *beyond]:
                raise UnsupportedModel(
                    f"{type(self.model).__name__} is not a SentenceTransformer: it gives vectors and no access to "
                    f"its attention and tokens, so that only {' and '.join(CLOSED_TREATMENTS)} can be measured: "
                    f"omit {', '.join(left)}."
                )
            return
        truncated = getattr(self.model, "truncate_dim", None)
        for one in treatments:
            if one.baseline == "last2avg":
                last_two(self.model)
            if one.whitens and truncated is not None:
                raise UnsupportedModel(
                    f"truncate_dim={truncated} would truncate the vectors after they are whitened: load the "
                    "model without it, and keep fewer dimensions of the whitening."
                )
            if (one.whitens or one.chunks) and one in on_tokens:
                raise UnsupportedModel(
                    f"vectors of {one.name} are not comparable with token vectors: omit it, or omit retention and "
                    "late chunks."
                )
            if one.chunks and "attention" in beyond:
                raise UnsupportedModel(
                    f"{one.name} reads a document in several passes, which have no attention in common: omit it, or "
                    "omit attention."
                )

    def under(
        self,
        treatment: Treatment,
        *,
        embed: Embed,
        fit: FitPart | None = None,
        lasting: bool = True,
    ) -> Treated:
        """The model under a treatment; `embed` embeds what it is fitted on. Weights are hashed for `lasting` keys."""
        known = (self.fingerprint or "") if lasting else ""
        plain = Treated(self.model, known, treatment, self.prompts, self.similarity == "cosine")
        return treat(plain, fit=fit or FitPart(), embed=embed)


def open_subject(
    model: AnyModel = None,
    *,
    name: str | None = None,
    loading: Loading | None = None,
    progress: Progress | None = None,
) -> Subject:
    """The model under study, under the `name` that logs show; by default the name that it was loaded by."""
    asked, limit = None if loading is None else loading.max_seq_length, None
    if model is None or isinstance(model, str):
        name = name or model or DEFAULT_MODEL
        (progress or Silent()).stage(f"loading {model or DEFAULT_MODEL}")
        model, limit = load_with_limit(model, loading)
    elif loading not in (None, Loading()):
        changed = next(
            one.name for one in fields(Loading) if getattr(loading, one.name) != one.default
        )
        raise DesignError(
            f"{changed} is for a model that is given by its name: set it on the model instead."
        )
    if not isinstance(model, SentenceTransformer):
        kind = type(model).__name__
        if not callable(getattr(model, "encode", None)):
            raise UnsupportedModel(
                f"{kind} has no encode(list[str]): give a SentenceTransformer or an object with it."
            )
        return Subject(name or named(model), model, {"document": "", "query": ""})
    prompts = {"document": prompt_of(model, "document"), "query": prompt_of(model, "query")}
    return Subject(name or _name_of(model), model, prompts, asked, limit=limit)


def _name_of(model: SentenceTransformer) -> str:
    """What a model is called that was not loaded by name: as its weights were, or by a hash of them."""
    loaded = (
        getattr(getattr(module, "model", None), "name_or_path", None) for module in model.modules()
    )
    card = model.model_card_data
    named = next((str(one) for one in (card.model_id, *loaded, card.base_model) if one), "")
    named = DEFAULT_MODEL if PACKAGE in Path(named).parts else named
    calibrated = any(module.calibration.acts for module in calibrated_transformers(model))
    return f"{named or f'{type(model).__name__}-{fingerprint(model)[:8]}'}{' (calibrated)' if calibrated else ''}"
