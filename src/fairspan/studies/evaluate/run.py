"""`evaluate`: does a treatment help search, and wherever the evidence lies?"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sentence_transformers import SentenceTransformer

from fairspan.calibration.treatment import Treatment
from fairspan.encoding.encoder import AnyEncoder, Encodes, Text
from fairspan.encoding.fill import Tally, fill
from fairspan.encoding.store import Store, default_store
from fairspan.encoding.whole import refuse_unread_end
from fairspan.errors import TaskError, UnsupportedModel
from fairspan.retrieval.indexes import IndexPlan, Vectors, assemble
from fairspan.retrieval.measured import MeasuredTask
from fairspan.retrieval.metrics import parse_metric
from fairspan.retrieval.search import ranks, search
from fairspan.runs.bases import embed_through
from fairspan.runs.log import AuditLog, LogWriter
from fairspan.runs.progress import Progress, Silent
from fairspan.runs.runner import DEFAULT_RUNS, batch_budget, described, finished, write_run
from fairspan.studies.evaluate.prepare import PreparedEvaluation, encoders_of, prepare_evaluation
from fairspan.studies.evaluate.rows import DEPTH, rank_rows, relevant_pairs, search_rows
from fairspan.studies.evaluate.run_mteb import MTEB, evaluate_mteb
from fairspan.studies.evaluate.spec import PAGES, EvaluationSpec, make_evaluation

# Two passes over the same tokens differ by rounding, here with room for half precision.
_SAME = 1e-4


def evaluate(
    model: SentenceTransformer | Encodes | str | None = None,
    task: str | None = None,
    *,
    spec: EvaluationSpec | None = None,
    name: str | None = None,
    out: Path | str | None = None,
    store: Path | str | None = None,
    batch_tokens: int | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> AuditLog:
    """Search a collection with a model as it is and as each treatment makes it.

    Args:
        model: as in `audit`.
        task: "pages", the folder or file of a collection, "beir:FOLDER" or "mteb:NAME".
        spec: what to search; or give its fields as `options`: corpus, treatments, indexes …
        name, out, store, batch_tokens, fresh: as in `audit`.

    Returns:
        The log, with one row for each query, metric, treatment and index; `fairspan.studies.evaluate.summary` makes
        statistics of it.
    """
    progress = progress or Silent()
    if spec is not None and (options or task is not None):
        given = "task" if task is not None else next(iter(options))
        raise TaskError(f"{given} belongs to the spec: set it there, or leave spec away.")
    spec = spec or make_evaluation(PAGES if task is None else task, **options)
    if spec.task.startswith(MTEB):
        if isinstance(model, SentenceTransformer | str | None):
            return evaluate_mteb(model, spec, name=name, out=out, fresh=fresh, progress=progress)
        raise UnsupportedModel(f"mteb is run with a SentenceTransformer, got {type(model).__name__}.")
    prepared = prepare_evaluation(model, spec, name=name, progress=progress)
    return run_evaluation(prepared, out=out, store=store, batch_tokens=batch_tokens, fresh=fresh, progress=progress)


def run_evaluation(
    prepared: PreparedEvaluation,
    *,
    out: Path | str | None = None,
    store: Path | str | None = None,
    batch_tokens: int | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> AuditLog:
    """Embed what the store does not have, search, and write the log."""
    progress = progress or Silent()
    budget = batch_budget(prepared.model, batch_tokens)
    folder = Path(out) if out is not None else DEFAULT_RUNS / prepared.run
    done = finished(folder, prepared.run, fresh=fresh or prepared.fingerprint is None)
    if done is not None:
        return done

    def work(writer: LogWriter, tally: Tally) -> None:
        with Store(":memory:" if prepared.fingerprint is None else store or default_store()) as vectors:
            _Search(prepared, vectors, writer, budget, tally, progress).run()

    return write_run(folder, _header(prepared), work)


class _Search:
    """One evaluation while it runs."""

    def __init__(
        self,
        prepared: PreparedEvaluation,
        store: Store,
        writer: LogWriter,
        budget: int,
        tally: Tally,
        progress: Progress,
    ) -> None:
        self.prepared, self.spec, self.store, self.writer = prepared, prepared.spec, store, writer
        self.budget, self.tally, self.progress = budget, tally, progress
        self.embed = embed_through(store, budget=budget, tally=tally, progress=progress.advance)
        self.encoders: dict[str, tuple[AnyEncoder, AnyEncoder]] = {}

    def run(self) -> None:
        queries = self.prepared.queries()
        plans = {index: self.prepared.plan(index) for index in self.spec.indexes}
        plans.setdefault("whole", self.prepared.plan("whole"))
        asked = sum(text.length for text in queries)
        total = 0
        for treatment in self.spec.measured:
            total += asked + sum(plans[index].tokens for index in self.spec.indexes_of(treatment))
            total += self.prepared.fit.tokens if treatment.whitens else 0
        self.progress.start(total)
        for treatment in self.spec.measured:
            self.progress.stage(f"{treatment.name}: queries")
            for_queries, for_documents = self._encoders(treatment)
            self._fill(for_queries, queries)
            twin = self.spec.twin_of(treatment)
            if twin is not None and self._same_queries(queries, for_queries, self._encoders(twin)[0]):
                note = f"{twin.name} leaves these queries as they are, so it is the same on documents only"
                self.writer.header["notes"].append(note)
                self.progress.advance(sum(plans[index].tokens for index in self.spec.indexes_of(treatment)))
                continue
            # Late chunks are read in the same pass as whole documents, which then are there already.
            for index in sorted(self.spec.indexes_of(treatment), key=lambda name: not name.startswith("late")):
                self.progress.stage(f"{treatment.name}: {index}")
                self._measure(treatment, plans[index], for_queries, for_documents)
        self.progress.stop()

    def _encoders(self, treatment: Treatment) -> tuple[AnyEncoder, AnyEncoder]:
        if treatment.name not in self.encoders:
            self.encoders[treatment.name] = encoders_of(self.prepared, treatment, self.embed)
        return self.encoders[treatment.name]

    def _same_queries(self, queries: Sequence[Text], one: AnyEncoder, other: AnyEncoder) -> bool:
        """Whether two treatments embed all queries alike, up to rounding."""
        first, second = (np.stack(self._read([encoder.key(text) for text in queries])) for encoder in (one, other))
        scale = np.linalg.norm(first, axis=1)
        return bool((np.linalg.norm(first - second, axis=1) <= _SAME * scale).all())

    def _measure(
        self, treatment: Treatment, plan: IndexPlan, for_queries: AnyEncoder, for_documents: AnyEncoder
    ) -> None:
        self._prove_whole(for_documents, plan)
        computed, started = self.tally.computed_tokens, time.monotonic()
        self._fill(for_documents, plan.flat)
        computed, seconds = self.tally.computed_tokens - computed, time.monotonic() - started
        rows, sizes = [], []
        for measured in self.prepared.tasks:
            made, size = self._search(measured, plan, treatment, for_queries, for_documents)
            rows.append(made)
            sizes.append(size)
        # What was found in the store took no time, so the time of all of it is told from the rest.
        took = seconds * plan.tokens / computed if computed else None
        window = self.prepared.counter.window
        self.writer.header["costs"].append(
            {
                "treatment": treatment.name,
                "index": plan.kind,
                "documents": len(plan.texts),
                "tokens": sum(min(text.length, window) for text in plan.flat) if window else plan.tokens,
                "seconds": None if took is None else round(took, 3),
                "vectors": sum(count for count, _ in sizes),
                "bytes": sum(size for _, size in sizes),
                "searched_documents": sum(len(measured.task.documents) for measured in self.prepared.tasks),
            }
        )
        self.writer.add(pl.concat(rows))

    def _search(
        self,
        measured: MeasuredTask,
        plan: IndexPlan,
        treatment: Treatment,
        for_queries: AnyEncoder,
        for_documents: AnyEncoder,
    ) -> tuple[pl.DataFrame, tuple[int, int]]:
        task = measured.task
        # Of equal scores the later id comes first, as in trec_eval.
        names = sorted((document.id for document in task.documents), reverse=True)
        index = self._index(names, plan, for_documents)
        asked = self._read(
            [for_queries.key(Text(query.text, measured.query_lengths[query.id])) for query in task.queries]
        )
        queries = assemble("whole", [[vector] for vector in asked], len(asked[0]), normalise=self.prepared.cosine)
        depth = max([DEPTH, *(parse_metric(metric).at or 0 for metric in self.spec.metrics)])
        hits = search(queries.vectors, index.vectors, depth, owners=index.owners)
        rows = search_rows(
            measured,
            hits.numbers,
            names,
            self.spec.metrics,
            self.prepared.clusters,
            run=self.writer.header["run"],
            model=self.prepared.name,
            treatment=treatment.name,
            index=plan.kind,
        )
        asked_for = relevant_pairs(task, names)
        found = ranks(queries.vectors, index.vectors, asked_for, owners=index.owners)
        rows = pl.concat([rows, rank_rows(measured, asked_for, found, names, rows)])
        return rows, (len(index.vectors), index.bytes)

    def _index(self, names: Sequence[str], plan: IndexPlan, encoder: AnyEncoder) -> Vectors:
        late = plan.kind.startswith("late")
        key = encoder.span_key if late else encoder.key
        texts = [plan.texts[name] for name in names]
        found = self.store.get(key(text) for own in texts for text in own)
        vectors = [[found[key(text)] for text in own] for own in texts]
        first = texts[0][0]
        dimension = len(vectors[0][0]) // (len(first.spans) if late else 1)
        return assemble(plan.kind, vectors, dimension, normalise=self.prepared.cosine)

    def _prove_whole(self, encoder: AnyEncoder, plan: IndexPlan) -> None:
        """Before anything is embedded: the longest text that should be read whole really is."""
        window = self.prepared.counter.window
        cut = {
            document.text
            for one in self.prepared.tasks
            for document in one.task.documents
            if window is not None and one.lengths[document.id] > window
        }
        longest = max(
            (text for text in plan.flat if text.text not in cut), key=lambda text: text.length, default=None
        )
        if longest is not None and self.store.missing([encoder.key(longest)]):
            refuse_unread_end(encoder, longest, self.tally)

    def _fill(self, encoder: AnyEncoder, texts: Sequence[Text]) -> None:
        fill(encoder, texts, self.store, budget=self.budget, tally=self.tally, progress=self.progress.advance)

    def _read(self, keys: Sequence[bytes]) -> list[np.ndarray]:
        found = self.store.get(keys)
        return [found[key] for key in keys]


def _header(prepared: PreparedEvaluation) -> Mapping[str, Any]:
    tasks = [one.task for one in prepared.tasks]
    documents = {document.id for task in tasks for document in task.documents}
    details = {"window": prepared.counter.window, "prompts": dict(prepared.prompts)}
    return {
        "verb": "evaluate",
        "run": prepared.run,
        "model": described(prepared.model, prepared.name, prepared.fingerprint, **details),
        "task": {
            "source": prepared.spec.task,
            "names": [task.name for task in tasks],
            "fingerprints": [task.fingerprint for task in tasks],
            "indexes": len(tasks),
            "queries": sum(len(task.queries) for task in tasks),
            "documents": len(documents),
            "positions": "segments" if tasks[0].lead else "fifths" if tasks[0].evidence else None,
            "clusters": len(prepared.clusters),
        },
        "plans": list(dict.fromkeys(f"{task.lead}:{task.later}" for task in tasks if task.lead)),
        "token_unit": prepared.counter.unit,
        "seed": prepared.spec.design.seed,
        "spec": prepared.spec.to_dict(),
        "costs": [],
        "notes": [*dict.fromkeys(note for task in tasks for note in task.notes), *prepared.fit.notes],
    }
