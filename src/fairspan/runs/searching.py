"""`Searching`: tasks as a model searches them: what is embedded, the indexes, the rows."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import polars as pl

from fairspan.calibration.treatment import PLAIN, as_treatment
from fairspan.encoding.encoder import Encoder, Text, refuse_other_spaces
from fairspan.encoding.fill import tokens_read
from fairspan.errors import UnsupportedModel
from fairspan.retrieval.indexes import IndexPlan, Vectors, assemble, plan_index
from fairspan.retrieval.languages import PARALLEL
from fairspan.retrieval.measured import MeasuredTask, measure_task
from fairspan.retrieval.metrics import parse_metric
from fairspan.retrieval.search import ranks, search
from fairspan.retrieval.task import Passage, Query, RetrievalTask
from fairspan.runs.header import IndexCost
from fairspan.runs.search_rows import DEPTH, Ranking
from fairspan.runs.study import Run
from fairspan.runs.subject import Subject, Treated


@dataclass(frozen=True)
class Searching:
    """Tasks, one for each index, in the tokens of the model that searches them.

    Attributes:
        chunk_tokens: length of the longest chunk, in indexes of chunks; or "window".
        with_ranks: whether there are rows for the rank of every document that answers a query.
        may_cut: whether a model may read only the beginning of long documents.
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
            query.cluster or query.id for searched in self.tasks for query in searched.task.queries
        )
        return {name: number for number, name in enumerate(names)}

    @cached_property
    def documents(self) -> dict[str, Passage]:
        return {
            document.id: document for searched in self.tasks for document in searched.task.documents
        }

    def queries(self) -> list[Text]:
        texts = (
            _query(searched, query) for searched in self.tasks for query in searched.task.queries
        )
        return list(dict.fromkeys(texts))

    @cached_property
    def _tokens(self) -> dict[str, int]:
        """The length of every document by its id."""
        return {
            document.id: searched.lengths[document.id]
            for searched in self.tasks
            for document in searched.task.documents
        }

    def lengths(self) -> dict[str, list[int]]:
        """Tokens of documents, of queries, and of documents up to each query's evidence."""
        added = 1 + self.subject.counter.count_whole([""])[0]
        positions = [place for searched in self.tasks for place in searched.positions.values()]
        return {
            "documents": list(self._tokens.values()),
            "queries": [text.length for text in self.queries()],
            "evidence": [position.offset + added for position in positions],
        }

    def plan(self, index: str) -> IndexPlan:
        """What an index has to embed; the plain model and every treatment read its chunks whole."""
        readers = (as_treatment(PLAIN), *self.subject.treatments)
        counter = replace(self.subject, treatments=readers, whole=True).counter
        documents = list(self.documents.values())
        return plan_index(index, documents, self._tokens, counter, self.chunk_tokens)

    def index_and_search(
        self, run: Run, treated: Treated, plan: IndexPlan
    ) -> tuple[pl.DataFrame, IndexCost]:
        """Embed what an index holds and search it: the rows, and what it takes."""
        run.prove_whole(treated.documents, plan.flat, may_cut=self.may_cut)
        before = run.tally.computed_tokens
        started = time.monotonic()
        run.fill(treated.documents, plan.flat)
        seconds = time.monotonic() - started
        computed = run.tally.computed_tokens - before
        rows, sizes = zip(
            *(self._search(run, measured, plan, treated) for measured in self.tasks), strict=True
        )
        # What the store had took no time, so that the time of all is estimated from the rest.
        tokens = tokens_read(treated.documents, plan.flat)
        took = seconds * tokens / computed if computed else None
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
        task = measured.task
        cosine = self.subject.similarity == "cosine"
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
        of_pairs = ranks(queries.vectors, index.vectors, ranking.pairs, owners=index.owners)
        return pl.concat([ranking.metric_rows(self.metrics), ranking.rank_rows(of_pairs)]), size


def measure_tasks(
    subject: Subject, tasks: Sequence[RetrievalTask], too_long: str | None = None
) -> tuple[MeasuredTask, ...]:
    counters = (subject.counters["document"], subject.counters["query"])
    how = too_long or usual_way(tasks[0])
    return tuple(measure_task(task, *counters, too_long=how) for task in tasks)


def usual_way(task: RetrievalTask) -> str:
    """The default for documents that are not read whole, which would bias positions if cut."""
    return "leave-out" if task.evidence else "cut"


def refuse_similarity(subject: Subject, indexes: Sequence[str] = ("whole",)) -> None:
    """Raise if vectors of the model cannot be searched by exact inner products."""
    if subject.similarity not in ("cosine", "dot"):
        raise UnsupportedModel(
            f"this model compares vectors by {subject.similarity}: only cosine and dot can be "
            "searched exactly."
        )
    late = [index for index in indexes if index.startswith("late")]
    if subject.is_open and late:
        refuse_other_spaces(subject.model, late[0])
        if subject.similarity != "cosine":
            raise UnsupportedModel(
                "late chunks have no length of their own, and this model compares by inner product."
            )


def _query(measured: MeasuredTask, query: Query) -> Text:
    return Text(query.text, measured.query_lengths[query.id], language=query.language)


def _index(
    run: Run, names: Sequence[str], plan: IndexPlan, encoder: Encoder, *, normalise: bool
) -> Vectors:
    """The vectors of an index of these documents, read from the store."""
    late = plan.kind.startswith("late")
    key = encoder.span_key if late else encoder.key
    texts = [plan.texts[name] for name in names]
    stored = run.store.get(key(text) for parts in texts for text in parts)
    vectors = [[stored[key(text)] for text in parts] for parts in texts]
    dimension = len(vectors[0][0]) // (len(texts[0][0].spans) if late else 1)
    index = assemble(plan.kind, vectors, dimension, normalise=normalise)
    if encoder.common is not None and plan.kind.endswith("mean"):
        return replace(index, vectors=encoder.common.level(index.vectors))
    return index
