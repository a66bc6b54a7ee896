"""`Searching`: a task as a model searches it: what is embedded, the indexes, the rows."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from fairspan.calibration.treatment import PLAIN, as_treatment
from fairspan.encoding.encoder import Encoder
from fairspan.encoding.endpoint import Endpoint
from fairspan.encoding.fill import tokens_read
from fairspan.encoding.text import Text
from fairspan.model.averages import unit
from fairspan.retrieval.indexes import FUSED, KEYWORDS, WHOLE, IndexPlan, assemble, plan_index
from fairspan.retrieval.keywords import KeywordIndex, fuse
from fairspan.retrieval.measured import MeasuredTask
from fairspan.retrieval.search import ranks, search
from fairspan.retrieval.task import Passage
from fairspan.runs.run import Run
from fairspan.runs.subject import Subject
from fairspan.runs.treated import Treated
from fairspan.studies.evaluate.entries import IndexCost
from fairspan.studies.evaluate.ranking import Answers

_ROUNDING = 1e-5
"""Smaller changes, as a share of a vector's length, may be rounding in float32."""
_ROOM = 10.0
"""Larger changes than this many times the noise of a text count as changes."""


@dataclass(frozen=True)
class Searching:
    """A task in the tokens of the model that searches it."""

    subject: Subject
    measured: MeasuredTask
    metrics: tuple[str, ...]

    @cached_property
    def answers(self) -> Answers:
        return Answers.of(self.measured)

    @cached_property
    def documents(self) -> Mapping[str, Passage]:
        return {document.id: document for document in self.measured.task.documents}

    @cached_property
    def queries(self) -> list[Text]:
        lengths = self.measured.query_lengths
        return [
            Text(query.text, lengths[query.id], language=query.language)
            for query in self.measured.task.queries
        ]

    def lengths(self) -> dict[str, list[int]]:
        """Tokens of documents, of queries, and of documents up to each query's evidence."""
        added = 1 + self.subject.counter.count_whole([""])[0]
        positions = self.measured.positions.values()
        return {
            "documents": list(self.measured.lengths.values()),
            "queries": [text.length for text in self.queries],
            "evidence": [position.offset + added for position in positions],
        }

    def plan(self, index: str) -> IndexPlan:
        """What an index has to embed; the plain model and every treatment read its chunks whole."""
        readers = (as_treatment(PLAIN), *self.subject.treatments)
        counter = replace(self.subject, treatments=readers, whole=True).counter
        documents = list(self.documents.values())
        return plan_index(index, documents, self.measured.lengths, counter)

    def search_keywords(self) -> pl.DataFrame:
        """The rows of a search without vectors."""
        label = {"treatment": KEYWORDS, "index": KEYWORDS}
        return self.answers.metric_rows(self._by_keywords, self.metrics, label)

    @cached_property
    def _by_keywords(self) -> np.ndarray:
        """[Q, k], what keywords find."""
        index = KeywordIndex([self.documents[name].text for name in self.answers.names])
        texts = [query.text for query in self.measured.task.queries]
        return index.search(texts, self.answers.deepest)

    def index_and_search(
        self, run: Run, treated: Treated, plan: IndexPlan, first: Treated | None
    ) -> tuple[pl.DataFrame, IndexCost]:
        """Embed what an index holds and search it: the rows, and what it takes.

        `first` is what vectors of whole documents are compared with.
        """
        run.prove_whole(treated.documents, plan.flat, may_cut=True)
        before = run.tally.computed_tokens
        started = time.monotonic()
        run.fill(treated.documents, plan.flat)
        seconds = time.monotonic() - started
        computed = run.tally.computed_tokens - before
        rows, vectors = self._search(run, treated, plan)
        # What the store had took no time, so that the time of all is estimated from the rest.
        tokens = tokens_read(treated.documents, plan.flat)
        took = seconds * tokens / computed if computed else None
        moved: tuple[int | None, float | None] = (None, None)
        if first is not None and plan.kind == WHOLE:
            moved = _moved(run, first.documents, treated.documents, plan.flat)
        cost = IndexCost(
            treatment=treated.treatment.name,
            index=plan.kind,
            documents=len(plan.texts),
            tokens=tokens,
            seconds=None if took is None else round(took, 3),
            vectors=len(vectors),
            bytes=vectors.nbytes,
            changed=moved[0],
            distance=moved[1],
        )
        return rows, cost

    def _search(
        self, run: Run, treated: Treated, plan: IndexPlan
    ) -> tuple[pl.DataFrame, np.ndarray]:
        """The rows of an index, alone and fused with keywords, and its vectors."""
        answers = self.answers
        cosine = self.subject.similarity == "cosine"
        texts = [plan.texts[name] for name in answers.names]
        vectors = run.read(treated.documents, [text for parts in texts for text in parts])
        index = assemble(vectors, list(map(len, texts)), normalise=cosine)
        asked = run.read(treated.queries, self.queries)
        queries = unit(asked) if cosine else asked
        hits = search(queries, index.vectors, answers.deepest, owners=index.owners)
        label = {"treatment": treated.treatment.name, "index": plan.kind}
        tables = [answers.metric_rows(hits, self.metrics, label)]
        if plan.kind == WHOLE:
            fused = fuse(answers.counted(hits), answers.counted(self._by_keywords))
            tables.append(answers.metric_rows(fused, self.metrics, {**label, "index": FUSED}))
            pairs = np.concatenate([answers.pairs, answers.omitted_pairs])
            ranked = ranks(queries, index.vectors, pairs, owners=index.owners)
            counted = answers.counted_ranks(*np.split(ranked, [len(answers.pairs)]))
            tables.append(answers.rank_rows(counted, label))
        return pl.concat(tables), index.vectors


def _moved(run: Run, first: Encoder, second: Encoder, texts: Sequence[Text]) -> tuple[int, float]:
    """How many texts have other vectors than before, and their mean distance from there."""
    before = run.read(first, texts).astype(np.float64)
    after = run.read(second, texts).astype(np.float64)
    lengths = np.linalg.norm(before, axis=1)
    changes = np.linalg.norm(after - before, axis=1) / lengths
    cosines = (before * after).sum(1) / lengths / np.linalg.norm(after, axis=1)
    changed = changes > _noise(run, second, texts)
    return int(changed.sum()), round(float((1 - cosines)[changed].sum() / len(texts)), 6)


def _noise(run: Run, encoder: Encoder, texts: Sequence[Text]) -> float:
    """How much vectors of the same text may differ, as a share of their length.

    One text is embedded alone, once more. What an endpoint embeds may cost money.
    """
    if isinstance(encoder.model, Endpoint):
        return _ROUNDING
    text = sorted(texts, key=lambda text: text.length)[len(texts) // 2]
    ((piece, *_),) = encoder.pieces([text])
    stored = run.store.get([encoder.key(piece)])[encoder.key(piece)]
    (again,) = encoder.vectors([piece])
    difference = np.linalg.norm(again - stored) / np.linalg.norm(stored)
    return max(_ROUNDING, _ROOM * float(difference))
