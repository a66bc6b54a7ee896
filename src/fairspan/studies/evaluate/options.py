"""`EvaluateOptions`: everything that is asked of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import ClassVar

from fairspan.calibration.treatment import AnyTreatment, Treatment, as_treatments
from fairspan.errors import CorpusError, require_list
from fairspan.retrieval.indexes import ONE_PER_CHUNK, WHOLE, index_of, most_vectors
from fairspan.retrieval.metrics import parse_metric
from fairspan.retrieval.source import PASSAGES, TaskOptions, TaskSource
from fairspan.runs.options import Analysis, StudyOptions, default_treatments, is_kind, source

METRICS = ("ndcg@10", "mrr", "recall@1", "recall@3", "recall@10")


@dataclass(frozen=True, kw_only=True)
class SearchAnalysis(Analysis):
    """How the rows of a search are analysed.

    Attributes:
        margin: largest loss that counts as negligible.
    """

    margin: float = 0.01

    def __post_init__(self) -> None:
        """Raise unless the margin is one."""
        is_number = isinstance(self.margin, int | float) and not isinstance(self.margin, bool)
        if not is_number or not 0 <= self.margin < 1:
            raise CorpusError(f"margin must be from 0 to below 1, got {self.margin!r}.")


@dataclass(frozen=True)
class SearchOptions(SearchAnalysis, StudyOptions, TaskOptions):
    """What evaluations and tunings are asked alike.

    Attributes:
        task: your own questions: a folder in BEIR's layout, one of its files qrels/SPLIT.tsv, or a
            search of mteb as mteb:NAME. Otherwise the queries are passages that are cut out of the
            documents of `corpus`.
        metrics: metrics such as ndcg@10, mrr and recall@1; the first decides.
        prompt: text put before every document. By default the model's own.
        query_prompt: text put before every query. By default the model's own.
    """

    task: str = source(PASSAGES)
    _: KW_ONLY
    metrics: Sequence[str] = METRICS
    prompt: str | None = None
    query_prompt: str | None = None

    def __post_init__(self) -> None:
        """Check what needs no file."""
        SearchAnalysis.__post_init__(self)
        TaskOptions.__post_init__(self)
        self.name_sources()
        _ = self.searched
        require_list("metrics", self.metrics, "['ndcg@10']", CorpusError)
        if not self.metrics:
            raise CorpusError("metrics must name at least one, such as ndcg@10.")
        for number, metric in enumerate(self.metrics):
            parse_metric(metric)
            if metric in self.metrics[:number]:
                raise CorpusError(f"metrics names {metric!r} twice.")

    @cached_property
    def searched(self) -> TaskSource:
        return TaskSource(self.task, self)

    @property
    def unused(self) -> set[str]:
        return self.searched.unused

    def check(self) -> None:
        """Read the task, which needs no model."""
        _ = self.searched.task


@dataclass(frozen=True)
class EvaluateOptions(SearchOptions):
    """What to search, with what, and under which treatments.

    Attributes:
        treatments: treatments to compare, the baseline first, as in an audit. By default plain and
            fair; for an endpoint plain and chunk-mean.
        vectors: numbers of vectors per document to compare, such as 1,2,4,8,all. Each vector is of
            a part of equal length; all is one for every chunk that the plain model reads. By
            default 1, and all as a reference for the first treatment, but not for an endpoint.
    """

    verb: ClassVar[str] = "evaluate"
    analysed: ClassVar[type[Analysis]] = SearchAnalysis
    _: KW_ONLY
    treatments: Sequence[AnyTreatment] | None = None
    vectors: Sequence[str | int] | None = None

    def __post_init__(self) -> None:
        """Check what needs no file."""
        super().__post_init__()
        _ = self.all_treatments
        if self.vectors is None:
            return
        require_list("vectors", self.vectors, "[1, 4, 'all']", CorpusError)
        counts = tuple(map(str, self.vectors))
        for count in counts:
            if most_vectors(index_of(count)) is None:
                raise CorpusError(f"vectors must be whole numbers from 1 on, or all, got {count}.")
        if not counts or len(set(counts)) < len(counts):
            raise CorpusError(f"vectors must name different numbers, got {', '.join(counts)}.")
        object.__setattr__(self, "vectors", counts)

    @cached_property
    def all_treatments(self) -> tuple[Treatment, ...]:
        listed = self.treatments
        if listed is None:
            listed = default_treatments(self.model)
        return as_treatments(listed)

    @property
    def compares_vectors(self) -> bool:
        """Whether numbers of vectors per document are compared."""
        return self.vectors is not None and len(self.vectors) > 1

    def indexes_of(self, treatment: Treatment) -> tuple[str, ...]:
        """What is kept of a document under a treatment."""
        if self.vectors is not None:
            return tuple(map(index_of, self.vectors))
        # What an endpoint embeds may cost money.
        is_free = not is_kind(self.model, "Endpoint")
        has_reference = is_free and treatment == self.all_treatments[0] and not treatment.chunks
        return (WHOLE, ONE_PER_CHUNK) if has_reference else (WHOLE,)
