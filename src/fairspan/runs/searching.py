"""`Searching`: tasks as a model under study searches them: what is embedded, the indexes, the rows of every query."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import polars as pl

from fairspan.calibration.treatment import PLAIN, as_treatment
from fairspan.encoding.encoder import Encoder, Text, refuse_other_spaces
from fairspan.errors import UnsupportedModel
from fairspan.retrieval.indexes import IndexPlan, Vectors, assemble, plan_index
from fairspan.retrieval.languages import PARALLEL
from fairspan.retrieval.measured import MeasuredTask, measure_task
from fairspan.retrieval.metrics import parse_metric
from fairspan.retrieval.search import ranks, search
from fairspan.retrieval.task import Passage, Query, RetrievalTask
from fairspan.runs.bases import Treated
from fairspan.runs.header import IndexCost
from fairspan.runs.running import Run
from fairspan.runs.search_rows import DEPTH, Ranking
from fairspan.runs.subject import Subject


@dataclass(frozen=True)
class Searching:
    """Tasks, one for each index, in the tokens of the model that searches them.

    Attributes:
        metrics: what every query is scored with.
        chunk_tokens: length of the longest chunk, in indexes of chunks; or "window".
        with_ranks: whether there are rows for the rank of every document that answers a query.
        may_cut: whether a model that reads only the beginning of long documents is measured as it is.
    """

    subject: Subject
    tasks: tuple[MeasuredTask, ...]
    metrics: Sequence[str]
    chunk_tokens: int | str
    with_ranks: bool = True
    may_cut: bool = False

    @cached_property
    def clusters(self) -> dict[str, int]:
        """A number for every cluster of queries, in order of appearance."""
        names = dict.fromkeys(
            query.cluster or query.id for one in self.tasks for query in one.task.queries
        )
        return {name: number for number, name in enumerate(names)}

    @cached_property
    def documents(self) -> dict[str, Passage]:
        """Every document by its id."""
        return {document.id: document for one in self.tasks for document in one.task.documents}

    def queries(self) -> list[Text]:
        """Every different query."""
        texts = (_query(one, query) for one in self.tasks for query in one.task.queries)
        return list(dict.fromkeys(texts))

    def lengths(self) -> dict[str, list[int]]:
        """Of documents and queries, and how far a document has to be read for a query's evidence to be seen."""
        documents = {
            own.id: one.lengths[own.id] for one in self.tasks for own in one.task.documents
        }
        added = 1 + self.subject.counter.count_whole([""])[0]
        return {
            "documents": list(documents.values()),
            "queries": [text.length for text in self.queries()],
            "evidence": [
                found.offset + added for one in self.tasks for found in one.positions.values()
            ],
        }

    def plan(self, index: str) -> IndexPlan:
        """What an index has to embed of all documents. The plain model and every treatment read its chunks whole."""
        lengths = {name: length for one in self.tasks for name, length in one.lengths.items()}
        readers = (as_treatment(PLAIN), *self.subject.treatments)
        counter = replace(self.subject, treatments=readers, whole=True).counter
        return plan_index(index, list(self.documents.values()), lengths, counter, self.chunk_tokens)

    def index_and_search(
        self, run: Run, treated: Treated, plan: IndexPlan
    ) -> tuple[pl.DataFrame, IndexCost]:
        """Embed what an index holds and search it: the rows, and what it takes."""
        run.prove_whole(treated.documents, plan.flat, may_cut=self.may_cut)
        computed, started = run.tally.computed_tokens, time.monotonic()
        run.fill(treated.documents, plan.flat)
        computed, seconds = run.tally.computed_tokens - computed, time.monotonic() - started
        rows, sizes = zip(
            *(self._search(run, measured, plan, treated) for measured in self.tasks), strict=True
        )
        # What was found in the store took no time, so the time of all of it is estimated from the rest.
        took = seconds * plan.tokens / computed if computed else None
        window = treated.documents.window
        tokens = plan.tokens
        if window:
            tokens = sum(min(text.length, window) for text in plan.flat)
        cost = IndexCost(
            treatment=treated.treatment.name,
            index=plan.kind,
            documents=len(plan.texts),
            tokens=tokens,
            seconds=None if took is None else round(took, 3),
            vectors=sum(count for count, _ in sizes),
            bytes=sum(size for _, size in sizes),
            searched_documents=sum(len(measured.task.documents) for measured in self.tasks),
        )
        return pl.concat(rows), cost

    def _search(
        self, run: Run, measured: MeasuredTask, plan: IndexPlan, treated: Treated
    ) -> tuple[pl.DataFrame, tuple[int, int]]:
        """The rows of a task, and the vectors and bytes of its index."""
        task, cosine = measured.task, self.subject.similarity == "cosine"
        # Of equal scores the later id comes first, as in trec_eval.
        names = sorted((document.id for document in task.documents), reverse=True)
        index = _index(run, names, plan, treated.documents, normalise=cosine)
        texts = [_query(measured, query) for query in task.queries]
        asked = run.read([treated.queries.key(text) for text in texts])
        queries = assemble("whole", [[vector] for vector in asked], len(asked[0]), normalise=cosine)
        depth = max([DEPTH, *(parse_metric(metric).at or 0 for metric in self.metrics)])
        hits = search(queries.vectors, index.vectors, depth, owners=index.owners)
        label = {**run.label, "treatment": treated.treatment.name, "part": plan.kind}
        ranking = Ranking(measured, names, hits, self.clusters, label)
        size = (len(index.vectors), index.vectors.nbytes)
        if task.across == PARALLEL:
            return ranking.language_rows(), size
        if not self.with_ranks:
            return ranking.metric_rows(self.metrics), size
        found = ranks(queries.vectors, index.vectors, ranking.pairs, owners=index.owners)
        return pl.concat([ranking.metric_rows(self.metrics), ranking.rank_rows(found)]), size


def measure_tasks(
    subject: Subject, tasks: Sequence[RetrievalTask], too_long: str | None = None
) -> tuple[MeasuredTask, ...]:
    """Tasks in the model's tokens.

    Where positions are compared, truncated documents would bias the comparison: by default they are left out there,
    and cut elsewhere.
    """
    documents, queries = subject.counters["document"], subject.counters["query"]
    how = too_long or usual_way(tasks[0])
    return tuple(measure_task(task, documents, queries, too_long=how) for task in tasks)


def usual_way(task: RetrievalTask) -> str:
    """The default for documents that the model does not read whole."""
    return "leave-out" if task.evidence else "cut"


def refuse_similarity(subject: Subject, indexes: Sequence[str] = ("whole",)) -> None:
    """Raise if vectors of the model cannot be searched by exact inner products."""
    if subject.similarity not in ("cosine", "dot"):
        raise UnsupportedModel(
            f"this model compares vectors by {subject.similarity}: only cosine and dot can be searched exactly."
        )
    if subject.is_open and any(index.startswith("late") for index in indexes):
        refuse_other_spaces(subject.model)
        if subject.similarity != "cosine":
            raise UnsupportedModel(
                "late chunks have no length of their own, and this model compares by inner product."
            )


def _query(measured: MeasuredTask, query: Query) -> Text:
    return Text(query.text, measured.query_lengths[query.id], language=query.language)


def _index(
    run: Run, names: Sequence[str], plan: IndexPlan, encoder: Encoder, *, normalise: bool
) -> Vectors:
    late = plan.kind.startswith("late")
    key = encoder.span_key if late else encoder.key
    texts = [plan.texts[name] for name in names]
    found = run.store.get(key(text) for own in texts for text in own)
    vectors = [[found[key(text)] for text in own] for own in texts]
    dimension = len(vectors[0][0]) // (len(texts[0][0].spans) if late else 1)
    return assemble(plan.kind, vectors, dimension, normalise=normalise)
