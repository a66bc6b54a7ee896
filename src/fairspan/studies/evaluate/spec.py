"""`EvaluationSpec`: everything that was asked of an evaluation, as one frozen value."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from dataclasses import fields as dataclass_fields
from typing import Any

from fairspan.calibration.temperature import PerSide, check_temperature, dump_temperature
from fairspan.calibration.treatment import Treatment, as_treatment
from fairspan.design.design import Design
from fairspan.errors import TaskError
from fairspan.retrieval.indexes import INDEXES
from fairspan.retrieval.measured import TOO_LONG
from fairspan.retrieval.metrics import parse_metric
from fairspan.retrieval.pages import PageQueries

PAGES = "pages"
DEFAULT_TREATMENTS = ("none", "retrieval", "paper")
DOCUMENTS_ONLY = "+sides=document"
NO_GRID = "a grid of temperatures needs one below 1, as in 1,0.9,0.8."
DEFAULT_METRICS = ("ndcg@10", "mrr", "recall@1", "recall@10")


@dataclass(frozen=True, slots=True)
class EvaluationSpec:
    """What to search, with what, and under which treatments.

    Attributes:
        task: "pages", the folder or file of a collection, "beir:FOLDER" or "mteb:NAME".
        corpus, languages, mixed, partial: as in an audit; of pages only.
        design: pages, their orders, lengths and the seed.
        queries: what pages are searched with.
        documents: the folder of the documents, where a collection keeps them apart.
        language: of a collection that holds several.
        unit: what a document is in files like SQuAD's: "article" or "paragraph".
        split: of a collection that is divided.
        treatments: what is compared; the first is what the others are measured against.
        temperature_grid: the first treatment is also measured with every pair of these as the temperatures of queries
            and documents (LC Fig. 9). 1 belongs to every grid.
        documents_only: measure every treatment a second time with queries as the plain model embeds them.
        indexes: what is kept of a document. All but "whole" are measured under the first treatment alone, unless
            `cross` is set.
        chunk_tokens: the longest chunk.
        metrics: of which the first decides what is advised.
        too_long: what to do with documents that the model does not read whole: "leave-out", "shorten", "cut" or
            "error"; None leaves them out where positions are known and has them cut elsewhere.
        margin: a loss of quality below it counts as none.
        prompt, query_prompt: put before documents and queries; None for the model's own.
        fit_corpus: what a whitening is fitted on; None for what the corpus of pages has on no page. Collections need
            one.
    """

    task: str = PAGES
    corpus: str = "sample"
    languages: tuple[str, ...] | None = None
    mixed: str | tuple[str, ...] = ()
    partial: bool = False
    design: Design = field(default_factory=lambda: Design(sets=100))
    queries: PageQueries = field(default_factory=PageQueries)
    documents: str | None = None
    language: str | None = None
    unit: str = "article"
    split: str = "test"
    treatments: tuple[Treatment, ...] = tuple(as_treatment(name) for name in DEFAULT_TREATMENTS)
    documents_only: bool = True
    indexes: tuple[str, ...] = ("whole",)
    cross: bool = False
    chunk_tokens: int = 128
    metrics: tuple[str, ...] = DEFAULT_METRICS
    too_long: str | None = None
    margin: float = 0.01
    prompt: str | None = None
    query_prompt: str | None = None
    fit_corpus: str | None = None
    temperature_grid: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.task, str) or not self.task.strip():
            raise TaskError(f"a task is 'pages', a folder, 'beir:FOLDER' or 'mteb:NAME', got {self.task!r}.")
        _require_some("treatments", [treatment.name for treatment in self.treatments])
        _require_some("indexes", self.indexes, tuple(INDEXES))
        _require_some("metrics", self.metrics)
        for metric in self.metrics:
            parse_metric(metric)
        if self.too_long is not None:
            _require_some("too_long", [self.too_long], TOO_LONG)
        if isinstance(self.chunk_tokens, bool) or not isinstance(self.chunk_tokens, int) or self.chunk_tokens < 1:
            raise TaskError(f"chunk_tokens must be a whole number of at least 1, got {self.chunk_tokens!r}.")
        if isinstance(self.margin, bool) or not isinstance(self.margin, int | float) or not 0 <= self.margin < 1:
            raise TaskError(f"margin must be from 0 to below 1, got {self.margin!r}.")
        if self.temperature_grid:
            object.__setattr__(self, "temperature_grid", _temperatures(self.temperature_grid))
            _refuse_grid(self.treatments[0])

    @property
    def grid(self) -> tuple[Treatment, ...]:
        """The first treatment under every pair of temperatures but (1, 1), which it has itself."""
        values = self.temperature_grid
        return tuple(
            _at(self.treatments[0], PerSide(query, document))
            for query in values
            for document in values
            if (query, document) != (1.0, 1.0)
        )

    @property
    def measured(self) -> tuple[Treatment, ...]:
        """The treatments with those of them that leave queries as they are, and the grid of temperatures."""
        found = []
        for treatment in self.treatments:
            found.append(treatment)
            both = treatment.for_queries.acts and treatment.for_documents.acts
            if self.documents_only and both:
                calibration = treatment.for_documents.but(sides="document")
                found.append(replace(treatment, name=treatment.name + DOCUMENTS_ONLY, calibration=calibration))
        found += self.grid
        names = [treatment.name for treatment in found]
        return tuple(one for number, one in enumerate(found) if one.name not in names[:number])

    def twin_of(self, treatment: Treatment) -> Treatment | None:
        """The treatment of both sides that this is the documents-only form of, if it was added for that."""
        if treatment in (*self.treatments, *self.grid):
            return None
        return next((one for one in self.treatments if one.name + DOCUMENTS_ONLY == treatment.name), None)

    def indexes_of(self, treatment: Treatment) -> tuple[str, ...]:
        """What is kept of a document under a treatment."""
        alone = treatment.name == self.treatments[0].name or "whole" not in self.indexes
        return self.indexes if self.cross or alone else ("whole",)

    @property
    def fit_languages(self) -> tuple[str, ...] | None:
        """Those to read of `fit_corpus` for a collection; None for all that it has."""
        return self.languages or (None if self.language is None else (self.language,))

    def to_dict(self) -> dict[str, Any]:
        """The JSON form. `treatments` are those that are measured."""
        values = {item.name: getattr(self, item.name) for item in dataclass_fields(self)}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        # Named only where there is one, so that runs without keep their names.
        for name in ("fit_corpus", "temperature_grid"):
            if not plain[name]:
                del plain[name]
        return {
            **plain,
            "design": self.design.to_dict(),
            "queries": asdict(self.queries),
            "treatments": [treatment.to_dict() for treatment in self.measured],
        }


def make_evaluation(
    task: str = PAGES,
    *,
    treatments: Sequence[Treatment | str | Mapping[str, Any]] | None = None,
    size: int = 4,
    **fields: Any,
) -> EvaluationSpec:
    """A spec from plain values: fields of `EvaluationSpec`, of `Design` and, as `query_…`, of `PageQueries`.

    Args:
        treatments: "none", "retrieval" and "paper", or "none" alone beside a grid of temperatures.
        size: segments on a page.
    """
    if treatments is None:
        treatments = DEFAULT_TREATMENTS[:1] if fields.get("temperature_grid") else DEFAULT_TREATMENTS
    if isinstance(treatments, str) or not isinstance(treatments, Iterable):
        raise TaskError(f"treatments must be a list, such as ['none'], got {treatments!r}.")
    own = {item.name for item in dataclass_fields(EvaluationSpec)} - {"design", "queries", "task", "treatments"}
    of_design = {item.name for item in dataclass_fields(Design)} - {"sizes", *own}
    of_queries = {"query": "kind", "query_tokens": "tokens", "query_language": "language"}
    of_queries |= {name: name for name in ("editions", "distractors")}
    known = {*own, *of_design, *of_queries}
    unknown = [name for name in fields if name not in known]
    if unknown:
        raise TaskError(f"an evaluation has no field {unknown[0]!r}. Fields: {', '.join(sorted(known | {'size'}))}.")
    for name in ("languages", "indexes", "metrics", "mixed", "temperature_grid"):
        value = fields.get(name)
        if isinstance(value, Iterable) and not isinstance(value, str):
            fields[name] = tuple(value)
        elif value is not None and name != "mixed":
            raise TaskError(f"{name} must be a list, got {value!r}.")
    if fields.get("temperature_grid") == ():
        raise TaskError(NO_GRID)
    design = {"sets": 100, **{name: value for name, value in fields.items() if name in of_design}}
    queries = {of_queries[name]: value for name, value in fields.items() if name in of_queries}
    return EvaluationSpec(
        task=task,
        treatments=tuple(as_treatment(treatment) for treatment in treatments),
        design=Design(sizes=(size,), **design),
        queries=PageQueries(**queries),
        **{name: value for name, value in fields.items() if name in own},
    )


def _at(treatment: Treatment, temperature: PerSide) -> Treatment:
    written = json.dumps(dump_temperature(temperature), separators=(",", ":"))
    calibration = treatment.calibration.but(temperature=temperature)
    return replace(treatment, name=f"{treatment.name}+temperature={written}", calibration=calibration)


def _temperatures(given: Sequence[float]) -> tuple[float, ...]:
    """From 1 downwards."""
    found = tuple(sorted({1.0, *(check_temperature(value) for value in given)}, reverse=True))
    if len(found) < 2:
        raise TaskError(NO_GRID)
    return found


def _refuse_grid(treatment: Treatment) -> None:
    calibration = treatment.calibration
    if calibration.temperature != 1.0 or calibration.sides != "both":
        raise TaskError(
            f"the first treatment, {treatment.name}, has a temperature or a side of its own, so no grid of "
            "temperatures can be set on it: put another one first, such as none."
        )


def _require_some(name: str, given: Sequence[str], choices: Sequence[str] | None = None) -> None:
    if not given:
        raise TaskError(f"{name} must name at least one{'' if choices is None else ' of ' + ', '.join(choices)}.")
    for number, value in enumerate(given):
        if choices is not None and value not in choices:
            raise TaskError(f"{name} must be among {', '.join(choices)}, got {value!r}.")
        if value in given[:number]:
            raise TaskError(f"{name} names {value!r} twice.")
