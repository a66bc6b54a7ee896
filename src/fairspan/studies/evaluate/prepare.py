"""`PreparedEvaluation`: queries and documents are read, and nothing is embedded yet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fairspan.calibration.treatment import Treatment
from fairspan.encoding.tokens import ModelTokens
from fairspan.errors import CorpusError
from fairspan.retrieval.indexes import ONE_PER_CHUNK, IndexPlan
from fairspan.retrieval.languages import combine_languages
from fairspan.retrieval.measured import MeasuredTask
from fairspan.retrieval.source import PAGES, PASSAGES, LanguageSource, PassageSource
from fairspan.retrieval.splitting import link_queries
from fairspan.runs.fit_part import FitPart, choose_fit_part
from fairspan.runs.header import Header, TaskInfo, WindowInfo
from fairspan.runs.prepared import Work
from fairspan.runs.progress import Progress
from fairspan.runs.searching import Searching, measure_tasks, refuse_similarity, usual_way
from fairspan.runs.subject import Pair, Subject, Treated, fit_pairs, level_note
from fairspan.runs.suited import refuse_unsuited
from fairspan.runs.windows import limit_note, window_notes, windows_of
from fairspan.studies.evaluate.haystack import among_words
from fairspan.studies.evaluate.measures import EvaluateEntries
from fairspan.studies.evaluate.options import EvaluateOptions

_LENGTH = (
    "queries have up to {} tokens; tune uses shorter ones, so it finds less in the same documents"
)
_NO_POSITIONS = (
    "across languages, results are not shown by position of the evidence: "
    "evaluate one language for that"
)


@dataclass(frozen=True)
class PreparedEvaluation:
    """An evaluation that is ready to run: a task for each index, and texts to fit on."""

    subject: Subject
    options: EvaluateOptions
    tasks: tuple[MeasuredTask, ...]
    fit: FitPart

    @cached_property
    def searching(self) -> Searching:
        options = self.options
        way = options.too_long or options.searched.too_long or usual_way(self.tasks[0].task)
        may_cut = way == "cut" or (options.task == PASSAGES and options.too_long is None)
        return Searching(
            self.subject, self.tasks, options.metrics, options.chunk_tokens, may_cut=may_cut
        )

    @cached_property
    def plans(self) -> dict[str, IndexPlan]:
        """What each index embeds; no reference if each document is one chunk."""
        plans = {index: self.searching.plan(index) for index in self.options.kinds}
        if self.options.indexes is None and len(plans) > 1:
            chunks = plans[ONE_PER_CHUNK]
            if len(chunks.flat) == len(chunks.texts):
                del plans[ONE_PER_CHUNK]
        return plans

    def plans_of(self, treatment: Treatment) -> list[IndexPlan]:
        kinds = self.options.indexes_of(treatment)
        return [self.plans[kind] for kind in kinds if kind in self.plans]

    def embedded(
        self, treatment: Treatment, under: Callable[[Treatment], Treated]
    ) -> tuple[Pair, ...]:
        """Everything that is embedded for a treatment, with what embeds it."""
        treated = under(treatment)
        fitted = fit_pairs(treatment, self.fit, under)
        indexes = [(treated.documents, plan.flat) for plan in self.plans_of(treatment)]
        return (*fitted, (treated.queries, self.searching.queries()), *indexes)

    def work(self, under: Callable[[Treatment], Treated]) -> list[Work]:
        """One line per treatment, with how far it reads and how many documents it cuts."""
        facts = {
            info.treatment: {"reads": info.window, "cut": info.cut}
            for info in self._windows
            if info.texts == "documents"
        }
        return [
            Work(treatment.name, self.embedded(treatment, under), facts=facts[treatment.name])
            for treatment in self.options.all_treatments
        ]

    @property
    def scope(self) -> str:
        queries = f"{len(self.searching.queries()):,} queries in {self._task.clusters:,} clusters"
        count = len(self.options.all_treatments)
        treatments = f" × {count} treatments" if count > 1 else ""
        among = among_words(self._task, self._entries, self.options.corpus)
        return f"{queries} {among}{treatments}"

    @cached_property
    def _windows(self) -> list[WindowInfo]:
        return windows_of(self.subject, self.options.all_treatments, self.searching.lengths())

    @property
    def text_hashes(self) -> list[Any]:
        return [measured.task.fingerprint for measured in self.tasks]

    @cached_property
    def _task(self) -> TaskInfo:
        """What is searched, as the log says it."""
        tasks = [measured.task for measured in self.tasks]
        languages = self._languages
        positions = "fifths" if tasks[0].evidence and not languages else None
        return TaskInfo(
            source=self.options.task,
            names=[task.name for task in tasks],
            queries=sum(len(task.queries) for task in (tasks[:1] if languages else tasks)),
            documents=len({document.id for task in tasks for document in task.documents}),
            fingerprints=[task.fingerprint for task in tasks],
            indexes=len(tasks),
            clusters=len(self.searching.clusters),
            positions="segments" if tasks[0].lead else positions,
            languages=languages or None,
        )

    @cached_property
    def _languages(self) -> list[str]:
        """Those that are searched across."""
        task = self.tasks[0].task
        return list(dict.fromkeys(query.language for query in task.queries if task.across))

    @property
    def _entries(self) -> EvaluateEntries:
        """What the log says of documents that are not searched."""
        tasks = [measured.task for measured in self.tasks]
        drawn_from = None
        if any(task.drawn_from for task in tasks):
            drawn_from = round(np.mean([task.drawn_from or len(task.documents) for task in tasks]))
        left_out = [name for task in tasks for name in task.left_out]
        return EvaluateEntries(drawn_from=drawn_from, left_out=left_out)

    @property
    def notes(self) -> list[str]:
        of_tasks = (note.rstrip(".") for measured in self.tasks for note in measured.task.notes)
        windows = window_notes(self._windows, self.subject.counter.unit)
        level = level_note(self.subject, self.options.all_treatments)
        notes = [*windows, *dict.fromkeys(of_tasks), *level]
        return ["; ".join(notes)] if notes else []

    def describe(self, header: Header) -> Header:
        """The header with the task and how far it is read."""
        tasks = [measured.task for measured in self.tasks]
        details = limit_note(self.subject, self.searching.lengths()["documents"])
        if self._languages and tasks[0].evidence:
            details.append(_NO_POSITIONS)
        if isinstance(self.options.searched, PassageSource):
            details.append(_LENGTH.format(self.options.query_tokens))
        plans = dict.fromkeys(f"{task.lead}:{task.later}" for task in tasks if task.lead)
        return replace(
            header,
            task=self._task,
            plans=list(plans),
            windows=self._windows,
            study=replace(self._entries, details=details),
        )


def prepare_evaluation(
    subject: Subject, options: EvaluateOptions, progress: Progress
) -> PreparedEvaluation:
    """Read, draw and measure, without embedding anything."""
    subject = subject.with_prompts(options.prompt, options.query_prompt)
    # Pages and shortened documents fit under every treatment; of other texts some are cut.
    fitting = options.task == PAGES or options.too_long not in (None, "cut")
    subject = subject.reading(options.all_treatments, whole=fitting and not subject.set_further)
    refuse_similarity(subject, options.kinds)
    compared = options.compared
    late = [index for index in options.kinds if index.startswith("late")]
    on_tokens = [item for item in compared if {*late} & {*options.indexes_of(item)}]
    refuse_unsuited(subject, compared, on_tokens=on_tokens, beyond=late)
    progress.stage("reading the task")
    source = options.searched
    too_long = options.too_long or source.too_long
    by_chunks = options.too_long is None and ONE_PER_CHUNK in options.kinds
    counter = subject.counter
    is_cut = isinstance(source, PassageSource) and (by_chunks or too_long == "cut")
    if is_cut and isinstance(counter, ModelTokens):
        # Passages are from all of a document, also where no treatment reads it whole.
        counter.window = subject.asked
    tasks = measure_tasks(subject, source.read(counter), too_long)
    if isinstance(source, LanguageSource):
        tasks = combine_languages(tasks, seed=options.seed)
    tasks = link_queries(tasks)
    _refuse_unknown_segments(options, tasks)
    prepared = PreparedEvaluation(subject, options, tasks, _fit_part(options, subject, tasks))
    if len(prepared.searching.clusters) < 2:
        raise CorpusError(
            "all queries are about one document, and errors need 2: add queries about others."
        )
    return prepared


def _fit_part(options: EvaluateOptions, subject: Subject, tasks: Sequence[MeasuredTask]) -> FitPart:
    """The texts that whitening is fitted on; none of them is searched or asked."""
    if not any(treatment.whitens for treatment in options.compared):
        return FitPart()
    searched = [measured.task for measured in tasks]
    tested = {query.text for task in searched for query in task.queries}
    for document in {document for task in searched for document in task.documents}:
        # A page has the beginning of a segment, and the corpus has its end as well.
        tested |= {document.text, *(document.text[slice(*span)] for span in document.spans)}
    model = (subject.model, subject.counter)
    return choose_fit_part(options.compared, *model, options.fitting, tested, seed=options.seed)


def _refuse_unknown_segments(options: EvaluateOptions, tasks: Sequence[MeasuredTask]) -> None:
    """Raise if a treatment needs segments of documents that have none."""
    by_segments = [treatment.name for treatment in options.compared if treatment.by_segments]
    without = sum(not document.spans for measured in tasks for document in measured.task.documents)
    if by_segments and without:
        raise CorpusError(
            f"{by_segments[0]} makes every segment a basket, and of {without} documents the "
            "segments are not known: omit it, or give their borders."
        )
