"""`Prepared`: an audit with every document built and nothing embedded yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sentence_transformers import SentenceTransformer

from fairspan.calibration.calibration import Calibration
from fairspan.calibration.treatment import Treatment
from fairspan.corpus.corpus import Corpus
from fairspan.design.documents import Documents, build_documents
from fairspan.design.lengths import TokenCounter, measure_segments
from fairspan.design.plan import LanguagePlan, choose_plans, languages_of
from fairspan.encoding.encoder import AnyEncoder, Encodes, ModelEncoder, ObjectEncoder, Text, refuse_other_spaces
from fairspan.encoding.tokens import Characters, counter_of, document_prompt
from fairspan.errors import UnsupportedModel
from fairspan.model.fingerprint import fingerprint
from fairspan.model.loading import load_model
from fairspan.runs.bases import Embed, base_of, refuse_unsuited
from fairspan.runs.fit_part import FitPart, choose_fit_part
from fairspan.runs.progress import Progress, Silent
from fairspan.runs.runner import calibrations_of, name_of, run_name
from fairspan.studies.audit.spec import AuditSpec


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
    fit: FitPart

    @property
    def run(self) -> str:
        """The name of the run's folder."""
        plans = [str(plan) for plan in self.plans]
        calibrations = calibrations_of(self.model)
        model = [self.name, self.fingerprint, calibrations, self.prompt, self.counter.window]
        decisive = [self.corpus.fingerprint, plans, *self.fit.decisive]
        return run_name(self.name, self.spec.to_dict(), model, *decisive)

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
    name = name or name_of(model)
    progress.stage("reading the corpus")
    plans, corpus = choose_plans(spec.corpus, spec.languages, spec.mixed, partial=spec.partial)
    prompt, counter = "", Characters()  # type: tuple[str, TokenCounter]
    if isinstance(model, SentenceTransformer):
        prompt = document_prompt(model) if spec.prompt is None else spec.prompt
        counter = counter_of(model, prompt)
        if "retention" in spec.measures:
            refuse_other_spaces(model)
        for treatment in spec.treatments:
            refuse_unsuited(model, treatment, compares_tokens="retention" in spec.measures)
    else:
        _refuse_beyond_encode(model, spec)
    progress.stage("building documents")
    material = measure_segments(corpus, languages_of(plans), spec.design, counter)
    documents = build_documents(material, plans, spec.design, counter)
    identity, fit = None, FitPart()
    if isinstance(model, SentenceTransformer):
        fit = choose_fit_part(
            spec.treatments,
            model,
            counter,
            spec.fit_corpus or spec.corpus,
            languages_of(plans),
            documents.segments.values(),
            seed=spec.design.seed,
        )
        progress.stage("hashing the weights")
        identity = fingerprint(model)
    return Prepared(model, name, spec, corpus, plans, documents, counter, prompt, identity, fit)


def encoders(prepared: Prepared, treatment: Treatment, embed: Embed) -> tuple[AnyEncoder, AnyEncoder]:
    """What a treatment embeds segments with, and documents.

    Args:
        embed: embeds what a treatment is fitted on, where it is.
    """
    model = prepared.model
    if not isinstance(model, SentenceTransformer):
        encoder = ObjectEncoder(model)
        return encoder, encoder
    prompt, identity = prepared.prompt, prepared.fingerprint or ""
    base = base_of(model, identity, treatment, prompt=prompt, fit=prepared.fit, embed=embed)
    settings: dict[str, Any] = {"prompt": prompt, "fingerprint": base.fingerprint}

    def under(calibration: Calibration) -> ModelEncoder:
        by_segments = treatment.baskets == "segments" and calibration.acts
        return ModelEncoder(base.model, calibration, by_segments=by_segments, **settings)

    return under(treatment.for_segments), under(treatment.for_documents)


def _refuse_beyond_encode(model: Any, spec: AuditSpec) -> None:
    kind = type(model).__name__
    if not callable(getattr(model, "encode", None)):
        raise UnsupportedModel(f"{kind} has no encode(list[str]): give a SentenceTransformer or an object that has.")
    acting = [treatment.name for treatment in spec.treatments if treatment.acts]
    beyond = [measure for measure in spec.measures if measure != "representation"]
    if acting or beyond:
        raise UnsupportedModel(
            f"{kind} is not a SentenceTransformer, so only representation without treatments can be measured: leave "
            f"out {', '.join([*acting, *beyond])}."
        )
