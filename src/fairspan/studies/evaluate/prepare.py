"""`PreparedEvaluation`: an evaluation with every query and document at hand and nothing embedded yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

from fairspan.calibration.treatment import Treatment
from fairspan.design.lengths import TokenCounter
from fairspan.design.plan import choose_plans
from fairspan.encoding.encoder import AnyEncoder, Encodes, ModelEncoder, ObjectEncoder, Text, refuse_other_spaces
from fairspan.encoding.tokens import Characters, counter_of, document_prompt, query_prompt
from fairspan.errors import TaskError, UnsupportedModel
from fairspan.model.fingerprint import fingerprint
from fairspan.model.loading import DEFAULT_MODEL, load_model
from fairspan.retrieval.beir import read_beir
from fairspan.retrieval.evidence import read_evidence
from fairspan.retrieval.indexes import IndexPlan, plan_index
from fairspan.retrieval.measured import MeasuredTask, measure_task
from fairspan.retrieval.pages import build_pages
from fairspan.retrieval.task import Passage, RetrievalTask
from fairspan.runs.bases import Embed, base_of, refuse_unsuited
from fairspan.runs.fit_part import FitPart, choose_fit_part
from fairspan.runs.progress import Progress, Silent
from fairspan.runs.runner import calibrations_of, name_of, run_name
from fairspan.studies.evaluate.spec import PAGES, EvaluationSpec

BEIR = "beir:"


@dataclass(frozen=True, slots=True)
class PreparedEvaluation:
    """An evaluation that is ready to run.

    Attributes:
        tasks: one for each index that is searched.
        fingerprint: of the weights; None for an object of which nothing is known, whose vectors are not kept.
        cosine: whether the model compares vectors by cosine, or by their inner product.
        fit: texts that are never searched, for treatments that are fitted.
    """

    model: SentenceTransformer | Encodes
    name: str
    spec: EvaluationSpec
    tasks: tuple[MeasuredTask, ...]
    counter: TokenCounter
    query_counter: TokenCounter
    prompts: Mapping[str, str]
    fingerprint: str | None
    cosine: bool
    fit: FitPart

    @property
    def run(self) -> str:
        """The name of the run's folder."""
        model = [self.name, self.fingerprint, calibrations_of(self.model), dict(self.prompts), self.counter.window]
        model.append(self.cosine)
        tasks = [one.task.fingerprint for one in self.tasks]
        return run_name(self.name, self.spec.to_dict(), model, tasks, *self.fit.decisive)

    @property
    def clusters(self) -> dict[str, int]:
        """A number for every cluster of queries, in order of appearance."""
        names = dict.fromkeys(query.cluster or query.id for one in self.tasks for query in one.task.queries)
        return {name: number for number, name in enumerate(names)}

    def queries(self) -> list[Text]:
        """Every different query."""
        texts = {query.text: one.query_lengths[query.id] for one in self.tasks for query in one.task.queries}
        return [Text(text, length) for text, length in texts.items()]

    def plan(self, index: str) -> IndexPlan:
        """What an index has to embed of all documents."""
        documents: dict[str, Passage] = {}
        lengths: dict[str, int] = {}
        for one in self.tasks:
            documents |= {document.id: document for document in one.task.documents}
            lengths |= one.lengths
        return plan_index(index, list(documents.values()), lengths, self.counter, self.spec.chunk_tokens)


def prepare_evaluation(
    model: SentenceTransformer | Encodes | str | None,
    spec: EvaluationSpec,
    *,
    name: str | None = None,
    progress: Progress | None = None,
) -> PreparedEvaluation:
    """Load, read, draw and measure, without embedding anything."""
    progress = progress or Silent()
    if model is None or isinstance(model, str):
        progress.stage(f"loading {model or 'the default model'}")
        name = name or model or DEFAULT_MODEL
        model = load_model(model)
    prompts = {"document": spec.prompt or "", "query": spec.query_prompt or ""}
    counters: dict[str, TokenCounter] = {"document": Characters(), "query": Characters()}
    identity, cosine = None, True
    if isinstance(model, SentenceTransformer):
        own = {"document": document_prompt(model), "query": query_prompt(model)}
        given = {"document": spec.prompt, "query": spec.query_prompt}
        prompts = {side: own[side] if given[side] is None else str(given[side]) for side in own}
        counters = {side: counter_of(model, prompts[side]) for side in own}
        cosine = _compares_by_cosine(model)
        if any(index.startswith("late") for index in spec.indexes):
            _refuse_late(model, cosine)
        for treatment in spec.treatments:
            late = any(index.startswith("late") for index in spec.indexes_of(treatment))
            refuse_unsuited(model, treatment, compares_tokens=late)
    else:
        _refuse_beyond_encode(model, spec)
    progress.stage("reading the task")
    tasks = tuple(
        measure_task(task, counters["document"], counters["query"], too_long=spec.too_long or _too_long(task))
        for task in read_tasks(spec, counters["document"])
    )
    _refuse_unknown_segments(spec, tasks)
    fit = FitPart()
    if isinstance(model, SentenceTransformer):
        fit = _fit_part(spec, model, counters["document"], tasks)
        progress.stage("hashing the weights")
        identity = fingerprint(model)
    return PreparedEvaluation(
        model,
        name or name_of(model),
        spec,
        tasks,
        counters["document"],
        counters["query"],
        prompts,
        identity,
        cosine,
        fit,
    )


def read_tasks(spec: EvaluationSpec, counter: TokenCounter) -> tuple[RetrievalTask, ...]:
    """The indexes to search: one for each edition of pages, one for any collection."""
    if spec.task == PAGES:
        also = [spec.queries.language] if spec.queries.language else []
        plans, corpus = choose_plans(spec.corpus, spec.languages, spec.mixed, partial=spec.partial, also=also)
        return build_pages(corpus, plans, spec.design, counter, spec.queries)
    if spec.task.startswith(BEIR):
        return (read_beir(spec.task.removeprefix(BEIR), split=spec.split),)
    path = Path(spec.task).expanduser()
    if not path.exists():
        raise TaskError(
            f"there is no task {spec.task!r}: it is 'pages', the folder or file of a collection, 'beir:FOLDER' or "
            "'mteb:NAME'."
        )
    if (path / "qrels").is_dir():
        return (read_beir(path, split=spec.split),)
    documents = None if spec.documents is None else Path(spec.documents)
    return (read_evidence(path, language=spec.language, documents=documents, unit=spec.unit),)


def encoders_of(prepared: PreparedEvaluation, treatment: Treatment, embed: Embed) -> tuple[AnyEncoder, AnyEncoder]:
    """What a treatment embeds queries with, and documents.

    Args:
        embed: embeds what a treatment is fitted on, where it is.
    """
    model = prepared.model
    if not isinstance(model, SentenceTransformer):
        encoder = ObjectEncoder(model)
        return encoder, encoder
    prompts, identity = prepared.prompts, prepared.fingerprint or ""
    base = base_of(model, identity, treatment, prompt=prompts["document"], fit=prepared.fit, embed=embed)
    queries, documents = treatment.for_queries, treatment.for_documents
    return (
        ModelEncoder(base.model, queries, prompt=prompts["query"], fingerprint=base.fingerprint, side="query"),
        ModelEncoder(
            base.model,
            documents,
            prompt=prompts["document"],
            fingerprint=base.fingerprint,
            by_segments=treatment.baskets == "segments" and documents.acts,
        ),
    )


def _fit_part(
    spec: EvaluationSpec, model: SentenceTransformer, counter: TokenCounter, tasks: Sequence[MeasuredTask]
) -> FitPart:
    if not any(treatment.whitens for treatment in spec.treatments):
        return FitPart()
    source, languages = spec.fit_corpus, spec.fit_languages
    if spec.task == PAGES:
        source = source or spec.corpus
        languages = tuple(dict.fromkeys(language for one in tasks for language in (one.task.lead, one.task.later)))
    tested = {query.text for one in tasks for query in one.task.queries}
    for document in {document for one in tasks for document in one.task.documents}:
        # On a page stands the beginning of a segment, whose end the corpus has as well.
        tested |= {document.text, *(document.text[slice(*span)] for span in document.spans)}
    return choose_fit_part(spec.treatments, model, counter, source, languages, tested, seed=spec.design.seed)


def _too_long(task: RetrievalTask) -> str:
    """Where positions are compared, a document of which only the beginning is read would decide the comparison."""
    return "leave-out" if task.evidence else "cut"


def _refuse_unknown_segments(spec: EvaluationSpec, tasks: Sequence[MeasuredTask]) -> None:
    by_segments = [treatment.name for treatment in spec.treatments if treatment.baskets == "segments"]
    without = sum(not document.spans for one in tasks for document in one.task.documents)
    if by_segments and without:
        raise TaskError(
            f"{by_segments[0]} makes every segment a basket, and of {without} documents the segments are not known: "
            "leave it out, or give their borders."
        )


def _compares_by_cosine(model: SentenceTransformer) -> bool:
    named = str(getattr(model.similarity_fn_name, "value", model.similarity_fn_name) or "cosine")
    if named not in ("cosine", "dot"):
        raise UnsupportedModel(
            f"this model compares vectors by {named}: only cosine and dot can be searched exactly."
        )
    return named == "cosine"


def _refuse_late(model: SentenceTransformer, cosine: bool) -> None:
    refuse_other_spaces(model)
    if not cosine:
        raise UnsupportedModel("late chunks have no length of their own, and this model compares by inner product.")


def _refuse_beyond_encode(model: Any, spec: EvaluationSpec) -> None:
    kind = type(model).__name__
    if not callable(getattr(model, "encode", None)):
        raise UnsupportedModel(f"{kind} has no encode(list[str]): give a SentenceTransformer or an object that has.")
    if spec.prompt or spec.query_prompt:
        raise UnsupportedModel(f"{kind} takes texts as they are: put the prompt before them yourself.")
    acting = [treatment.name for treatment in spec.treatments if treatment.acts]
    acting += ["temperature_grid"] if spec.temperature_grid else []
    late = [index for index in spec.indexes if index.startswith("late")]
    if acting or late:
        raise UnsupportedModel(
            f"{kind} is not a SentenceTransformer, so it can only be searched as it is: leave out "
            f"{', '.join([*acting, *late])}."
        )
