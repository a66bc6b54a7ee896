"""`Prepared`: an audit with every document built and nothing embedded yet."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from sentence_transformers import SentenceTransformer

from fairspan import __version__
from fairspan.calibrated.transformer import calibrated_transformers
from fairspan.calibration import Calibration
from fairspan.corpus.corpus import Corpus
from fairspan.design.documents import Documents, build_documents
from fairspan.design.lengths import TokenCounter, measure_segments
from fairspan.design.plan import LanguagePlan, language_plans, languages_of
from fairspan.encoding.encoder import Encodes, ModelEncoder, ObjectEncoder, Text, refuse_other_spaces
from fairspan.encoding.fingerprint import fingerprint
from fairspan.encoding.loading import load_model
from fairspan.encoding.tokens import Characters, counter_of, document_prompt
from fairspan.errors import UnsupportedModel
from fairspan.progress import Progress, Silent
from fairspan.spec import AuditSpec
from fairspan.treatment import Treatment

AnyEncoder = ModelEncoder | ObjectEncoder


@dataclass(frozen=True, slots=True)
class Prepared:
    """An audit that is ready to run: every document is built, nothing is embedded."""

    model: SentenceTransformer | Encodes
    name: str
    spec: AuditSpec
    corpus: Corpus
    plans: tuple[LanguagePlan, ...]
    documents: Documents
    counter: TokenCounter
    prompt: str
    fingerprint: str | None
    """None for an object of which nothing is known; its vectors are not kept."""

    @property
    def calibrations(self) -> list[dict[str, Any]]:
        """How the model is calibrated before any treatment."""
        if not isinstance(self.model, SentenceTransformer):
            return []
        return [module.calibration.to_dict() for module in calibrated_transformers(self.model)]

    @property
    def run(self) -> str:
        """The name of the run's folder: the model's, and a hash of all that decides the result."""
        plans = [str(plan) for plan in self.plans]
        model = [self.name, self.fingerprint, self.calibrations, self.prompt, self.counter.window]
        decisive = [__version__, self.spec.to_dict(), model, self.corpus.fingerprint, plans]
        digest = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()
        slug = re.sub(r"[^A-Za-z0-9._-]+", "-", self.name.rstrip("/").split("/")[-1]).strip("-.") or "model"
        return f"{slug}-{digest[:8]}"

    def texts(self) -> tuple[list[Text], list[Text]]:
        """The segments and the documents that every treatment has to embed."""
        keys = list(self.documents.segments)
        alone = [self.documents.segments[key] for key in keys]
        segments = [Text(text, length) for text, length in zip(alone, self.counter.count_whole(alone), strict=True)]
        wants_spans = "retention" in self.spec.measures
        documents = [
            Text(
                document.text,
                document.length,
                document.spans if wants_spans else (),
                tuple(start for start, _ in document.spans),
            )
            for document in self.documents.documents
        ]
        return segments, documents


def prepare(
    model: SentenceTransformer | Encodes | str | None,
    spec: AuditSpec,
    *,
    name: str | None = None,
    progress: Progress | None = None,
) -> Prepared:
    """Load, read, draw and measure, without embedding anything."""
    progress = progress or Silent()
    if model is None or isinstance(model, str):
        progress.stage(f"loading {model or 'the default model'}")
        name = name or model or "all-MiniLM-L6-v2"
        model = load_model(model)
    name = name or _name_of(model)
    progress.stage("reading the corpus")
    plans, corpus = _plan(spec)
    prompt, counter = "", Characters()  # type: tuple[str, TokenCounter]
    if isinstance(model, SentenceTransformer):
        prompt = document_prompt(model) if spec.prompt is None else spec.prompt
        counter = counter_of(model, prompt)
        if "retention" in spec.measures:
            refuse_other_spaces(model)
    else:
        _refuse_beyond_encode(model, spec)
    progress.stage("building documents")
    material = measure_segments(corpus, languages_of(plans), spec.design, counter)
    documents = build_documents(material, plans, spec.design, counter)
    identity = None
    if isinstance(model, SentenceTransformer):
        progress.stage("hashing the weights")
        identity = fingerprint(model)
    return Prepared(model, name, spec, corpus, plans, documents, counter, prompt, identity)


def encoders(prepared: Prepared, treatment: Treatment) -> tuple[AnyEncoder, AnyEncoder]:
    """What a treatment embeds segments with, and documents."""
    model = prepared.model
    if not isinstance(model, SentenceTransformer):
        encoder = ObjectEncoder(model)
        return encoder, encoder
    settings: dict[str, Any] = {"prompt": prepared.prompt, "fingerprint": prepared.fingerprint or ""}

    def under(calibration: Calibration) -> ModelEncoder:
        by_segments = treatment.baskets == "segments" and calibration.acts
        return ModelEncoder(model, calibration, by_segments=by_segments, **settings)

    return under(treatment.for_segments), under(treatment.for_documents)


def _plan(spec: AuditSpec) -> tuple[tuple[LanguagePlan, ...], Corpus]:
    """The language plans, and the corpus in the languages they need."""
    if spec.languages is None and not spec.mixed:
        corpus = Corpus.read(spec.corpus, None, partial=True)
        first = "en" if "en" in corpus.languages else corpus.languages[0]
        return language_plans([first], ()), corpus.select([first])
    if spec.languages is None and spec.mixed == "all":
        corpus = Corpus.read(spec.corpus, None, spec.partial)
        return language_plans(corpus.languages, "all"), corpus
    plans = language_plans(spec.languages or (), spec.mixed)
    return plans, Corpus.read(spec.corpus, languages_of(plans), spec.partial)


def _refuse_beyond_encode(model: Any, spec: AuditSpec) -> None:
    kind = type(model).__name__
    if not callable(getattr(model, "encode", None)):
        raise UnsupportedModel(f"{kind} has no encode(list[str]): give a SentenceTransformer or an object that has.")
    acting = [treatment.name for treatment in spec.treatments if treatment.calibration.acts]
    beyond = [measure for measure in spec.measures if measure != "representation"]
    if acting or beyond:
        raise UnsupportedModel(
            f"{kind} is not a SentenceTransformer, so only representation without treatments can be measured: leave "
            f"out {', '.join([*acting, *beyond])}."
        )


def _name_of(model: Any) -> str:
    card = getattr(model, "model_card_data", None)
    return str(getattr(card, "base_model", None) or type(model).__name__)
