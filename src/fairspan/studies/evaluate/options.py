"""`EvaluateOptions`: everything that is asked of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property
from itertools import product
from typing import ClassVar

from fairspan.calibration.calibration import PerSide, check_temperature
from fairspan.calibration.treatment import (
    AnyTreatment,
    Treatment,
    as_treatments,
    name_sides,
    require_use_of_fit,
)
from fairspan.corpus.corpus import Corpus
from fairspan.corpus.readers import LONG_SAMPLE
from fairspan.errors import CorpusError, require_list, require_whole
from fairspan.retrieval.indexes import INDEXES, ONE_PER_CHUNK, index_of, most_vectors
from fairspan.retrieval.measured import TOO_LONG
from fairspan.retrieval.metrics import parse_metric
from fairspan.retrieval.source import (
    PAGES,
    PASSAGES,
    CollectionSource,
    LanguageSource,
    MtebSource,
    PageSource,
    TaskOptions,
    TaskSource,
    find_source,
)
from fairspan.runs.options import StudyOptions, default_treatments, is_kind, source

DOCUMENTS_ONLY = "+sides=document"
_OF_SEARCH = (
    "documents_only",
    "vectors",
    "indexes",
    "cross",
    "chunk_tokens",
    "metrics",
    "too_long",
    "margin",
)
"""Options that mean nothing to tasks which mteb scores."""


@dataclass(frozen=True)
class EvaluateOptions(StudyOptions, TaskOptions):
    """What to search, with what, and under which treatments.

    Attributes:
        task: your own questions: the folder of a collection, beir:FOLDER or mteb:NAME; or tasks of
            mteb of any type, which mteb scores: mteb:STS22,ImdbClassification. Otherwise passages,
            each of which asks for the document of `corpus` it was cut out of, or pages joined from
            its texts.
        treatments: what is compared, the baseline first, as in an audit. By default plain and fair;
            for an endpoint plain and chunk-mean.
        temperature_grid: softmax temperatures of which every pair, one for queries and one for
            documents, is a treatment as well, in a table and a heat map; by default beside plain
            only.
        documents_only: measure every treatment also with queries as the plain model embeds them.
        vectors: numbers of vectors per document to compare, such as 1,2,4,8,all: parts of equal
            length, up to one for every chunk that the plain model reads. In place of indexes.
        indexes: what the index stores of a document: whole, chunk-mean, chunk-max, late-max,
            parts-4. By default whole and, for passages and pages, as a reference also one vector
            per chunk (parts-all) under the first treatment; not for an endpoint.
        cross: measure every index under every treatment; otherwise all but whole only under the
            first one.
        chunk_tokens: length of the longest chunk in tokens, or window for what the plain model
            reads.
        metrics: metrics such as ndcg@10, mrr and recall@1; the first decides the verdicts.
        too_long: what to do with documents that not every treatment reads whole: leave-out,
            shorten, cut or error. By default cut if some treatment, or one vector per chunk,
            has them whole; otherwise shorten for passages, and for a collection leave-out where
            positions are known, or else cut.
        margin: losses below it do not matter.
        prompt: text put before every document. By default the model's own.
        query_prompt: text put before every query. By default the model's own.
        fit_corpus: corpus that whitening is fitted on. By default, for pages, the segments that are
            on no page; for tasks that mteb scores, long-sample; collections need one.
    """

    verb: ClassVar[str] = "evaluate"
    task: str = source(PASSAGES)
    _: KW_ONLY
    treatments: Sequence[AnyTreatment] | None = None
    temperature_grid: Sequence[float] = ()
    documents_only: bool = True
    vectors: Sequence[str] | None = None
    indexes: Sequence[str] | None = None
    cross: bool = False
    chunk_tokens: int | str = 128
    metrics: Sequence[str] = ("ndcg@10", "mrr", "recall@1", "recall@3", "recall@10")
    too_long: str | None = None
    margin: float = 0.01
    prompt: str | None = None
    query_prompt: str | None = None
    fit_corpus: str | None = source()

    def __post_init__(self) -> None:
        """Check what needs no file."""
        self.name_sources()
        _ = self.searched
        require_list("temperature_grid", self.temperature_grid, "[1.0, 0.8]", CorpusError)
        for temperature in self.temperature_grid:
            check_temperature(temperature)
        if self.vectors is not None:
            self._compare_vectors(self.vectors)
        if self.indexes is not None:
            allowed = [index for index in self.indexes if most_vectors(index) is not None]
            _require_some("indexes", self.indexes, (*INDEXES, *allowed))
        _require_some("metrics", self.metrics)
        for metric in self.metrics:
            parse_metric(metric)
        if self.too_long is not None:
            _require_some("too_long", [self.too_long], TOO_LONG)
        if self.chunk_tokens != "window":
            require_whole("chunk_tokens, if it is not window,", self.chunk_tokens, kind=CorpusError)
        is_number = isinstance(self.margin, int | float) and not isinstance(self.margin, bool)
        if not is_number or not 0 <= self.margin < 1:
            raise CorpusError(f"margin must be from 0 to below 1, got {self.margin!r}.")
        require_use_of_fit(self.fit_corpus, self.compared)

    def _compare_vectors(self, vectors: Sequence[str]) -> None:
        """Make indexes of these numbers of vectors, under every treatment."""
        require_list("vectors", vectors, "[1, 4, 'all']", CorpusError)
        if self.indexes is not None or self.cross:
            raise CorpusError("vectors takes the place of indexes and cross: omit these.")
        kinds = tuple(index_of(count) for count in vectors)
        for count, kind in zip(vectors, kinds, strict=True):
            if most_vectors(kind) is None:
                raise CorpusError(f"vectors must be whole numbers from 1 on, or all, got {count}.")
        object.__setattr__(self, "vectors", tuple(map(str, vectors)))
        object.__setattr__(self, "indexes", kinds)
        object.__setattr__(self, "cross", True)

    @cached_property
    def searched(self) -> TaskSource:
        """What is searched. Languages may also be those of the corpus to fit on."""
        return find_source(self.task, self, () if self.fit_corpus is None else ("languages",))

    @cached_property
    def is_benchmark(self) -> bool:
        """Whether mteb scores the tasks, in place of a search query by query."""
        return isinstance(self.searched, MtebSource) and not self.searched.is_search

    @property
    def unused(self) -> set[str]:
        return self.idle(type(self.searched)) | set(_OF_SEARCH if self.is_benchmark else ())

    @cached_property
    def compared(self) -> tuple[Treatment, ...]:
        listed = self.treatments
        if listed is None:
            usual = default_treatments(self.model)
            listed = usual[:1] if self.temperature_grid else usual
        return as_treatments([*as_treatments(listed, error=CorpusError), *self._pairs()])

    def _pairs(self) -> list[str]:
        """The treatment of each pair of temperatures; two of 1 change nothing."""
        pairs = [PerSide(*pair) for pair in product(self.temperature_grid, repeat=2)]
        return [name_sides(pair) for pair in pairs if pair != PerSide()]

    @cached_property
    def all_treatments(self) -> tuple[Treatment, ...]:
        """The treatments with those of them that do not change queries, unless sides differ."""
        by_name: dict[str, Treatment] = {}
        by_side = any(isinstance(item.calibration.temperature, PerSide) for item in self.compared)
        adds = self.documents_only and not by_side and not self.is_benchmark
        for treatment in self.compared:
            by_name.setdefault(treatment.name, treatment)
            if adds and treatment.for_queries.acts and treatment.for_documents.acts:
                name = treatment.name + DOCUMENTS_ONLY
                calibration = treatment.for_documents.but(sides="document")
                by_name.setdefault(name, replace(treatment, name=name, calibration=calibration))
        return tuple(by_name.values())

    def twin_of(self, treatment: Treatment) -> Treatment | None:
        """The treatment of both sides that this is the added documents-only form of, if any."""
        if treatment in self.compared:
            return None
        twins = {compared.name + DOCUMENTS_ONLY: compared for compared in self.compared}
        return twins.get(treatment.name)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What is kept of a document under some treatment."""
        if self.indexes is not None:
            return tuple(self.indexes)
        # What an endpoint embeds may cost money.
        has_reference = self.task in (PASSAGES, PAGES) and not is_kind(self.model, "Endpoint")
        return ("whole", ONE_PER_CHUNK) if has_reference else ("whole",)

    def indexes_of(self, treatment: Treatment) -> tuple[str, ...]:
        """What is kept of a document under a treatment."""
        alone = treatment.name == self.compared[0].name or "whole" not in self.kinds
        kept = self.kinds if self.cross or alone else ("whole",)
        # Late chunks come first, since their pass gives whole vectors as well.
        return tuple(sorted(kept, key=lambda name: not name.startswith("late")))

    @property
    def fit_languages(self) -> tuple[str, ...] | None:
        """Those to read of `fit_corpus`, unless pages have some; None for all that it has."""
        if self.languages:
            return tuple(self.languages)
        # mteb has its own names of languages, such as eng.
        if self.language is None or isinstance(self.searched, MtebSource):
            return None
        return (self.language,)

    @cached_property
    def fitting(self) -> Corpus | None:
        """The corpus that whitening is fitted on, if there is one."""
        languages = self.fit_languages
        if isinstance(self.searched, PageSource):
            _, corpus = self.searched.planned_corpus
            if self.fit_corpus is None:
                return corpus
            languages = corpus.languages
        fit_corpus = self.fit_corpus or (LONG_SAMPLE if self.is_benchmark else None)
        if fit_corpus is None:
            return None
        return Corpus.read(fit_corpus, languages, partial=True)

    def check(self) -> None:
        """Read the task and the corpus to fit on, if the model is not needed for that."""
        source = self.searched
        if isinstance(source, CollectionSource | LanguageSource):
            source.read()
        elif not isinstance(source, MtebSource):
            _ = source.planned_corpus
        elif self.is_benchmark:
            _ = source.tasks
            self._refuse_search_options()
        _ = self.fitting

    def _refuse_search_options(self) -> None:
        for option in fields(self):
            if option.name in _OF_SEARCH and getattr(self, option.name) != option.default:
                raise CorpusError(
                    f"{option.name} is for searches, and {self.task} is scored by mteb: omit it."
                )


def _require_some(name: str, values: Sequence[str], choices: Sequence[str] | None = None) -> None:
    """Raise unless an option lists different values, all of them among the choices if there are."""
    require_list(name, values, f"[{(choices or ('mrr',))[0]!r}]", CorpusError)
    if not values:
        among = "" if choices is None else " of " + ", ".join(choices)
        raise CorpusError(f"{name} must name at least one{among}.")
    for number, value in enumerate(values):
        if choices is not None and value not in choices:
            raise CorpusError(f"{name} must be among {', '.join(choices)}, got {value!r}.")
        if value in values[:number]:
            raise CorpusError(f"{name} names {value!r} twice.")
