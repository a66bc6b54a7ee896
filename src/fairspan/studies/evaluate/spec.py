"""`EvaluationSpec`: everything that was asked of an evaluation, as one frozen value."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from dataclasses import fields as dataclass_fields
from itertools import product
from typing import Any

from fairspan.calibration.temperature import PerSide, check_temperature, dump_temperature
from fairspan.calibration.treatment import (
    DEFAULT_TREATMENTS,
    AnyTreatment,
    Treatment,
    as_treatments,
    require_use_of_fit,
)
from fairspan.design.design import Design
from fairspan.errors import TaskError, require_list, require_whole
from fairspan.retrieval.indexes import INDEXES
from fairspan.retrieval.measured import TOO_LONG
from fairspan.retrieval.metrics import parse_metric
from fairspan.retrieval.pages import PageQueries
from fairspan.retrieval.source import PAGES, TaskSource

DOCUMENTS_ONLY = "+sides=document"
NO_GRID = "a grid of temperatures needs one below 1, as in [[temperature_grid=1,0.9,0.8]]."
DEFAULT_METRICS = ("ndcg@10", "mrr", "recall@1", "recall@10")


@dataclass(frozen=True, slots=True)
class EvaluationSpec:
    """What to search, with what, and under which treatments; `fairspan.evaluate` says what each field means."""

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
    treatments: tuple[Treatment, ...] = as_treatments(DEFAULT_TREATMENTS)
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
        for name, example in (
            ("languages", "['en']"),
            ("mixed", "['de:en']"),
            ("indexes", "['whole']"),
            ("metrics", "['mrr']"),
            ("temperature_grid", "[1.0, 0.9]"),
        ):
            value = getattr(self, name)
            if value is not None and not (name == "mixed" and isinstance(value, str)):
                require_list(name, value, example, TaskError)
                object.__setattr__(self, name, tuple(value))
        require_use_of_fit(self.fit_corpus, self.treatments)
        _ = self.source
        _require_some("indexes", self.indexes, tuple(INDEXES))
        _require_some("metrics", self.metrics)
        for metric in self.metrics:
            parse_metric(metric)
        if self.too_long is not None:
            _require_some("too_long", [self.too_long], TOO_LONG)
        require_whole("chunk_tokens", self.chunk_tokens, kind=TaskError)
        if isinstance(self.margin, bool) or not isinstance(self.margin, int | float) or not 0 <= self.margin < 1:
            raise TaskError(f"[[margin]] must be from 0 to below 1, got {self.margin!r}.")
        if self.temperature_grid:
            object.__setattr__(self, "temperature_grid", _temperatures(self.temperature_grid))
            first = self.treatments[0]
            if first.calibration.temperature != 1.0 or first.calibration.sides != "both":
                raise TaskError(
                    f"the first treatment, {first.name}, has a temperature or a side of its own, so no grid of "
                    "temperatures can be set on it: put another one first, such as none."
                )

    @property
    def source(self) -> TaskSource:
        """What is searched."""
        own = {item.name: getattr(self, item.name) for item in dataclass_fields(TaskSource) if item.name != "fitted"}
        return TaskSource(**own, fitted=self.fit_corpus is not None)

    @property
    def grid(self) -> tuple[Treatment, ...]:
        """The first treatment under every pair of temperatures but (1, 1), which it has itself."""
        first, found = self.treatments[0], []
        # The first pair is (1, 1).
        for pair in list(product(self.temperature_grid, repeat=2))[1:]:
            temperature = PerSide(*pair)
            written = json.dumps(dump_temperature(temperature), separators=(",", ":"))
            calibration = first.calibration.but(temperature=temperature)
            found.append(replace(first, name=f"{first.name}+temperature={written}", calibration=calibration))
        return tuple(found)

    @property
    def measured(self) -> tuple[Treatment, ...]:
        """The treatments with those of them that do not change queries, and the grid of temperatures."""
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
        one = self.language is not None and not any(treatment.languages for treatment in self.treatments)
        return self.languages or ((str(self.language),) if one else None)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form. `treatments` are those that are measured."""
        values = {item.name: getattr(self, item.name) for item in dataclass_fields(self)}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return {
            **plain,
            "design": self.design.to_dict(),
            "queries": asdict(self.queries),
            "treatments": [treatment.to_dict() for treatment in self.measured],
        }


def make_evaluation(
    task: str = PAGES,
    *,
    treatments: Sequence[AnyTreatment] | None = None,
    size: int = 4,
    sets: int = 100,
    query: str = "held-out",
    query_tokens: int = 60,
    query_language: str | None = None,
    editions: int | None = None,
    distractors: int = 0,
    temperature_grid: Sequence[float] | None = None,
    **fields: Any,
) -> EvaluationSpec:
    """A spec from plain values: those of the pages that are drawn, and fields of `EvaluationSpec` and `Design`."""
    if treatments is None:
        treatments = DEFAULT_TREATMENTS[:1] if temperature_grid else DEFAULT_TREATMENTS
    if temperature_grid is not None and not temperature_grid:
        raise TaskError(NO_GRID)
    own = {item.name for item in dataclass_fields(EvaluationSpec)}
    of_design = {name: fields.pop(name) for name in [*fields] if name not in own}
    return EvaluationSpec(
        task=task,
        treatments=as_treatments(treatments, error=TaskError),
        design=Design(sizes=(size,), sets=sets, **of_design),
        queries=PageQueries(query, query_tokens, query_language, editions, distractors),
        temperature_grid=() if temperature_grid is None else temperature_grid,  # type: ignore[arg-type]
        **fields,
    )


def _temperatures(given: Sequence[float]) -> tuple[float, ...]:
    """From 1 downwards."""
    found = tuple(sorted({1.0, *(check_temperature(value) for value in given)}, reverse=True))
    if len(found) < 2:
        raise TaskError(NO_GRID)
    return found


def _require_some(name: str, given: Sequence[str], choices: Sequence[str] | None = None) -> None:
    if not given:
        raise TaskError(f"[[{name}]] must name at least one{'' if choices is None else ' of ' + ', '.join(choices)}.")
    for number, value in enumerate(given):
        if choices is not None and value not in choices:
            raise TaskError(f"[[{name}]] must be among {', '.join(choices)}, got {value!r}.")
        if value in given[:number]:
            raise TaskError(f"[[{name}]] names {value!r} twice.")
