"""`SearchTexts`: what an evaluation embeds: queries, and documents as indexes keep them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from fairspan.calibration.treatment import PLAIN, Treatment, as_treatment
from fairspan.encoding.text import Text
from fairspan.errors import CorpusError, UnsupportedModel
from fairspan.retrieval.clusters import link_queries
from fairspan.retrieval.indexes import ONE_PER_CHUNK, IndexPlan
from fairspan.retrieval.measured import measure_task
from fairspan.retrieval.source import PASSAGES
from fairspan.runs.embedder import Pair
from fairspan.runs.header import Header, TaskInfo, WindowInfo
from fairspan.runs.levelling import level_note, level_pairs
from fairspan.runs.progress import Progress
from fairspan.runs.subject import Subject
from fairspan.runs.suited import refuse_unsuited
from fairspan.runs.treated import Treated
from fairspan.runs.windows import limit_note, window_notes, windows_of
from fairspan.studies.evaluate.entries import EvaluateEntries
from fairspan.studies.evaluate.options import EvaluateOptions
from fairspan.studies.evaluate.searching import Searching


@dataclass(frozen=True)
class SearchTexts:
    """The queries and documents of an evaluation."""

    subject: Subject
    options: EvaluateOptions
    searching: Searching

    @cached_property
    def plans(self) -> dict[str, IndexPlan]:
        """What each index embeds; no reference if each document is one chunk."""
        kinds = {
            kind: None
            for treatment in self.options.all_treatments
            for kind in self.options.indexes_of(treatment)
        }
        plans = {kind: self.searching.plan(kind) for kind in kinds}
        if not self.options.compares_vectors and len(plans) > 1:
            chunks = plans[ONE_PER_CHUNK]
            if len(chunks.flat) == len(chunks.texts):
                del plans[ONE_PER_CHUNK]
        return plans

    def plans_of(self, treatment: Treatment) -> list[IndexPlan]:
        kinds = self.options.indexes_of(treatment)
        return [self.plans[kind] for kind in kinds if kind in self.plans]

    def stages(self, under: Callable[[Treatment], Treated]) -> dict[str, list[Pair]]:
        """By treatment."""
        stages = {}
        queries: list[Text] = list(dict.fromkeys(self.searching.queries))
        for treatment in self.options.all_treatments:
            treated = under(treatment)
            indexes = [(treated.documents, plan.flat) for plan in self.plans_of(treatment)]
            embedded = [(treated.queries, queries), *indexes]
            stages[treatment.name] = [*level_pairs(self.subject, treatment), *embedded]
        return stages

    @cached_property
    def windows(self) -> tuple[WindowInfo, ...]:
        return windows_of(self.subject, self.options.all_treatments, self.searching.lengths())

    @property
    def text_hashes(self) -> list[Any]:
        return [self.searching.measured.task.fingerprint]

    @property
    def info(self) -> TaskInfo:
        """What is searched, as the log says it."""
        task = self.searching.measured.task
        return TaskInfo(
            source=self.options.task,
            names=(task.name,),
            queries=len(task.queries),
            documents=len(task.documents),
            fingerprints=(task.fingerprint,),
            clusters=len(self.searching.answers.clusters),
        )

    @property
    def entries(self) -> EvaluateEntries:
        """What only the log of an evaluation says, before anything is indexed."""
        task = self.searching.measured.task
        searched = self.options.searched
        of_mteb = "a task of mteb" if searched.is_of_mteb else "questions"
        return EvaluateEntries(
            window=self.subject.window(as_treatment(PLAIN)),
            kind=PASSAGES if searched.name == PASSAGES else of_mteb,
            drawn=task.drawn,
            drawn_from=task.drawn_from,
        )

    @property
    def notes(self) -> list[str]:
        """One fact a line."""
        notes = [
            *window_notes(self.windows, self.subject.counter.unit),
            *self.searching.measured.task.notes,
            *limit_note(self.subject, self.searching.lengths()["documents"], windows=self.windows),
            *level_note(self.subject, self.options.all_treatments),
        ]
        if not self.subject.is_open:
            notes.append(
                "how much the model reads is not known, so short and long documents are not told "
                "apart"
            )
        return [note.rstrip(".") for note in notes]

    def describe(self, header: Header) -> Header:
        """The header with the task and how far it is read."""
        return replace(header, task=self.info, windows=self.windows, study=self.entries)


def search_texts(subject: Subject, options: EvaluateOptions, progress: Progress) -> SearchTexts:
    """Read, draw and measure, without embedding anything."""
    subject = subject.with_prompts(options.prompt, options.query_prompt)
    subject = subject.reading(options.all_treatments)
    if subject.similarity not in ("cosine", "dot"):
        raise UnsupportedModel(
            f"this model compares vectors by {subject.similarity}: only cosine and dot can be "
            "searched exactly."
        )
    refuse_unsuited(subject, options.all_treatments)
    progress.stage("reading the task")
    task = link_queries(options.searched.task)
    counters = subject.counters
    measured = measure_task(task, counters["document"], counters["query"])
    searching = Searching(subject, measured, tuple(options.metrics))
    prepared = SearchTexts(subject, options, searching)
    _refuse_unknown_segments(prepared)
    if len(searching.answers.clusters) < 2:
        raise CorpusError(
            "all queries are about one document, and errors need 2: add queries about others."
        )
    return prepared


def _refuse_unknown_segments(prepared: SearchTexts) -> None:
    """Raise if a treatment needs segments of documents that have none."""
    by_segments = [item.name for item in prepared.options.all_treatments if item.by_segments]
    documents = prepared.searching.documents.values()
    without = sum(not document.spans for document in documents)
    if by_segments and without:
        raise CorpusError(
            f"{by_segments[0]} makes every segment a tile, but the segments of {without} "
            "documents are not known: omit it, or add their borders."
        )
