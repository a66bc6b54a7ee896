"""`EvaluateOptions`: everything that is asked of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import ClassVar

from fairspan.calibration.treatment import (
    DEFAULT_TREATMENTS,
    PLAIN,
    AnyTreatment,
    Treatment,
    as_treatments,
    require_use_of_fit,
)
from fairspan.corpus.corpus import Corpus
from fairspan.design.plan import languages_of
from fairspan.errors import CorpusError, require_list, require_whole
from fairspan.retrieval.indexes import INDEXES
from fairspan.retrieval.measured import TOO_LONG
from fairspan.retrieval.metrics import parse_metric
from fairspan.retrieval.source import (
    PAGES,
    PASSAGES,
    CollectionSource,
    LanguageSource,
    MtebSource,
    TaskOptions,
    TaskSource,
    find_source,
)
from fairspan.runs.options import StudyOptions, default_treatments, source

DOCUMENTS_ONLY = "+sides=document"


@dataclass(frozen=True)
class EvaluateOptions(StudyOptions, TaskOptions):
    """What to search, with what, and under which treatments.

    Attributes:
        task: your own questions: the folder of a collection, beir:FOLDER or mteb:NAME. Otherwise
            passages, each of which asks for the document of `corpus` it was cut out of, or pages
            joined from its texts.
        treatments: what is compared, the baseline first, as in an audit. By default plain and long;
            for pages plain and tiles; for an endpoint plain and chunk-mean.
        documents_only: measure every treatment also with queries as the plain model embeds them.
        indexes: what the index stores of a document: whole, chunk-mean, chunk-max, late-max.
        cross: measure every index under every treatment; otherwise all but whole only under the
            first one.
        chunk_tokens: length of the longest chunk in tokens, or window for what the plain model
            reads.
        metrics: metrics such as ndcg@10, mrr and recall@1; the first decides the verdicts.
        too_long: what to do with documents that not every treatment reads whole: leave-out,
            shorten, cut or error. By default cut if some treatment reads them whole; if none does,
            shorten for passages, and for a collection leave-out where positions are known,
            otherwise cut.
        margin: losses below it do not matter.
        prompt: text put before every document. By default the model's own.
        query_prompt: text put before every query. By default the model's own.
        fit_corpus: corpus that whitening is fitted on. By default, for pages, the segments that are
            on no page; collections need one.
    """

    verb: ClassVar[str] = "evaluate"
    task: str = source(PASSAGES)
    _: KW_ONLY
    treatments: Sequence[AnyTreatment] | None = None
    documents_only: bool = True
    indexes: Sequence[str] = ("whole",)
    cross: bool = False
    chunk_tokens: int | str = 128
    metrics: Sequence[str] = ("ndcg@10", "mrr", "recall@1", "recall@10")
    too_long: str | None = None
    margin: float = 0.01
    prompt: str | None = None
    query_prompt: str | None = None
    fit_corpus: str | None = source()

    def __post_init__(self) -> None:
        _ = self.searched
        _require_some("indexes", self.indexes, INDEXES)
        _require_some("metrics", self.metrics)
        for metric in self.metrics:
            parse_metric(metric)
        if self.too_long is not None:
            _require_some("too_long", [self.too_long], TOO_LONG)
        if self.chunk_tokens != "window":
            require_whole("chunk_tokens, if it is not window,", self.chunk_tokens, kind=CorpusError)
        if (
            isinstance(self.margin, bool)
            or not isinstance(self.margin, int | float)
            or not 0 <= self.margin < 1
        ):
            raise CorpusError(f"margin must be from 0 to below 1, got {self.margin!r}.")
        require_use_of_fit(self.fit_corpus, self.compared)

    @cached_property
    def searched(self) -> TaskSource:
        """What is searched. Languages may also be those of the corpus to fit on."""
        return find_source(self.task, self, () if self.fit_corpus is None else ("languages",))

    @cached_property
    def compared(self) -> tuple[Treatment, ...]:
        """The treatments that were named."""
        usual = default_treatments(self.model)
        if usual == DEFAULT_TREATMENTS and self.task != PAGES:
            usual = (PLAIN, "long")
        return as_treatments(
            usual if self.treatments is None else self.treatments, error=CorpusError
        )

    @cached_property
    def all_treatments(self) -> tuple[Treatment, ...]:
        """The treatments with those of them that do not change queries."""
        found = []
        for one in self.compared:
            found.append(one)
            if self.documents_only and one.for_queries.acts and one.for_documents.acts:
                calibration = one.for_documents.but(sides="document")
                found.append(replace(one, name=one.name + DOCUMENTS_ONLY, calibration=calibration))
        named: dict[str, Treatment] = {}
        for one in found:
            named.setdefault(one.name, one)
        return tuple(named.values())

    def twin_of(self, treatment: Treatment) -> Treatment | None:
        """The treatment of both sides that this is the documents-only form of, if it was added for that."""
        if treatment in self.compared:
            return None
        return next(
            (one for one in self.compared if one.name + DOCUMENTS_ONLY == treatment.name), None
        )

    def indexes_of(self, treatment: Treatment) -> tuple[str, ...]:
        """What is kept of a document under a treatment; late chunks first, whose pass gives whole vectors as well."""
        alone = treatment.name == self.compared[0].name or "whole" not in self.indexes
        kept = self.indexes if self.cross or alone else ("whole",)
        return tuple(sorted(kept, key=lambda name: not name.startswith("late")))

    @property
    def fit_languages(self) -> tuple[str, ...] | None:
        """Those to read of `fit_corpus` for a collection; None for all that it has."""
        if self.languages:
            return tuple(self.languages)
        return None if self.language is None else (self.language,)

    def check(self) -> None:
        languages = self.fit_languages
        source = self.searched
        if isinstance(source, CollectionSource | LanguageSource):
            source.read_files()
        elif not isinstance(source, MtebSource):
            languages = languages_of(source.read_corpus()[0])
        if self.fit_corpus is not None:
            Corpus.read(self.fit_corpus, languages, partial=True)


def _require_some(name: str, given: Sequence[str], choices: Sequence[str] | None = None) -> None:
    require_list(name, given, f"[{(choices or ('mrr',))[0]!r}]", CorpusError)
    if not given:
        raise CorpusError(
            f"{name} must name at least one{'' if choices is None else ' of ' + ', '.join(choices)}."
        )
    for number, value in enumerate(given):
        if choices is not None and value not in choices:
            raise CorpusError(f"{name} must be among {', '.join(choices)}, got {value!r}.")
        if value in given[:number]:
            raise CorpusError(f"{name} names {value!r} twice.")
