"""`PreparedEvaluation`: an evaluation with every query and document at hand and nothing embedded yet."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairspan.design.lengths import TokenCounter
from fairspan.encoding.encoder import Text, refuse_other_spaces
from fairspan.errors import TaskError, UnsupportedModel
from fairspan.retrieval.indexes import IndexPlan, plan_index
from fairspan.retrieval.measured import MeasuredTask, measure_task
from fairspan.retrieval.pages import build_pages
from fairspan.retrieval.task import Passage, RetrievalTask
from fairspan.runs.fit_part import FitPart, choose_fit_part
from fairspan.runs.progress import Progress, Silent
from fairspan.runs.subject import Subject
from fairspan.runs.windows import limit_note, window_notes, windows_of
from fairspan.studies.evaluate.reading import read_collection, read_pages
from fairspan.studies.evaluate.spec import PAGES, EvaluationSpec


@dataclass(frozen=True, slots=True)
class PreparedEvaluation:
    """An evaluation that is ready to run, with a task for each index and texts to fit on, which are not searched."""

    subject: Subject
    spec: EvaluationSpec
    tasks: tuple[MeasuredTask, ...]
    fit: FitPart

    @property
    def decisive(self) -> list[Any]:
        return [one.task.fingerprint for one in self.tasks]

    @property
    def header(self) -> dict[str, Any]:
        tasks = [one.task for one in self.tasks]
        lengths = self._lengths()
        windows = windows_of(self.subject, self.spec.measured, lengths)
        return {
            "verb": "evaluate",
            "task": {
                "source": self.spec.task,
                "names": [task.name for task in tasks],
                "fingerprints": [task.fingerprint for task in tasks],
                "indexes": len(tasks),
                "queries": sum(len(task.queries) for task in tasks),
                "documents": len({document.id for task in tasks for document in task.documents}),
                "positions": "segments" if tasks[0].lead else "fifths" if tasks[0].evidence else None,
                "clusters": len(self.clusters),
            },
            "plans": list(dict.fromkeys(f"{task.lead}:{task.later}" for task in tasks if task.lead)),
            "costs": [],
            "windows": windows,
            "notes": [
                *dict.fromkeys(note for task in tasks for note in task.notes),
                *window_notes(windows, self.subject.counter.unit),
                *limit_note(self.subject, lengths["documents"]),
            ],
        }

    @property
    def clusters(self) -> dict[str, int]:
        """A number for every cluster of queries, in order of appearance."""
        names = dict.fromkeys(query.cluster or query.id for one in self.tasks for query in one.task.queries)
        return {name: number for number, name in enumerate(names)}

    def queries(self) -> list[Text]:
        """Every different query."""
        texts = {query.text: one.query_lengths[query.id] for one in self.tasks for query in one.task.queries}
        return [Text(text, length) for text, length in texts.items()]

    def _lengths(self) -> dict[str, list[int]]:
        """Of documents and queries, and how far a document has to be read for a query's evidence to be seen."""
        documents = {own.id: one.lengths[own.id] for one in self.tasks for own in one.task.documents}
        added = 1 + self.subject.counter.count_whole([""])[0]
        return {
            "documents": list(documents.values()),
            "queries": [text.length for text in self.queries()],
            "evidence": [place.offset + added for one in self.tasks for place in one.places.values()],
        }

    def plan(self, index: str) -> IndexPlan:
        """What an index has to embed of all documents. Every treatment can read its chunks whole."""
        documents: dict[str, Passage] = {}
        lengths: dict[str, int] = {}
        for one in self.tasks:
            documents |= {document.id: document for document in one.task.documents}
            lengths |= one.lengths
        counter = replace(self.subject, whole=index != "whole").counter
        return plan_index(index, list(documents.values()), lengths, counter, self.spec.chunk_tokens)


def prepare_evaluation(
    subject: Subject, spec: EvaluationSpec, progress: Progress | None = None
) -> PreparedEvaluation:
    """Read, draw and measure, without embedding anything."""
    subject = subject.with_prompts(spec.prompt, spec.query_prompt).reading(spec.measured)
    _refuse_similarity(subject, spec)
    beyond = [*(["temperature_grid"] if spec.temperature_grid else []), *filter(_is_late, spec.indexes)]
    on_tokens = [one for one in spec.treatments if any(map(_is_late, spec.indexes_of(one)))]
    subject.refuse_unsuited(spec.treatments, on_tokens=on_tokens, beyond=beyond)
    (progress or Silent()).stage("reading the task")
    documents, queries = subject.counters["document"], subject.counters["query"]
    read = read_tasks(spec, documents)
    # Where positions are compared, a document of which only the beginning is read would decide the comparison.
    too_long = spec.too_long or ("leave-out" if read[0].evidence else "cut")
    tasks = tuple(measure_task(task, documents, queries, too_long=too_long) for task in read)
    _refuse_unknown_segments(spec, tasks)
    return PreparedEvaluation(subject, spec, tasks, _fit_part(spec, subject, tasks))


def read_tasks(spec: EvaluationSpec, counter: TokenCounter) -> tuple[RetrievalTask, ...]:
    """The indexes to search: one for each edition of pages, one for any collection."""
    if spec.task == PAGES:
        plans, corpus = read_pages(spec)
        return build_pages(corpus, plans, spec.design, counter, spec.queries)
    return (read_collection(spec),)


def _fit_part(spec: EvaluationSpec, subject: Subject, tasks: Sequence[MeasuredTask]) -> FitPart:
    if not any(treatment.whitens for treatment in spec.treatments):
        return FitPart()
    source, languages = spec.fit_corpus, spec.fit_languages
    if spec.task == PAGES:
        source = source or spec.corpus
        languages = tuple(dict.fromkeys(language for one in tasks for language in (one.task.lead, one.task.later)))
    tested = {query.text for one in tasks for query in one.task.queries}
    for document in {document for one in tasks for document in one.task.documents}:
        # A page has the beginning of a segment, and the corpus has its end as well.
        tested |= {document.text, *(document.text[slice(*span)] for span in document.spans)}
    model, seed = subject.model, spec.design.seed
    return choose_fit_part(spec.treatments, model, subject.counter, source, languages, tested, seed=seed)


def _refuse_unknown_segments(spec: EvaluationSpec, tasks: Sequence[MeasuredTask]) -> None:
    by_segments = [treatment.name for treatment in spec.treatments if treatment.by_segments]
    without = sum(not document.spans for one in tasks for document in one.task.documents)
    if by_segments and without:
        raise TaskError(
            f"{by_segments[0]} makes every segment a basket, and of {without} documents the segments are not known: "
            "omit it, or give their borders."
        )


def _is_late(index: str) -> bool:
    return index.startswith("late")


def _refuse_similarity(subject: Subject, spec: EvaluationSpec) -> None:
    if subject.similarity not in ("cosine", "dot"):
        raise UnsupportedModel(
            f"this model compares vectors by {subject.similarity}: only cosine and dot can be searched exactly."
        )
    if subject.is_open and any(map(_is_late, spec.indexes)):
        refuse_other_spaces(subject.model)
        if subject.similarity != "cosine":
            raise UnsupportedModel(
                "late chunks have no length of their own, and this model compares by inner product."
            )
